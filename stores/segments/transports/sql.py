"""SQL as a transport: a message log is consumed, and an inbox is published into.

To the inbox, the number of the segment is the epoch of a message, and its position in it the
sequence. So the inbox itself discards what comes again, also of a process that was replaced.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.inbox import Inbox, Message
from stores.inbox.message import fault
from stores.inbox.tables import STREAMS
from stores.outbox import MessageLog
from stores.outbox.any_text import any_text
from stores.outbox.message import START, Page
from stores.segments.errors import DestinationDown, PublishRefused, StaleOwner
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
        self.topic, self.engine, self._log = topic, engine, log or MessageLog()
        self._at, self._count, self._read = START, 0, deque[tuple[int, int]]()

    @property
    def name(self) -> str:
        """The log's, in its database."""
        return f"{self._log.schema or ''}.{self._log.name}"

    async def start(self, positions: Mapping[int, int]) -> None:
        self._at, self._count = START, 0
        self._read.clear()
        with _away(ConnectionError, self.engine):
            await asyncio.to_thread(self._log.create, self.engine)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        with _away(ConnectionError, self.engine):
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
        with _away(ConnectionError, self.engine):
            await asyncio.to_thread(self._delete, ids)

    def take(self, connection: Connection) -> None:
        """Take what was polled out of the log, in the transaction of what comes of it.

        Raises:
            StaleOwner: another process has taken some of it; what was polled is not to be used.
        """
        ids = [id for _, id in self._read]
        if (there := self._log.delete(connection, ids)) != len(ids):
            raise StaleOwner(
                f"{self.topic}: {len(ids) - there} of {len(ids)} messages are no longer in the "
                "log: another process has taken them, and a log has one reader; this one starts "
                "over"
            )

    def taken(self) -> None:
        """Forget what was polled: the transaction that took it is committed."""
        self._read.clear()

    async def stop(self) -> None:
        """Nothing is open."""

    def _page(self, most: int) -> Page:
        with self.engine.connect() as connection, any_text(connection):
            return self._log.read_after(connection, self._at, most)

    def _delete(self, ids: Sequence[int]) -> None:
        with self.engine.begin() as connection:
            self._log.delete(connection, ids)

    def _message(self, one: Message, at: int) -> InboundMessage:
        texts = one.topic, one.stream, one.kind or "", *one.headers.values()
        if not "".join(texts).isprintable() and any(map(_is_odd, texts)):
            topic, stream = map(_shown, (one.topic, one.stream))
            one = replace(
                one, topic=topic, stream=stream, kind=None, headers={},
                damage="a text of its row is no UTF-8",
            )  # fmt: skip
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
            # Damaged, it has no place in a stream, and is not another one's twin there.
            sequence=None if one.damage else one.sequence,
            replayable=False,
            damage=one.damage or "",
        )


def _is_odd(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class InboxOutbound:
    """See `Outbound`: destinations are topics of an inbox, whose order is "monotonic".

    The streams there are those of the messages, or else their keys, of each pair apart.

    Args:
        engine: the inbox's database.
        name: of the inbox.
        router: whose pairs.
    """

    keeps_start = True

    def __init__(self, engine: Engine, name: str = "default", router: str = "router") -> None:
        self.engine, self._name, self._router = engine, name, router
        self._before = 0

    async def start(self, pair: Pair) -> Place | None:
        with _away(DestinationDown, self.engine):
            return await asyncio.to_thread(self._start, pair)

    async def publish(self, batch: OutboundBatch) -> None:
        made = self.made(batch)
        number, behind = batch.behind
        parked = bool(batch.segment) and batch.offsets[-1:] != (behind,)
        if parked or not made:  # START moves: what has no content is never delivered
            starts = "sequitur-starts", self._prefix(batch.pair), behind, None, b""
            made.append(Message(*starts, epoch=number, void=True))
        with _away(DestinationDown, self.engine):
            await asyncio.to_thread(self._inbox.receive, made)

    def made(self, batch: OutboundBatch) -> list[Message]:
        """What a batch is to the inbox.

        Raises:
            PublishRefused: one message can be none of an inbox.
        """
        number, behind = batch.behind
        prefix = self._prefix(batch.pair)
        if not batch.segment:  # in one process there is no position that stays
            prefix, number = self._direct(batch.pair), max(number, self._before + 1)
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
        return made

    def receive(self, connection: Connection, batch: OutboundBatch) -> None:
        """Receive a batch in the transaction of what it came of.

        Raises:
            DestinationDown: the inbox takes some of it for received; start anew, and it does not.
            PublishRefused: one message can be none of an inbox.
        """
        made = self.made(batch)
        stored = self._inbox.receiver.receive(connection, made).stored
        if stored != len(made):
            raise DestinationDown(
                f"inbox {self._name}: {len(made) - stored} of {len(made)} messages are at or below "
                "what it has of their streams, and would be discarded; nothing is committed, and "
                "they come again in a later epoch"
            )

    def unfit(self, batch: OutboundBatch) -> dict[int, str]:
        """By trying, which messages the database does not take as data: index → reason."""
        made = self.made(batch)
        found = self._inbox.unfit(made)
        return {at: found[id(each)][0] for at, each in enumerate(made) if id(each) in found}

    async def stop(self) -> None:
        """Nothing is open."""

    def _start(self, pair: Pair) -> Place | None:
        self._inbox = Inbox(self.engine, self._name, order="monotonic")
        before = self._last(self._direct(pair))
        self._before = 0 if before is None else before.number
        return self._last(self._prefix(pair))

    def _last(self, prefix: str) -> Place | None:
        of, last = STREAMS.c, [STREAMS.c.epoch.desc(), STREAMS.c.received.desc()]
        # Not LIKE, for which SQLite's letters are the same in both cases.
        mine = func.substr(of.stream, 1, len(prefix)) == prefix
        asked = select(of.epoch, of.received).where(of.inbox == self._name, mine).order_by(*last)
        with self.engine.connect() as connection:
            row = connection.execute(asked.limit(1)).one_or_none()
        return None if row is None else Place(*row)

    def _prefix(self, pair: Pair) -> str:
        return f"{self._router}/{pair.topic}/{pair.transport}/"

    def _direct(self, pair: Pair) -> str:
        return f"direct {self._prefix(pair)}"
