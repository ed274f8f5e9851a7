"""Lanes: a view splits a stream by content, and orders each lane on its own.

Within the view an event's stream is its own stream and the lane, joined; that is what progress,
buffers, states and the read store's fence go by. Handlers see the stream, and `event.lane`.
"""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from topology.inspectors.fields import Field, Header, RecordKey, getter
from topology.inspectors.normalise import stream_id
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Draft, Event, LinkedEvent, event_of, linked_event
from topology.model.names import one_argument
from topology.model.partition_table import STREAM_BYTES

Lane = Field | Callable[[Event], Any]
"""A field path, `key()`, `header('name')`, or a function of the event."""

Split = Callable[[Iterable[Event]], list[Event]]
"""A source's events → the same as a view with lanes orders them."""


LANE = "lane"
"""Header of a late record, which has the stream alone as its key."""


@dataclass(slots=True, eq=False)
class _LaneDraft(Draft):
    lane: str = ""


class LaneEvent(_LaneDraft, Event):
    """An event of a view with lanes as its handler sees it: `stream` is the stream's own id."""

    __slots__ = ()


def joined_lane(stream: str, lane: str) -> str:
    """One text for a lane of a stream: joined by '|', which is escaped inside either.

    A lane that no row's key has room for is none: it shares the one of what has no lane.
    """
    joined = f"{escaped(stream)}|{escaped(lane)}"
    if len(joined) * 4 > STREAM_BYTES and len(joined.encode()) > STREAM_BYTES:
        return f"{escaped(stream)}|"
    return joined


def split_lane(joined: str) -> tuple[str, str]:
    """(stream, lane) of a joined text."""
    stream, _, lane = joined.partition("|")
    return _plain(stream), _plain(lane)


def shown(event: Event) -> LaneEvent:
    """An event of a lane as handlers see it."""
    stream, lane = split_lane(event.stream)
    made: Any = _LaneDraft(
        stream, event.sequence, event.kind, event.content, event.message, event.arrived, lane
    )
    made.__class__ = LaneEvent
    shows: LaneEvent = made
    return shows


def compile_split(view: str, lane: Lane) -> Split:
    """A view's `lane=` as one function. Raises DeclarationError."""
    find = _finder(view, lane)

    def lane_of(event: Event) -> str:
        try:
            found = find(event)
            if found is None:
                return ""
            return str(found).lower() if isinstance(found, bool) else stream_id(found)
        except BaseException:
            # No event is lost for its lane: what has none that can be read shares one.
            return ""

    def split(events: Iterable[Event]) -> list[Event]:
        return [
            event_of(
                joined_lane(event.stream, lane_of(event)),
                event.sequence,
                event.kind,
                event.content,
                event.message,
                event.arrived,
            )
            if event.__class__ is not LinkedEvent
            else _linked(joined_lane(event.stream, lane_of(event)), event)
            for event in events
        ]

    return split


def showing(handler: Any) -> Any:
    """A handler that is given events as their sources know them."""

    @functools.wraps(handler)
    def run(event: Event, *state: Any) -> Any:
        return handler(shown(event), *state)

    return run


def _finder(view: str, lane: Lane) -> Callable[[Event], Any]:
    if isinstance(lane, str | RecordKey | Header):
        get = getter(lane, "lane")

        def find(event: Event) -> Any:
            try:
                return get(event.content, event.message)
            except Malformed:
                return None

        return find
    if not callable(lane):
        raise DeclarationError(
            f"view {view!r}: lane={lane!r}; give a field path such as 'order.currency', key(), "
            "header('name'), or a function of the event"
        )
    one_argument(f"view {view!r}: lane={lane!r}", lane, "event")
    return lane


def _linked(stream: str, event: Any) -> LinkedEvent:
    return linked_event(
        stream,
        event.sequence,
        event.kind,
        event.content,
        event.message,
        event.arrived,
        event.previous,
    )


def escaped(text: str) -> str:
    """A stream or a lane as it stands in a joined text."""
    return text.replace("%", "%25").replace("|", "%7C")


def _plain(text: str) -> str:
    return text.replace("%7C", "|").replace("%25", "%")
