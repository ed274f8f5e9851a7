"""Events that come again: their records in a view's redelivery topic, and in the dead topic."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from topology.declaration.policies import Redeliver
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit, Out
from topology.model.errors import Malformed, described
from topology.model.event import Draft, Event, Message, Record
from topology.model.origin_headers import ORIGIN, ORIGIN_KEY, REASON, origin, original
from topology.model.printable import printable
from topology.sequencer.progress import Progress, last_of

NOT_BEFORE, ATTEMPT, SEQUENCE = "sequitur-not-before", "sequitur-attempt", "sequitur-sequence"
"""Headers: when an event is to come again (ms), how often it went while its stream stood where it
is, and its sequence."""
LAST, DEAD = "sequitur-last", "sequitur-dead"
"""Headers: where its stream stood when it went; the offset in the dead topic of an event that was
given up, and is put back."""

AT_WORKERS = "; it was with the view's workers"
"""How reasons end of what a view's second stage gave up: the first one has passed it."""
GONE = (
    "it waited in the memory of a worker that ended, and its record is not in the input any more, "
    "where it was to be read again; what is here has no body"
)
"""Why an event is dead that cannot be put back."""

_MOST = 2**63 - 1

ForeignRecords = list[tuple[Message, str]]
"""Records that are no events which went, with the reason."""


@dataclass(slots=True, eq=False)
class _Away(Draft):
    attempt: int = 0
    last: int | None = None
    dead: int | None = None


class Redelivered(_Away, Event):
    """An event that was away in the redelivery topic.

    attempt: how often it was while its stream stood at `last`; None where that is not known. dead:
    where it was in the dead topic, if it was put back from there.
    """

    __slots__ = ()

    @property
    def was_dead(self) -> bool:
        return self.dead is not None


def not_before(record: Message) -> int:
    """When the event of a redelivery topic's record is to come again (ms)."""
    return _number(record, NOT_BEFORE)


def sequence_of(record: Message) -> int:
    """The sequence of the event of such a record."""
    return _number(record, SEQUENCE)


def stream_of(record: Message) -> str:
    """The stream of the event of such a record."""
    return (record.key or b"").decode("utf-8", "replace")


def _number(record: Message, header: str) -> int:
    """The last header of that name, 0 where there is none: `revive` tells what is wrong."""
    found = (value for name, value in reversed(record.headers) if name == header)
    with suppress(ValueError, TypeError):
        return int(next(found, b"0"))
    return 0


def revive(
    view: View, records: Iterable[Message], now: int, foreign: ForeignRecords | None = None
) -> list[Event]:
    """The events of a redelivery topic's records. They arrive `now`: gaps in front of them are new.

    A message whose format the inspector no longer knows comes without kind and content. foreign:
    takes the records that somebody else wrote there.
    """
    events: list[Event] = []
    for record in records:
        try:
            events.append(_revived(view, record, now))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if foreign is not None:
                foreign.append((record, f"it is no event that went away: {described(error)}"))
    return events


def _revived(view: View, record: Message, now: int) -> Redelivered:
    found = original(record)
    headers, order = list(found.headers), view.of.sequence
    if headers and headers[-1][0] == ORIGIN:
        raise ValueError("its origin is no place in a topic")
    told = dict(headers[-3:])
    if [*told] != [NOT_BEFORE, ATTEMPT, SEQUENCE]:
        raise ValueError("its headers are not those of one")
    sequence, attempt = int(told[SEQUENCE]), int(told[ATTEMPT])
    del headers[-3:]
    more: dict[str, int | None] = {LAST: None, DEAD: None}
    if headers and headers[-1][0] in more:
        name, value = headers.pop()
        more[name] = int(value)
    if not 0 <= (more[DEAD] or 0) <= _MOST:
        raise ValueError(f"{more[DEAD]} is no offset of the dead topic")
    stream = (record.key or b"").decode()
    if not stream or "\0" in stream:
        raise ValueError("it has no stream")
    if not order.start <= sequence <= _MOST or (sequence - order.start) % order.step:
        raise ValueError(f"{sequence} is no sequence of {view.of.name}")
    if not all(-_MOST <= number <= _MOST for number in (found.offset, found.timestamp)):
        raise ValueError("its origin is no place in a topic")
    message = Record(
        found.topic, found.partition, found.offset, found.key, found.value, tuple(headers),
        found.timestamp,
    )  # fmt: skip
    kind = content = None
    with suppress(Malformed):
        if (inspected := view.of.inspect(message)) is not None:
            _, _, kind, content = inspected
    made: Any = _Away(
        stream, sequence, kind, content, message, now, attempt, more[LAST], more[DEAD]
    )
    made.__class__ = Redelivered
    event: Redelivered = made
    return event


def redeliver(
    view: View,
    events: Sequence[Event],
    unit: CommitUnit,
    progress_of: Callable[[str], int | Progress],
) -> int:
    """Send events that the ring has no room for to come again. Returns how many do; others died."""
    policy = view.full
    assert isinstance(policy, Redeliver)
    again = 0
    for event in events:
        last, attempt = last_of(progress_of(event.stream)), 1
        if isinstance(event, Redelivered) and event.last == last:
            attempt = event.attempt + 1
        if policy.limit is not None and attempt > policy.limit:
            reason = (
                f"the ring of {view.buffer} slots had no room for it {attempt} times, and its "
                f"stream stood at {last} all the while"
            )
            bury(view, event, reason, unit)
            unit.reports.append(
                f"view {view.name}: stream {printable(event.stream)} sequence {event.sequence} "
                f"goes to {view.dead_topic}: {reason}; see what is missing in front of it"
            )
            continue
        again += 1
        later = unit.now + _delay(view, policy, event.sequence - last, attempt)
        headers = [
            *event.message.headers,
            (LAST, b"%d" % last),
            (NOT_BEFORE, b"%d" % later),
            (ATTEMPT, b"%d" % attempt),
            (SEQUENCE, b"%d" % event.sequence),
        ]
        unit.colocated[view.redeliver_topic].append(_out(event, headers, unit.now))
    return again


def _delay(view: View, policy: Redeliver, ahead: int, attempt: int) -> int:
    """Ms until an event is tried again that is `ahead` of where its stream stands.

    It grows with each attempt in vain. And where sequences count, an event that is several rings
    off has that many of them to wait for.
    """
    if policy.backoff is not None:
        try:
            return max(1, min(round(policy.backoff(attempt, ahead) * 1000), view.longest_away))
        except Exception:
            pass  # as where none is declared: a mistake in it must not stop the view
    order = view.of.sequence
    rings = (ahead - 1) // (view.buffer * order.step) if order.counts else 1
    times = max(rings, 1 << min(attempt - 1, 32))
    return max(1, min(round(policy.delay * 1000) * times, view.longest_away))


def bury(view: View, event: Event, reason: str, unit: CommitUnit) -> None:
    """Send an event to the dead topic, with the reason."""
    headers = [
        *event.message.headers,
        ("view", view.name.encode()),
        ("sequence", b"%d" % event.sequence),
        (REASON, reason.encode("utf-8", "backslashreplace")[:4000]),
    ]
    unit.keyed[view.dead_topic].append(_out(event, headers, unit.now))


def bury_impossible(view: View, events: Sequence[Event], jump: int, unit: CommitUnit) -> None:
    """Send events to the dead topic whose sequences cannot be; `jump` is how far they can."""
    reason = (
        f"its sequence is more than {jump} above what its stream is at, which cannot be where "
        "sequences count; if they are times, declare sequence=monotonic(…), if they are so far "
        "apart, contiguous(jump=…)"
    )
    for event in events:
        bury(view, event, reason, unit)
    first, more = events[0], len(events) - 1
    unit.reports.append(
        f"view {view.name}: stream {printable(first.stream)} sequence {first.sequence} goes to "
        f"{view.dead_topic}{f', and {more} more' if more else ''}: {reason}"
    )


def _out(event: Event, headers: list[tuple[str, bytes]], now: int) -> Out:
    """The event's message with its origin, keyed by stream."""
    message = event.message
    headers.append((ORIGIN, origin(message)))
    if message.key is not None:
        headers.append((ORIGIN_KEY, message.key))
    return event.stream.encode(), message.value, now, headers
