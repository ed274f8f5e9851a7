"""The way of a stream's events: the message, what failed or was set aside, and what came of it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from aiokafka import TopicPartition

from topology.declaration.lanes import joined_lane, split_lane
from topology.declaration.view import View
from topology.diagnostics.explain import Account
from topology.diagnostics.records import body_of
from topology.diagnostics.side_topics import side_record
from topology.faust.inspection.durable import DurableState
from topology.model.errors import Malformed
from topology.model.event import Event, Message
from topology.model.origin_headers import original

SHOWN = 20
"""Events at most: the last ones that came."""
_SIDES = ("errors", "dead", "late")


@dataclass(frozen=True, slots=True)
class EventEnd:
    """What became of an event in a view.

    Attributes:
        view: its name.
        troubles: why it failed or was set aside, each with the topic that says it.
        rows: the row changes that came of it, as JSON; nothing where none were found.
    """

    view: str
    troubles: tuple[str, ...]
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventWay:
    """A message of a stream, and its way.

    Attributes:
        source: that it came from.
        sequence: of the event.
        kind: of it, None where it has none.
        topic: of the message.
        partition: of that topic.
        offset: in that partition.
        came: when it was there for the views, in milliseconds since 1970.
        content: the message's value, None without one.
        ends: by view.
    """

    source: str
    sequence: int
    kind: str | None
    topic: str
    partition: int
    offset: int
    came: int
    content: bytes | None
    ends: tuple[EventEnd, ...]


@dataclass(frozen=True, slots=True)
class EventWays:
    """ways: the last events that came, the oldest first. unseen: what was not looked at."""

    ways: list[EventWay]
    unseen: list[str]


async def event_ways(
    app: Any, accounts: Sequence[Account], sequence: int | None = None, *, scan: int | None = None
) -> EventWays:
    """Follow the events of a stream from their messages to the rows that came of them.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        accounts: of the stream, as `explain` gives them.
        sequence: only this one's messages; the last of all unless given.
        scan: offsets to read at the end of a topic; unless given, as many as take five seconds.

    Raises:
        TopicMissing: no worker of the topology has run yet.
    """
    async with DurableState(app, scan=scan) as durable:
        looks = _Looks(durable, sequence)
        found: defaultdict[tuple[str, str], dict[str, _Found]] = defaultdict(dict)
        for account in accounts:
            view = durable.topology.views[account.view]
            stream = account.stream if view.split is None else split_lane(account.stream)[0]
            of_source = found[view.of.name, stream]
            if view.name not in of_source:  # all lanes of a stream are looked at together
                of_source[view.name] = await looks.view(view, stream, account.context.partition)
        ways = list[EventWay]()
        for each in found.values():
            ways += _ways(await looks.events([*each.values()]), [*each.values()])
        return EventWays(ways, looks.unseen)


@dataclass(slots=True)
class _Found:
    """What was found of a stream in a view: troubles by sequence, rows by stream and sequence, as
    lanes have sequences of their own."""

    view: View
    stream: str
    partition: int
    troubles: defaultdict[int, list[str]]
    rows: dict[tuple[str, int], list[str]]

    def end(self, sequence: int) -> EventEnd:
        rows = (row for (_, at), rows in self.rows.items() if at == sequence for row in rows)
        return EventEnd(self.view.name, tuple(self.troubles.get(sequence, ())), tuple(rows))


class _Looks:
    """Reads the ends of topics, side topics once for all views."""

    def __init__(self, durable: DurableState, sequence: int | None) -> None:
        self._durable, self._sequence, self.unseen = durable, sequence, list[str]()
        self._sides: dict[str, list[Message]] = {}

    async def view(self, view: View, stream: str, partition: int) -> _Found:
        """What the side topics and the output say of a view's events."""
        found, key = _Found(view, stream, partition, defaultdict(list), {}), stream.encode()
        lane = joined_lane(stream, "").encode()
        for side in _SIDES:
            if side not in self._sides:
                self._sides[side] = await self._end(
                    f"{self._durable.topology.name}.{side}",
                    lambda one: one.key == key or (one.key or b"").startswith(lane),
                )
            for record in self._sides[side]:
                told = side_record(side, record)
                mine = told.view == view.name and (view.split is not None or record.key == key)
                if mine and told.sequence is not None:
                    found.troubles[told.sequence].append(f"{side}: {told.reason}")
        output = TopicPartition(view.output, partition)
        for record in await self._end(output, lambda one: one.key == key):
            body = body_of(record)
            # Of a stream that was rebuilt, the last rows count.
            found.rows[str(body.get("stream")), int(body.get("sequence", 0))] = [
                orjson.dumps(each).decode() for each in body.get("changes", ())
            ]
        return found

    async def events(self, found: Sequence[_Found]) -> list[tuple[Event, int]]:
        """The events of a stream in a source, and when each was there."""
        view, stream, events = found[0].view, found[0].stream, list[tuple[Event, int]]()

        def wanted(record: Message) -> bool:
            if not view.of.keyed and record.key != stream.encode():
                return False
            event = _event(view, record)
            mine = event is not None and event.stream == stream
            return mine and self._sequence in (None, event and event.sequence)

        for number in dict.fromkeys(each.partition for each in found):
            for record in await self._end(TopicPartition(view.of.by_stream, number), wanted):
                if (event := _event(view, record)) is not None:
                    events.append((event, record.timestamp))
        return events[-SHOWN:]

    async def _end(
        self, topic: str | TopicPartition, wanted: Callable[[Message], bool]
    ) -> list[Message]:
        tail = await self._durable.end_of(topic, wanted)
        self.unseen += [tail.cut] if tail.cut and tail.cut not in self.unseen else []
        return tail.records


def _event(view: View, record: Message) -> Event | None:
    with suppress(Malformed):
        message = record if view.of.keyed else original(record)
        found = view.of.inspect(message)
        return None if found is None else Event(*found, message)
    return None


def _ways(events: Sequence[tuple[Event, int]], found: Sequence[_Found]) -> Iterator[EventWay]:
    for event, came in events:
        at = event.message
        yield EventWay(
            found[0].view.of.name, event.sequence, event.kind, at.topic, at.partition, at.offset,
            came, at.value, tuple(each.end(event.sequence) for each in found),
        )  # fmt: skip
