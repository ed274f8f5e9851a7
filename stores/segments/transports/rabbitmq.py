"""RabbitMQ's queues and exchanges as transports, by AMQP.

Neither a queue nor an exchange keeps START: a batch in doubt comes again, with the same ids.
"""

import asyncio
import hashlib
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)

from stores.db.urls import said
from stores.message import HIGHEST
from stores.segments.errors import DestinationDown, PublishRefused
from stores.segments.message import (
    Headers,
    InboundMessage,
    OutboundBatch,
    OutboundMessage,
    Pair,
    Place,
)
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.printable import printable

ID, KEY = "sequitur-id", "sequitur-key"
STREAM, SEQUENCE = "sequitur-stream", "sequitur-sequence"
_WAIT = 30.0
_SHORT = 255
"""Bytes of a routing key, a message id, a header's name."""
_ROUTING = {"CC": "sequitur-CC", "BCC": "sequitur-BCC"}
"""Headers that RabbitMQ takes for further routing keys → what they are called on their way."""
_PLAIN = {carried: name for name, carried in _ROUTING.items()}
_HEADERS = 100_000
"""Bytes of a message's headers: they have to fit into one frame."""


@dataclass(frozen=True, slots=True)
class RabbitLogin:
    """How to reach RabbitMQ.

    Attributes:
        url: amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// with TLS, whose settings are its
            query: `cafile`, `capath`, `certfile`, `keyfile`.
        heartbeat: seconds; a connection that is silent for twice as long is over.
    """

    url: str = field(repr=False)
    heartbeat: int = 10

    async def connect(self, name: str) -> AbstractConnection:
        """Connect under a name that RabbitMQ shows."""
        return await aio_pika.connect(
            self.url, heartbeat=self.heartbeat, timeout=_WAIT, client_properties=_named(name)
        )

    @contextmanager
    def away(self, kind: type[ConnectionError]) -> Iterator[None]:
        """Have what AMQP raises be `kind`, without the secrets of the URL."""
        try:
            yield
        except CONNECTION_EXCEPTIONS as error:
            raise kind(f"RabbitMQ: {said(error, self.url)}") from error


def _named(name: str) -> Any:
    return {"connection_name": name}


async def _closed(connection: AbstractConnection | None) -> None:
    if connection is not None:
        await wait_for_stop(connection.close())
        await asyncio.sleep(0.01)  # its own callbacks are tasks


class RabbitInbound:
    """See `Inbound`: a queue, of which it is the only consumer. Its positions are of a connection.

    A message says who it is by the headers `sequitur-stream` and `sequitur-sequence`, or those that
    are named here, or else by its message id.

    Args:
        topic: its name as a topic.
        login: how to reach RabbitMQ.
        queue: its name in RabbitMQ, where that is another one.
        stream: the header with the stream of a message.
        sequence: the header with its sequence in that stream.
        prefetch: messages that are under way at most.
    """

    def __init__(
        self,
        topic: str,
        login: RabbitLogin,
        queue: str = "",
        *,
        stream: str = STREAM,
        sequence: str = SEQUENCE,
        prefetch: int = 1_000,
    ) -> None:
        self.topic, self._login, self._queue = topic, login, queue or topic
        self._stream, self._sequence, self._prefetch = stream, sequence, prefetch
        self._connection: AbstractConnection | None = None
        self._channel: Any = None
        self._arrived: asyncio.Queue[AbstractIncomingMessage | None] = asyncio.Queue()
        self._tags: deque[tuple[int, int]] = deque()
        """(position behind, delivery tag) of what is not acknowledged."""

    async def start(self, positions: Mapping[int, int]) -> None:
        await self.stop()  # what a start that failed has opened
        arrived = self._arrived = asyncio.Queue()
        self._tags.clear()
        with self._login.away(ConnectionError):
            self._connection = await self._login.connect(f"sequitur consumes {self.topic}")
            channel = await self._connection.channel(publisher_confirms=False)
            await channel.set_qos(prefetch_count=self._prefetch)
            self._channel = await channel.get_underlay_channel()
            # None: nothing more comes, for the connection is over, or the queue is.
            self._connection.close_callbacks.add(lambda *_: arrived.put_nowait(None))
            channel.close_callbacks.add(lambda *_: arrived.put_nowait(None))
            self._channel.on_consumer_cancel_callbacks.add(lambda *_: arrived.put_nowait(None))
            queue = await channel.declare_queue(self._queue, passive=True)
            await self._consume(queue, positions.get(0))

    async def _consume(self, queue: Any, position: int | None) -> None:
        # Exclusive: while a consumer before this one still has messages, none may come behind them.
        await queue.consume(self._arrived.put, exclusive=True)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        found: list[InboundMessage] = []
        with suppress(TimeoutError):
            one = await asyncio.wait_for(self._arrived.get(), max(seconds, 0.001))
            while one is not None:
                if (message := self._message(one)) is not None:
                    self._tags.append((message.behind, one.delivery_tag or 0))
                    found.append(message)
                if len(found) == most or self._arrived.empty():
                    return found
                one = self._arrived.get_nowait()
            self._arrived.put_nowait(None)
            raise ConnectionError(f"queue {self._queue}: RabbitMQ has ended the connection")
        return found

    async def acknowledge(self, positions: Mapping[int, int]) -> None:
        last = 0
        while self._tags and self._tags[0][0] <= positions.get(0, 0):
            last = self._tags.popleft()[1]
        if last:
            with self._login.away(ConnectionError):
                await self._channel.basic_ack(last, multiple=True)

    async def stop(self) -> None:
        connection, self._connection = self._connection, None
        await _closed(connection)

    def _message(self, one: AbstractIncomingMessage) -> InboundMessage | None:
        at, given = one.delivery_tag or 0, dict(one.headers)
        key = given.pop(KEY, None)
        headers = tuple(
            (_PLAIN.get(name, name), _bytes(value))
            for name, several in given.items()
            for value in (several if isinstance(several, list) else [several])
        )
        named = {name: _text(several) for name, several in given.items()}
        return InboundMessage(
            *(self.topic, 0, at, at + 1, one.body),
            key=None if key is None else _bytes(key),
            headers=headers,
            stream=named.get(self._stream),
            sequence=_number(named.get(self._sequence)),
            producer_id=named.get(ID) or one.message_id or None,
            replayable=False,
            redelivered=bool(one.redelivered),
        )


_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray) else str(value).encode()


def _text(value: object) -> str | None:
    """What a header says, of which an id is made: exactly, or nothing. Two values that were read as
    one text would make one message of two, and the second would be discarded."""
    if isinstance(value, list):
        value = value[-1] if value else None
    if isinstance(value, bytes | bytearray):
        with suppress(UnicodeDecodeError):
            return bytes(value).decode()
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


def _number(text: str | None) -> int | None:
    if text is None or not _NUMBER.fullmatch(text):
        return None
    return number if -HIGHEST - 1 <= (number := int(text)) <= HIGHEST else None


class RabbitOutbound:
    """See `Outbound`: destinations are queues, or routing keys of one exchange.

    Each message is persistent, mandatory, and confirmed; one that no queue takes is refused. As
    long as one publisher of a pair is connected, RabbitMQ lets in no other one.

    Args:
        login: how to reach RabbitMQ.
        router: whose pairs.
        exchange: the exchange; "": the one by which a routing key is a queue's name.
    """

    def __init__(self, login: RabbitLogin, router: str = "router", *, exchange: str = "") -> None:
        self._login, self._router, self._exchange = login, router, exchange
        self._connection: AbstractConnection | None = None
        self._channel: Any = None
        self._known: set[str] = set()
        self._one_by_one = False
        # A batch of which one message is refused is published again: without what is confirmed.
        self._confirmed: set[str] = set()

    async def start(self, pair: Pair) -> Place | None:
        await self.stop()  # what a start that failed has opened
        self._known.clear()
        with self._login.away(DestinationDown):
            self._connection = await self._login.connect(f"sequitur publishes {pair}")
            self._channel = await self._open()
            await self._channel.queue_declare(self._name(pair), exclusive=True, auto_delete=True)
            if self._exchange:
                await self._channel.exchange_declare(self._exchange, passive=True)
        return None

    async def publish(self, batch: OutboundBatch) -> None:
        ready = [_ready(at, message) for at, message in enumerate(batch.messages)]
        with self._login.away(DestinationDown):
            sending: dict[int, asyncio.Task[None]] = {}
            try:
                for index, message in enumerate(batch.messages):
                    if message.id in self._confirmed:
                        continue
                    sent = sending[index] = asyncio.create_task(self._send(message, ready[index]))
                    if self._one_by_one or message.destination not in self._known:
                        # So that nothing passes what no queue takes.
                        await asyncio.wait([sent])
                        if not self._is_confirmed(message, sent):
                            break
                if sending:
                    await asyncio.wait(sending.values())
                confirmed = [self._is_confirmed(batch.messages[i], s) for i, s in sending.items()]
                if not all(confirmed):
                    index, sent = list(sending.items())[confirmed.index(False)]
                    await self._fail(index, batch.messages[index].destination, sent)
            finally:
                await end_tasks(*sending.values())
        self._confirmed.clear()
        self._one_by_one = False

    async def stop(self) -> None:
        connection, self._connection = self._connection, None
        await _closed(connection)

    async def _open(self) -> Any:
        assert self._connection is not None
        channel = await self._connection.channel(on_return_raises=True)
        return await channel.get_underlay_channel()

    async def _send(self, message: OutboundMessage, amqp: aio_pika.Message) -> None:
        await self._channel.basic_publish(
            amqp.body,
            exchange=self._exchange,
            routing_key=message.destination,
            properties=amqp.properties,
            mandatory=True,
            timeout=_WAIT,
            wait=False,
        )

    def _is_confirmed(self, message: OutboundMessage, sent: "asyncio.Task[None]") -> bool:
        if sent.cancelled() or sent.exception() is not None:
            return False
        self._known.add(message.destination)
        if message.id:
            self._confirmed.add(message.id)
        return True

    async def _fail(self, index: int, destination: str, sent: "asyncio.Task[None]") -> None:
        """Raise what became of the first one that is not confirmed."""
        if sent.cancelled():  # not by whoever waits here
            raise DestinationDown("RabbitMQ has ended the connection")
        try:
            sent.result()
        except PublishError as error:
            self._known.discard(destination)
            has = f"exchange {self._exchange} has" if self._exchange else "there is"
            raise PublishRefused(index, f"{has} no queue for {printable(destination)}") from error
        except DeliveryError as error:
            raise DestinationDown(
                f"RabbitMQ: {printable(destination)} takes nothing: it is full, or unavailable"
            ) from error
        except ChannelPreconditionFailed as error:  # it is too large, which ends the channel
            if not self._one_by_one:
                self._one_by_one = True  # next time it is known which one it is
                raise
            self._channel = await self._open()
            raise PublishRefused(index, said(error, self._login.url)) from error

    def _name(self, pair: Pair) -> str:
        """The queue that a connection has for itself as long as it publishes the pair."""
        name = f"sequitur-publisher.{self._router}.{pair.topic}.{pair.transport}"
        return _shortened(name)


def _ready(index: int, message: OutboundMessage) -> aio_pika.Message:
    """The message as AMQP has it. Raises PublishRefused where it cannot have it."""
    if message.value is None:
        raise PublishRefused(index, "it has no value, and a message of RabbitMQ has one")
    table: dict[str, Any] = {}
    size = 0
    for name, value in own_headers(message):
        size += len(name.encode()) + len(value) + 8
        table.setdefault(_ROUTING.get(name, name), []).append(text_of(value))
    if len(message.destination.encode()) > _SHORT:
        raise PublishRefused(index, f"its destination has more than {_SHORT} bytes")
    if size > _HEADERS or any(len(name.encode()) > _SHORT for name in table):
        raise PublishRefused(
            index, f"its headers: {size} bytes; {_HEADERS} fit, and {_SHORT} for a name"
        )
    return aio_pika.Message(
        message.value,
        headers={name: some if len(some) > 1 else some[0] for name, some in table.items()},
        message_id=_shortened(message.id),
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )


def own_headers(message: OutboundMessage) -> Headers:
    """A message's headers, with what else it is known by."""
    own = {ID: message.id.encode()}
    if message.stream is not None and message.sequence is not None:
        own |= {STREAM: message.stream.encode(), SEQUENCE: b"%d" % message.sequence}
    if message.key is not None:
        own[KEY] = message.key
    return (*(each for each in message.headers if each[0] not in own), *own.items())


def text_of(value: bytes) -> str | bytearray:
    """A header's value: text where it is such, as clients of RabbitMQ expect it."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return bytearray(value)


def _shortened(name: str) -> str:
    return name if len(name.encode()) <= _SHORT else hashlib.sha256(name.encode()).hexdigest()
