"""An account as plain text."""

from collections.abc import Iterator, Sequence

from topology.declaration.lanes import split_lane
from topology.diagnostics.explain.account import LATE, Account
from topology.diagnostics.explain.command_log import pending_text
from topology.diagnostics.explain.formatting import numbered, pair, ranges
from topology.diagnostics.explain.stream_context import Arrival, SetAside
from topology.diagnostics.explain.stream_place import StreamPlace
from topology.diagnostics.explain.times import since
from topology.diagnostics.explain.went_on_without import ranges_of
from topology.diagnostics.explain.work_tally import StreamWork
from topology.model.counted import counted
from topology.model.printable import printable

_WIDTH = 16


_Facts = Iterator[tuple[str, Sequence[str]]]
"""(label, lines)."""


def account_text(found: Account) -> str:
    """Write an account: its cause in a line, then what is known, comes next and would help.

    Args:
        found: as `explain` gives it.
    """
    lines = [account_line(found)]
    for name, texts in account_facts(found):
        for text in texts:
            lines.append(f"  {name:<{_WIDTH}}{text}")
            name = ""
    return "\n".join(lines)


def account_line(found: Account) -> str:
    """Say what the cause is.

    Args:
        found: as `explain` gives it.
    """
    what = found.causes[0] if found.causes else found.situation
    if not found.causes and found.situation == "unknown":
        what = "the view has seen nothing of it"
        if found.context.similar:
            names = " or ".join(printable(repr(each)) for each in found.context.similar)
            what += f" (did you mean {names}?)"
    if found.context.unseen and found.situation in ("in order", "unknown"):
        what += ", in what was read"
    whose = f"stream {printable(found.stream)}"
    if found.lane is not None:
        own, lane = split_lane(found.stream)
        whose = f"stream {printable(own)}, lane {printable(repr(lane))},"
    return f"{whose} in view {found.view}: {what}"


def account_facts(found: Account) -> _Facts:
    """Say what is known, comes next and would help: labels, and lines of each.

    Args:
        found: as `explain` gives it.
    """
    for part in (_progress, _set_aside, _surroundings, _outlook):
        yield from part(found)


def _progress(found: Account) -> _Facts:
    """How far the view is in the stream."""
    place, context, now = found.place, found.context, found.context.now
    yield "because", found.causes[1:]
    last = "last processed" if context.work is None else "last arrived"
    yield last, ["nothing" if place.last is None else str(place.last)]
    if context.work is not None:
        yield "workers", list(_work(context.work, now))
    if place.missing:
        noticed = "" if place.since is None else f", since {since(now, place.since)}"
        yield "missing", [f"{ranges(place.missing, place.ranges)}{noticed}"]
    if place.waits:
        yield "waiting", [_waiting(place)]
    if place.attempts is not None and place.due is not None:
        yield "retry", [f"number {place.attempts}, {since(now, place.due)}"]
    if context.failure:
        yield "failure", [printable(context.failure, 1000)]
    yield "redelivering", list(_redelivering(found))


def _set_aside(found: Account) -> _Facts:
    """What the stream waits for elsewhere, or went on without."""
    place, passed, context, now = found.place, found.passed, found.context, found.context.now
    yield "dead", list(_aside(passed.ahead, now))
    yield "lost", list(_aside(passed.lost, now))
    if passed.back:
        again = numbered(ranges_of(each.sequence or 0 for each in passed.back), len(passed.back))
        yield "was dead", [f"{again}: put back, or came another time"]
    yield "failed", list(_aside(passed.failed, now))
    yield "malformed", list(_aside(context.malformed, now))
    if passed.skipped:
        yield "skipped", [", ".join(pair(*each) for each in passed.skipped)]
    if place.epoch:
        yield "made anew", ["once" if place.epoch == 1 else f"{place.epoch} times"]
    if place.rebuilt_with:
        yield "to rebuild with", [", ".join(map(str, place.rebuilt_with))]
    yield "came late", [_arrival(arrival, now) for arrival in context.late[-LATE:]]


def _surroundings(found: Account) -> _Facts:
    """What the topics and the group say."""
    context, now = found.context, found.context.now
    if context.newest:
        yield "came last", [_arrival(context.newest, now)]
    unread = f", of them {context.unread} of the stream" if context.unread else ""
    behind = f"{context.lag} behind{unread}" if context.lag or unread else "at its end"
    yield "input", [f"partition {context.partition}, at offset {context.position}, {behind}"]
    if context.unkeyed:
        yield (
            "",
            [
                counted(
                    context.unkeyed,
                    "offset of the source topics is",
                    "offsets of the source topics are",
                )
                + " not re-keyed yet"
            ],
        )
    if context.requested:
        last = [each for each in context.requested if each.when == context.requested[-1].when]
        asked = tuple((each.first, each.last) for each in last)
        yield "asked for", [f"{numbered(asked).split(' ', 1)[1]}, {since(now, last[0].when)}"]
    yield "commands", [pending_text(command, now) for command in context.pending]
    yield "assigned to", [context.owner or f"nobody (the group is {context.group})"]


def _outlook(found: Account) -> _Facts:
    """What happens next, what would help, and what was not looked at."""
    now = found.context.now
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
    yield "not seen", found.context.unseen


def _redelivering(found: Account) -> Iterator[str]:
    events, now = found.context.redelivering, found.context.now
    if events:
        which = ranges_of(each.sequence for each in events)
        yield f"{len(events)}: {numbered(which).split(' ', 1)[1]}"
    of = f" of {found.limit}" if found.limit is not None else ""
    for each in sorted(events, key=lambda each: each.due)[:3]:
        yield f"{each.sequence}: attempt {each.attempt}{of}, {since(now, each.due)}"


def _aside(aside: Sequence[SetAside], now: int) -> Iterator[str]:
    """The last three of what a side topic has."""
    for each in aside[-3:]:
        yield f"{_arrival(each.at, now)}: {printable(each.reason, 200)}"
    if len(aside) > 3:
        yield f"and {len(aside) - 3} more"


def _work(work: StreamWork, now: int) -> Iterator[str]:
    status = work.status
    if not work.counted:
        yield "too much of its partition is not committed to look for its events there"
    elif work.arrived:
        yield f"{len(work.arrived)} not committed: {numbered(ranges_of(work.arrived))}"
    else:
        yield "all that arrived is committed, or parked" if work.parked else "all is committed"
    if work.parked:
        yield f"{len(work.parked)} parked: {numbered(ranges_of(work.parked))}"
    if status.when:
        yield (
            f"its partition, {since(now, status.when)}: {status.waiting} not begun, "
            f"{status.running} in hand, {status.staged} waiting for their turn"
        )


def _waiting(place: StreamPlace) -> str:
    total = place.ring + place.spilled
    shown = ", ".join(map(str, place.waits)) + (" …" if total > len(place.waits) else "")
    beyond = f", {place.spilled} on disk beyond it" if place.spilled else ""
    parked = f", {place.parked} parked" if place.parked else ""
    return f"{total}: {shown} ({place.ring} in the ring of {place.slots}{beyond}{parked})"


def _arrival(arrival: Arrival, now: int) -> str:
    what = "a message" if arrival.sequence is None else str(arrival.sequence)
    place = f"{arrival.topic}/{arrival.partition} offset {arrival.offset}"
    return f"{what} from {place}, {since(now, arrival.arrived)}"
