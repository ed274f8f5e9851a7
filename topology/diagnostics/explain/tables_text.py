"""The gap ledger and the tallies as plain text."""

from collections.abc import Iterable, Sequence
from dataclasses import fields

from topology.diagnostics.explain.columns import columns
from topology.diagnostics.explain.formatting import ranges
from topology.diagnostics.explain.gaps import Ledger, OpenGap
from topology.diagnostics.explain.source_totals import SHARE, SourceTotals
from topology.diagnostics.explain.tally import ViewTally
from topology.diagnostics.explain.times import lasting
from topology.diagnostics.explain.work_tally import StageTally, work_text
from topology.model.counted import counted
from topology.model.counts import Counts
from topology.model.printable import printable


def gaps_text(ledger: Ledger) -> str:
    """Write a gap per line, the oldest first, and what else is not well.

    Args:
        ledger: as `gaps` gives it.
    """
    rest = [*map(str, ledger.troubles), *ledger.unseen]
    if ledger.unread:
        there = ": what is missing may lie there, so skip nothing yet" if ledger.streams else ""
        rest.append(f"{counted(ledger.unread, 'offset is', 'offsets are')} not read yet{there}")
    if not ledger.streams:
        what = "nothing waits for something that is missing"
        return "\n".join([f"{what}, but:", *rest] if rest else [f"no gaps: {what}"])
    head = ["age", "view", "stream", "last", "missing", "count", "wait behind", "dead", "skipped"]
    rows = [head, *(_gap(gap, ledger.now) for gap in ledger.gaps)]
    if not any(gap.dead for gap in ledger.gaps):
        for row in rows:
            del row[-2]
    lines = columns(rows)
    more = ledger.streams - len(ledger.gaps)
    shown = f", {more} more not shown" if more else ""
    lines.append(
        f"{counted(ledger.streams, 'stream')} with gaps, {ledger.sequences} missing{shown}"
    )
    return "\n".join([*lines, *rest])


def _gap(gap: OpenGap, now: int) -> list[str]:
    skipped = "never"
    if gap.parked:
        skipped = "set aside"
    elif gap.due is not None:
        skipped = f"in {lasting(gap.due - now)}" if gap.due > now else "due"
    return [
        lasting(now - gap.since), gap.view, printable(gap.stream, 60), str(gap.last),
        ranges(gap.missing, gap.ranges, 3) or "-", "?" if gap.count is None else str(gap.count),
        str(gap.waiting + gap.redelivering), str(gap.dead), skipped,
    ]  # fmt: skip


def tally_text(
    sources: Sequence[SourceTotals],
    views: Sequence[ViewTally],
    share: float = SHARE,
    parallel: Sequence[StageTally] = (),
) -> str:
    """Show what the sources brought, a table of the views' places, what is not well, and verdicts.

    Args:
        sources: what each source brought.
        views: the counts of each view.
        share: of malformed messages, from 0 to 1, from which on they are reported.
        parallel: what `Topology.parallel` declares.
    """
    lines = [source_text(source) for source in sources]
    names = [field.name for field in fields(Counts)]
    used = [n for n in names if n in _ALWAYS or any(getattr(v.counts, n) for v in views)]
    if any(view.work for view in views):
        used.insert(used.index("processed"), "arrived")
    rows = [("view", *used, "lag")]
    rows += [
        (view.view, *(str(_count(view, name)) for name in used), str(view.lag)) for view in views
    ]
    lines += ["", *columns(rows), ""]
    for view in views:
        lines += work_text(view.view, view.work)
    for stage in parallel:
        lines += work_text(stage.name, stage.work)
    lines += [str(trouble) for source in sources for trouble in source.troubles(share)]
    for view in views:
        if view.apart:
            lines.append(f"view {view.view}: reads apart in partitions {_list(view.apart)}")
        lines += [str(trouble) for trouble in view.troubles]
    lines += [str(trouble) for stage in parallel for trouble in stage.troubles]
    lines += [source.wrong for source in sources if source.wrong]
    lines += [view.verdict for view in views]
    return "\n".join(lines)


_ALWAYS = frozenset(("received", "processed", "passed", "duplicate", "waiting"))


def _count(view: ViewTally, name: str) -> int:
    counts: int = view.arrived if name == "arrived" else getattr(view.counts, name)
    return counts


def source_text(source: SourceTotals) -> str:
    """What a source brought, in a line."""
    taken = source.read if source.taken is None else source.taken
    unknown, events = "unknown", counted(taken.events, "event")
    if source.routed:
        parked = f"{taken.parked} parked, " if taken.parked else ""
        unknown, events = "without a destination", f"{parked}{taken.events} routed"
    text = (
        f"{source.named}: {counted(taken.read, 'message')}, of them {taken.malformed} "
        f"malformed, {taken.unknown} {unknown}, {events}"
    )
    if source.taken is not None:
        text += f"; {source.read.read} of them read"
        if source.read.malformed:
            text += f", {source.read.malformed} malformed for their sequence"
        if taken.held:
            text += f"; its partitions waited {counted(taken.held, 'time')} for slower ones"
        if taken.passed:
            text += f", and {counted(taken.passed, 'time')} no longer for one"
    left = source.unkeyed + source.unread
    return f"{text}; {counted(left, 'offset')} to go" if left else text


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
