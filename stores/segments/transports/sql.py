"""SQL as a transport: a message log is consumed, and an inbox is published into.

To the inbox, the number of the segment is the epoch of a message, and its position in it the
sequence. So the inbox itself discards what comes again, also of a process that was replaced.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.inbox import Inbox, Message
from stores.inbox.message import fault
from stores.inbox.tables import STREAMS
from stores.outbox import MessageLog
from stores.outbox.message import START, Page
from stores.segments.errors import DestinationDown, PublishRefused
from stores.segments.identity import quoted
from stores.segments.message import InboundMessage, OutboundBatch, Pair, Place

_LOOK = 0.1
"""Seconds between two looks at a log that has nothing new."""


@contextmanager
def _away(kind: type[ConnectionError], engine: Engine) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        url = engine.url.render_as_string(hide_password=False)
        raise kind(f"database: {said(error, url)}") from error


class LogInbound:
    """See `Inbound`: a message log, whose only reader it is; no relay may have it.

    Args:
        topic: its name as a topic. A stream of another topic, orders say, is named /orders/STREAM.
        engine: the log's database.
        log: the log.
    """

    final = True
    """What is acknowledged is deleted, and never comes again."""

    def __init__(self, topic: str, engine: Engine, log: MessageLog | None = None) -> None:
        self.topic, self._engine, self._log = topic, engine, log or MessageLog()
        self._at, self._count, self._read = START, 0, deque[tuple[int, int]]()

    async def start(self, positions: Mapping[int, int]) -> None:
        self._at, self._count = START, 0
        self._read.clear()
        with _away(ConnectionError, self._engine):
            await asyncio.to_thread(self._log.create, self._engine)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        with _away(ConnectionError, self._engine):
            while not (page := await asyncio.to_thread(self._page, most)).messages and seconds > 0:
                await asyncio.sleep(min(seconds, _LOOK))
                seconds -= _LOOK
        self._at = page.position
        found = [self._message(each, self._count + n) for n, each in enumerate(page.messages)]
        self._read += (
            (one.behind, each.id) for one, each in zip(found, page.messages, strict=True)
        )
        self._count += len(found)
        return found

    async def acknowledge(self, positions: Mapping[int, int]) -> None:
        ids = []
        while self._read and self._read[0][0] <= positions.get(0, 0):
            ids.append(self._read.popleft()[1])
        with _away(ConnectionError, self._engine):
            await asyncio.to_thread(self._delete, ids)

    async def stop(self) -> None:
        """Nothing is open."""

    def _page(self, most: int) -> Page:
        with self._engine.connect() as connection:
            return self._log.read_after(connection, self._at, most)

    def _delete(self, ids: Sequence[int]) -> None:
        with self._engine.begin() as connection:
            self._log.delete(connection, ids)

    def _message(self, one: Message, at: int) -> InboundMessage:
        stream = one.stream
        if one.topic != self.topic:
            stream = f"/{quoted(one.topic)}/{stream}"
        elif stream.startswith("/"):
            stream = f"/{stream}"  # so that no two streams have one name
        named = {**one.headers, **({} if one.kind is None else {"sequitur-kind": one.kind})}
        return InboundMessage(
            *(self.topic, 0, at, at + 1, one.content, one.stream.encode()),
            tuple((name, value.encode()) for name, value in named.items()),
            stream=stream,
            sequence=one.sequence,
            replayable=False,
            damage=one.damage or "",
        )


class InboxOutbound:
    """See `Outbound`: destinations are topics of an inbox, whose order is "monotonic".

    The streams there are those of the messages, or else their keys, of each pair apart.

    Args:
        engine: the inbox's database.
        name: of the inbox.
        router: whose pairs.
    """

    def __init__(self, engine: Engine, name: str = "default", router: str = "router") -> None:
        self._engine, self._name, self._router = engine, name, router

    async def start(self, pair: Pair) -> Place | None:
        with _away(DestinationDown, self._engine):
            return await asyncio.to_thread(self._start, pair)

    async def publish(self, batch: OutboundBatch) -> None:
        number, behind = batch.behind
        prefix = self._prefix(batch.pair)
        if not batch.segment:  # in one process there is no position that stays
            prefix = f"direct {prefix}"
        made = []
        for index, each in enumerate(batch.messages):
            if each.value is None:
                raise PublishRefused(index, "it has no value, and a message of an inbox has one")
            at = batch.offsets[index] if batch.segment else (behind << 32) + index
            who = each.stream or (each.key or b"").decode(errors="backslashreplace")
            headers = {name: value.decode(errors="replace") for name, value in each.headers}
            headers["sequitur-id"] = each.id
            one = Message(each.destination, prefix + who, at, None, each.value, headers, number)
            if (reason := fault(one, 0)) is not None:
                raise PublishRefused(index, reason)
            made.append(one)
        if not made:  # START moves: what has no content is never delivered
            made.append(
                Message("sequitur-starts", prefix, behind, None, b"", epoch=number, void=True)
            )
        with _away(DestinationDown, self._engine):
            await asyncio.to_thread(self._inbox.receive, made)

    async def stop(self) -> None:
        """Nothing is open."""

    def _start(self, pair: Pair) -> Place | None:
        self._inbox = Inbox(self._engine, self._name, order="monotonic")
        of, last = STREAMS.c, [STREAMS.c.epoch.desc(), STREAMS.c.received.desc()]
        mine = of.stream.startswith(self._prefix(pair), autoescape=True)
        asked = select(of.epoch, of.received).where(of.inbox == self._name, mine).order_by(*last)
        with self._engine.connect() as connection:
            row = connection.execute(asked.limit(1)).one_or_none()
        return None if row is None else Place(*row)

    def _prefix(self, pair: Pair) -> str:
        return f"{self._router}/{pair.topic}/{pair.transport}/"
