"""Events that come again: their records in a view's redelivery topic, and in the dead topic."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile

from topology.errors import Malformed
from topology.event import Event, Message, Record
from topology.on_full import Redeliver
from topology.origin import ORIGIN, ORIGIN_KEY, REASON, origin, original
from topology.printable import printable
from topology.unit import CommitUnit, Out
from topology.view import View

NOT_BEFORE, ATTEMPT, SEQUENCE = "sequitur-not-before", "sequitur-attempt", "sequitur-sequence"
"""Headers: when an event is to come again (ms), for which time, and its sequence."""


@dataclass(slots=True, eq=False)
class Redelivered(Event):
    """An event that was away in the redelivery topic. attempt: how often it was by now."""

    attempt: int = 0


def not_before(record: Message) -> int:
    """When the event of a redelivery topic's record is to come again (ms)."""
    found = (value for name, value in reversed(record.headers) if name == NOT_BEFORE)
    return int(next(found, b"0"))


def due(records: Iterable[Message], now: int) -> Iterator[Message]:
    """The records of a redelivery topic up to the first one that is not to come yet.

    All of a view wait equally long, so what is behind that one is not to come either.
    """
    return takewhile(lambda record: not_before(record) <= now, records)


def revive(view: View, records: Iterable[Message], now: int) -> list[Event]:
    """The events of a redelivery topic's records. They arrive `now`: gaps in front of them are new.

    A message whose format the inspector no longer knows comes without kind and content.
    """
    events: list[Event] = []
    for record in records:
        found = original(record)
        headers = list(found.headers)
        sequence, attempt = (int(headers.pop()[1]) for _ in (SEQUENCE, ATTEMPT))
        headers.pop()
        message = Record(
            found.topic, found.partition, found.offset, found.key, found.value, tuple(headers),
            found.timestamp,
        )  # fmt: skip
        stream = (record.key or b"").decode()
        event = Redelivered(stream, sequence, None, None, message, now, attempt)
        with suppress(Malformed):
            if (inspected := view.of.inspect(message)) is not None:
                _, _, event.kind, event.content = inspected
        events.append(event)
    return events


def redeliver(view: View, events: Sequence[Event], unit: CommitUnit) -> int:
    """Send events that the ring has no room for to come again. Returns how many do; others died."""
    policy = view.full
    assert isinstance(policy, Redeliver)
    later = unit.now + max(1, round(policy.delay * 1000))
    again = 0
    for event in events:
        attempt = event.attempt + 1 if isinstance(event, Redelivered) else 1
        if attempt > policy.limit:
            reason = (
                f"the ring of {view.buffer} slots had no room for it {attempt} times, "
                f"{policy.delay:g} s apart"
            )
            bury(view, event, reason, unit)
            unit.reports.append(
                f"view {view.name}: stream {event.stream} sequence {event.sequence} goes to "
                f"{view.dead_topic}: {reason}; look at what is missing in front of it"
            )
            continue
        again += 1
        headers = [
            *event.message.headers,
            (NOT_BEFORE, b"%d" % later),
            (ATTEMPT, b"%d" % attempt),
            (SEQUENCE, b"%d" % event.sequence),
        ]
        unit.colocated[view.redeliver_topic].append(_out(event, headers, unit.now))
    return again


def bury(view: View, event: Event, reason: str, unit: CommitUnit) -> None:
    """Send an event to the dead topic, with the reason."""
    headers = [
        *event.message.headers,
        ("view", view.name.encode()),
        ("sequence", b"%d" % event.sequence),
        (REASON, reason.encode("utf-8", "backslashreplace")[:4000]),
    ]
    unit.keyed[view.dead_topic].append(_out(event, headers, unit.now))


def set_aside(view: View, events: Sequence[Event], jump: int, unit: CommitUnit) -> None:
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
