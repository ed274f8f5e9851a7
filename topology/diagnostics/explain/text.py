"""Accounts, ledgers and tallies as plain text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

from topology.declaration.lanes import split_lane
from topology.diagnostics.explain.account import Account
from topology.diagnostics.explain.columns import columns
from topology.diagnostics.explain.command_log import pending_text
from topology.diagnostics.explain.formatting import numbered
from topology.diagnostics.explain.gaps import Ledger, OpenGap
from topology.diagnostics.explain.missing import Missing
from topology.diagnostics.explain.passed import ranges_of
from topology.diagnostics.explain.stream_context import Arrival, SetAside
from topology.diagnostics.explain.tally import SHARE, SourceTotals, ViewTally
from topology.diagnostics.explain.times import lasting, since
from topology.model.counts import Counts
from topology.model.printable import printable

_WIDTH = 16


def account_text(found: Account) -> str:
    """An account: one line that says it, then what is known, what comes next, what would help."""
    what = found.causes[0] if found.causes else found.situation
    if not found.causes and found.situation == "unknown":
        what = "the view has seen nothing of it"
    if found.unseen and found.situation in ("in order", "unknown"):
        what += ", as far as was looked"
    whose = f"stream {printable(found.stream)}"
    if found.lane is not None:
        own, lane = split_lane(found.stream)
        whose = f"stream {printable(own)}, lane {printable(repr(lane))},"
    lines = [f"{whose} in view {found.view}: {what}"]
    for name, texts in _facts(found):
        for text in texts:
            lines.append(f"  {name:<{_WIDTH}}{text}")
            name = ""
    return "\n".join(lines)


def _facts(found: Account) -> Iterator[tuple[str, Sequence[str]]]:
    now = found.now
    yield "because", found.causes[1:]
    yield "last processed", ["nothing" if found.last is None else str(found.last)]
    if found.missing:
        noticed = "" if found.since is None else f", since {since(now, found.since)}"
        yield "missing", [f"{ranges(found.missing, found.ranges)}{noticed}"]
    if found.waits:
        yield "waiting", [_waiting(found)]
    if found.attempts is not None and found.due is not None:
        yield "retry", [f"number {found.attempts}, {since(now, found.due)}"]
    if found.failure:
        yield "failure", [printable(found.failure, 1000)]
    yield "redelivering", list(_redelivering(found))
    yield "dead", list(_aside(found.dead, found.dying, now))
    yield "lost", list(_aside(found.lost, len(found.lost), now))
    if found.back:
        again = numbered(ranges_of(each.sequence or 0 for each in found.back), len(found.back))
        yield "was dead", [f"{again}: put back, or came another time"]
    yield "failed", list(_aside(found.failed, len(found.failed), now))
    yield "malformed", list(_aside(found.malformed, len(found.malformed), now))
    if found.skipped:
        yield "given up", [", ".join(_pair(*pair) for pair in found.skipped)]
    if found.epoch:
        yield "rebuilt", ["once" if found.epoch == 1 else f"{found.epoch} times"]
    if found.asked:
        yield "to rebuild with", [", ".join(map(str, found.asked))]
    yield "came late", [_arrival(arrival, now) for arrival in found.late]
    if found.newest:
        yield "came last", [_arrival(found.newest, now)]
    unread = f", of them {found.unread} of the stream" if found.unread else ""
    behind = f"{found.lag} behind{unread}" if found.lag or unread else "at its end"
    yield "input", [f"partition {found.partition}, at offset {found.position}, {behind}"]
    if found.unkeyed:
        yield "", [f"{found.unkeyed} offsets of the source topics are not re-keyed yet"]
    if found.requested:
        last = [each for each in found.requested if each.when == found.requested[-1].when]
        asked = tuple((each.first, each.last) for each in last)
        yield "asked for", [f"{numbered(asked).split(' ', 1)[1]}, {since(now, last[0].when)}"]
    yield "told", [pending_text(told, now) for told in found.pending]
    yield "assigned to", [found.owner or f"nobody (the group is {found.group})"]
    yield (
        "next",
        [
            each.what if each.when is None else f"{each.what}: {since(now, each.when)}"
            for each in found.next
        ],
    )
    yield (
        "would help",
        [f"{each.command}\n{'':<{_WIDTH + 4}}{each.effect}" for each in found.remedies],
    )
    yield "not seen", found.unseen


def _redelivering(found: Account) -> Iterator[str]:
    total = len(found.away)
    if total:
        which = ranges_of(away.sequence for away in found.away)
        yield f"{total}: {numbered(which).split(' ', 1)[1]}"
    of = f" of {found.limit}" if found.limit is not None else ""
    for away in sorted(found.away, key=lambda away: away.due)[:3]:
        yield f"{away.sequence}: attempt {away.attempt}{of}, {since(found.now, away.due)}"


def _aside(aside: Sequence[SetAside], total: int, now: int) -> Iterator[str]:
    """The last three of what a side topic has."""
    for each in aside[-3:]:
        yield f"{_arrival(each.at, now)}: {printable(each.reason, 200)}"
    if total > 3:
        yield f"and {total - 3} more"


def _waiting(found: Account) -> str:
    total = found.ring + found.spilled
    shown = ", ".join(map(str, found.waits)) + (" …" if total > len(found.waits) else "")
    beyond = f", {found.spilled} on disk beyond it" if found.spilled else ""
    parked = f", {found.parked} parked" if found.parked else ""
    return f"{total}: {shown} ({found.ring} in the ring of {found.slots}{beyond}{parked})"


def _arrival(arrival: Arrival, now: int) -> str:
    what = "a message" if arrival.sequence is None else str(arrival.sequence)
    place = f"{arrival.topic}/{arrival.partition} offset {arrival.offset}"
    return f"{what} from {place}, {since(now, arrival.arrived)}"


def ranges(missing: Sequence[Missing], number: int, shown: int = 5) -> str:
    """`4 to 6, 9 …`."""
    text = ", ".join(_pair(gap.first, gap.last) for gap in missing[:shown])
    if missing and missing[0].count is None:
        text = f"between {missing[0].first - 1} and {missing[0].last + 1}"
    return f"{text} … ({number} ranges)" if number > min(shown, len(missing)) else text


def _pair(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def ledger_text(ledger: Ledger) -> str:
    """A gap per line, the oldest first, how many there are in all, and what else is not well."""
    rest = [*map(str, ledger.troubles), *ledger.unseen]
    if ledger.unread:
        there = ": what is missing may lie there, so give nothing up yet" if ledger.streams else ""
        rest.append(f"{ledger.unread} offsets are not read yet{there}")
    if not ledger.streams:
        what = "nothing waits for something that is missing"
        return "\n".join([f"{what}, but:", *rest] if rest else [f"no gaps: {what}"])
    head = ["age", "view", "stream", "last", "missing", "count", "wait behind", "dead", "given up"]
    rows = [head, *(_gap(gap, ledger.now) for gap in ledger.gaps)]
    if not any(gap.dead for gap in ledger.gaps):
        for row in rows:
            del row[-2]
    lines = columns(rows)
    more = ledger.streams - len(ledger.gaps)
    shown = f", {more} more are not shown" if more else ""
    lines.append(f"{ledger.streams} streams with gaps, {ledger.sequences} missing{shown}")
    return "\n".join([*lines, *rest])


def _gap(gap: OpenGap, now: int) -> list[str]:
    given_up = "never"
    if gap.parked:
        given_up = "set aside"
    elif gap.due is not None:
        given_up = f"in {lasting(gap.due - now)}" if gap.due > now else "due"
    return [
        lasting(now - gap.since), gap.view, printable(gap.stream, 60), str(gap.last),
        ranges(gap.missing, gap.ranges, 3) or "-", "?" if gap.count is None else str(gap.count),
        str(gap.waiting + gap.away), str(gap.dead), given_up,
    ]  # fmt: skip


def tally_text(
    sources: Sequence[SourceTotals], views: Sequence[ViewTally], share: float = SHARE
) -> str:
    """What each source brought, a table of the views' places, what is not well, and a verdict per
    view. share: of malformed messages, from which on they are told of.
    """
    lines = [_source(source) for source in sources]
    names = [field.name for field in fields(Counts)]
    used = [n for n in names if n in _ALWAYS or any(getattr(v.counts, n) for v in views)]
    rows = [("view", *used, "lag")]
    rows += [
        (view.view, *(str(getattr(view.counts, name)) for name in used), str(view.lag))
        for view in views
    ]
    lines += ["", *columns(rows), ""]
    lines += [str(trouble) for source in sources if (trouble := source.trouble(share))]
    for view in views:
        if view.apart:
            lines.append(f"view {view.view}: reads apart in partitions {_list(view.apart)}")
        lines += [str(trouble) for trouble in view.troubles]
    lines += [source.wrong for source in sources if source.wrong]
    lines += [view.verdict for view in views]
    return "\n".join(lines)


_ALWAYS = frozenset(("received", "processed", "passed", "duplicate", "waiting"))


def _source(source: SourceTotals) -> str:
    taken = source.read if source.taken is None else source.taken
    text = (
        f"source {source.source}: {taken.read} messages, of them {taken.malformed} malformed, "
        f"{taken.unknown} unknown, {taken.events} events"
    )
    if source.taken is not None:
        text += f"; {source.read.read} of them read"
        if source.read.malformed:
            text += f", {source.read.malformed} malformed for their sequence"
    left = source.unkeyed + source.unread
    return f"{text}; {left} offsets to go" if left else text


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
