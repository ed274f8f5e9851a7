"""Receiving: messages become rows of the cursor, each once."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, select, update

from stores.cursor_message import CursorError, Message, Received, fault, shown
from stores.cursor_order import FIRST, RING, At, Order, Taken, take_counting, take_growing
from stores.cursor_rows import put_messages, put_streams
from stores.cursor_tables import (
    DEAD,
    DELIVERIES,
    MESSAGES,
    OFFSETS,
    STREAMS,
    begin_writing,
    insert,
)

KEYS = 500
"""Streams that one statement looks for."""

Key = tuple[str, str]
"""Topic and stream."""
Partition = tuple[str, int]
"""Topic and number."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read:
    """Up to where a partition of a topic was read: from `first` up to `end`, the next offset."""

    first: int
    end: int


class Fenced(CursorError):
    """Somebody else reads this partition into the cursor, and is elsewhere."""


@dataclass(frozen=True, slots=True)
class Receiving:
    """What receiving goes by; see `Cursor`."""

    cursor: str
    order: Order
    room: int | None

    def receive(
        self,
        connection: Connection,
        messages: Iterable[Message],
        read: Mapping[Partition, Read] | None = None,
        malformed: Sequence[tuple[str, bytes | None]] = (),
    ) -> Received:
        """Receive within the connection's transaction; see `Cursor.receive`."""
        begin_writing(connection)
        self._move(connection, read or {})
        found = Received()
        good, dead = self._sift(messages)
        if dead or malformed:
            lines = [self._line(reason, content) for reason, content in malformed]
            connection.execute(DEAD.insert(), [*dead, *lines])
            found.malformed = len(dead) + len(malformed)
        if good:
            self._store(connection, good, found)
        return found

    def _sift(self, messages: Iterable[Message]) -> tuple[list[Message], list[dict[str, object]]]:
        good, dead = [], []
        first = FIRST[self.order]
        for message in messages:
            reason = fault(message, first)
            if reason is None:
                good.append(message)
            else:
                told = f"{message.topic[:200]} {message.stream[:200]}: {reason}"
                dead.append(self._line(told, message.content))
        return good, dead

    def _line(self, reason: str, content: bytes | None) -> dict[str, object]:
        at = int(time.time() * 1000)
        return {"cursor": self.cursor, "at": at, "reason": shown(reason), "content": content}

    def _move(self, connection: Connection, read: Mapping[Partition, Read]) -> None:
        """Move the offsets on; only from where they are, so that two readers cannot mix."""
        for (topic, partition), where in sorted(read.items()):
            line = {"cursor": self.cursor, "topic": topic, "partition": partition}
            begin = insert(connection, OFFSETS).values(**line, next_offset=where.first)
            connection.execute(begin.on_conflict_do_nothing())
            moved = (
                update(OFFSETS)
                .filter_by(**line, next_offset=where.first)
                .values(next_offset=where.end)
            )
            if connection.execute(moved).rowcount != 1:
                raise Fenced(
                    f"cursor {self.cursor}: {topic}/{partition} is not at offset {where.first} any "
                    "more: another process reads it too; go on from where the cursor is"
                )

    def _store(self, connection: Connection, messages: list[Message], found: Received) -> None:
        keys = sorted({(message.topic, message.stream) for message in messages})
        lines = self._lines(connection, keys)
        by_topic: dict[str, list[Message]] = defaultdict(list)
        refused: list[Message] = []
        for message in messages:
            _, at = lines[message.topic, message.stream]
            far = self.order == "counting" and self.room is not None
            if far and message.sequence > at.received + (self.room or 0):
                refused.append(message)
            else:
                by_topic[message.topic].append(message)
        found.refused = refused
        for topic, some in by_topic.items():
            ids = {stream: of for (at, stream), (of, _) in lines.items() if at == topic}
            ats = {stream: at for (of, stream), (_, at) in lines.items() if of == topic}
            taken = self._take(connection, some, ids, ats)
            self._write(connection, taken, ids)
            found.stored += len(taken.new)
            found.duplicates += taken.duplicates
            found.conflicts += taken.conflicts

    def _take(
        self,
        connection: Connection,
        messages: list[Message],
        ids: Mapping[str, int],
        at: Mapping[str, At],
    ) -> Taken:
        if self.order == "growing":
            return take_growing(messages, at)

        def stored(stream: str, first: int, last: int) -> Iterator[tuple[int, bytes]]:
            found = (
                select(MESSAGES.c.sequence, MESSAGES.c.content)
                .where(MESSAGES.c.stream_id == ids[stream], MESSAGES.c.epoch == 0)
                .where(MESSAGES.c.sequence.between(first, last))
                .order_by(MESSAGES.c.sequence)
                # Who asks without an end wants to see the first alone.
                .limit(None if last - first < RING else 1)
            )
            for sequence, content in connection.execute(found):
                yield sequence, bytes(content)

        return take_counting(messages, at, stored, int(time.time() * 1000))

    def _lines(self, connection: Connection, keys: list[Key]) -> dict[Key, tuple[int, At]]:
        """Topic and stream → id and how far it is; locked until the transaction ends.

        Always in the order of the ids, so that two who receive do not wait for each other.
        """
        ids: list[int] = []
        for page in _pages(keys):
            known = self._ids(connection, page)
            if missing := [key for key in page if key not in known]:
                known |= self._begin(connection, missing)
            ids += known.values()
        columns, found = STREAMS.c, {}
        for some in _pages(sorted(ids)):
            locked = (
                select(columns.topic, columns.stream, columns.id)
                .add_columns(columns.epoch, columns.received, columns.waiting, columns.since)
                .where(columns.id.in_(some))
                .order_by(columns.id)
                .with_for_update()
            )
            for topic, stream, of, *at in connection.execute(locked):
                found[topic, stream] = of, At(*at)
        return found

    def _ids(self, connection: Connection, keys: Sequence[Key]) -> dict[Key, int]:
        columns, found = STREAMS.c, {}
        by_topic: dict[str, list[str]] = defaultdict(list)
        for topic, stream in keys:
            by_topic[topic].append(stream)
        # Topic by topic: pairs of both would be looked for through the whole table.
        for topic, streams in by_topic.items():
            mine = select(columns.stream, columns.id).where(
                columns.cursor == self.cursor, columns.topic == topic, columns.stream.in_(streams)
            )
            found.update({(topic, stream): of for stream, of in connection.execute(mine)})
        return found

    def _begin(self, connection: Connection, keys: Sequence[Key]) -> dict[Key, int]:
        """Make the lines of streams that are new; somebody else may be doing so."""
        last = FIRST[self.order] - 1
        line = {"cursor": self.cursor, "epoch": 0, "received": last, "waiting": 0, "since": 0}
        rows = [{**line, "topic": topic, "stream": stream} for topic, stream in keys]
        connection.execute(insert(connection, STREAMS).on_conflict_do_nothing(), rows)
        made = self._ids(connection, keys)
        lines = [{"stream_id": of, "delivered": last, "attempts": 0} for of in made.values()]
        connection.execute(insert(connection, DELIVERIES).on_conflict_do_nothing(), lines)
        return made

    def _write(self, connection: Connection, taken: Taken, ids: Mapping[str, int]) -> None:
        if taken.new:
            put_messages(connection, [(ids[m.stream], m) for m in taken.new])
        moved = [
            (ids[stream], at, stream in taken.ready) for stream, at in sorted(taken.changed.items())
        ]
        if moved:
            put_streams(connection, moved)


def _pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), KEYS):
        yield items[first : first + KEYS]
