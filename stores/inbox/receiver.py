"""Receiving: messages become rows of the inbox, each once."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from stores.db.dialect import begin_writing
from stores.inbox.dead_messages import bury
from stores.inbox.message import InboxError, ReceiveResult, fault, shown
from stores.inbox.order import (
    FIRST,
    RING,
    Order,
    OrderResult,
    StreamPosition,
    take_contiguous,
    take_monotonic,
)
from stores.inbox.rows import (
    Key,
    Partition,
    ReadRange,
    lock_streams,
    make_streams,
    move_offsets,
    plan_by_index,
    put,
)
from stores.inbox.tables import MESSAGES
from stores.message import Message
from stores.sinks import DeadLimit
from stores.sinks.dead_limit import keep_from


class Fenced(InboxError):
    """Somebody else reads this partition into the inbox, and is elsewhere."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """What receiving goes by; see `Inbox`."""

    inbox: str
    order: Order
    max_gap: int | None
    keep: DeadLimit = field(default_factory=keep_from)

    def receive(
        self,
        connection: Connection,
        messages: Iterable[Message],
        read: Mapping[Partition, ReadRange] | None = None,
        malformed: Sequence[tuple[str, bytes | None]] = (),
    ) -> ReceiveResult:
        """Receive within the connection's transaction; see `Inbox.receive`."""
        begin_writing(connection)
        if read:
            self._move(connection, read)
        else:
            plan_by_index(connection)
        found = ReceiveResult()
        good, dead = self._sift(messages)
        if dead or malformed:
            lines = [self._line(reason, content) for reason, content in malformed]
            bury(connection, self.inbox, [*dead, *lines], self.keep)
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
        return {"reason": shown(reason), "content": content}

    def _move(self, connection: Connection, read: Mapping[Partition, ReadRange]) -> None:
        """Move the offsets on; only from where they are, so that two readers cannot mix."""
        for topic, partition in move_offsets(connection, self.inbox, read):
            raise Fenced(
                f"inbox {self.inbox}: {topic}/{partition} is not at offset "
                f"{read[topic, partition].first} any more: another process reads it too; go on "
                "from where the inbox is"
            )

    def _store(self, connection: Connection, messages: list[Message], found: ReceiveResult) -> None:
        keys = sorted({(message.topic, message.stream) for message in messages})
        lines = self._lines(connection, keys)
        by_topic: dict[str, list[Message]] = defaultdict(list)
        refused: list[Message] = []
        for message in messages:
            _, at = lines[message.topic, message.stream]
            far = self.order == "contiguous" and self.max_gap is not None
            beyond = at.received + (self.max_gap or 0)
            # What is void takes no room, and a relay answers with many at a time.
            if far and not message.void and message.sequence > beyond:
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
        at: Mapping[str, StreamPosition],
    ) -> OrderResult:
        if self.order == "monotonic":
            return take_monotonic(messages, at)

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

        return take_contiguous(messages, at, stored, int(time.time() * 1000))

    def _lines(
        self, connection: Connection, keys: list[Key]
    ) -> dict[Key, tuple[int, StreamPosition]]:
        """Topic and stream → id and how far it is, locked; made where it is not there."""
        found = lock_streams(connection, self.inbox, keys)
        if missing := [key for key in keys if key not in found]:
            make_streams(connection, self.inbox, missing, FIRST[self.order] - 1)
            found = lock_streams(connection, self.inbox, keys)
        return found

    def _write(self, connection: Connection, taken: OrderResult, ids: Mapping[str, int]) -> None:
        moved = [
            (ids[stream], at, stream in taken.ready) for stream, at in sorted(taken.changed.items())
        ]
        put(connection, [(ids[message.stream], message) for message in taken.new], moved)
