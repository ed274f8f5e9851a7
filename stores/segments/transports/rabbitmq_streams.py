"""RabbitMQ's streams as transports: consumed by AMQP, published by the protocol of streams.

The publishing id of a message is its position in its segment, and the segment is the producer. So
RabbitMQ itself knows what it has: nothing comes twice.
"""

import asyncio
import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from rstream import AMQPMessage, schema
from rstream._pyamqp.message import Properties  # type: ignore[attr-defined]
from rstream.client import Addr, Client, ClientPool
from rstream.exceptions import ClientError, ServerError, StreamDoesNotExist

from stores.db.urls import said
from stores.segments.errors import DestinationDown, PublishRefused, SegmentError
from stores.segments.message import InboundMessage, OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.transports.rabbitmq import RabbitInbound, RabbitLogin, own_headers, text_of
from stores.tls import client_tls
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

_OFFSET = "x-stream-offset"
_LOOK = 5.0
"""Seconds after which a stream does not have what was consumed."""
_WAIT = 30.0
_FRAME = 1 << 20
_OVERHEAD = 32
"""Bytes that a frame, or a message in it, has besides."""
_PRODUCERS = 256
"""Of one connection."""


class RabbitStreamInbound(RabbitInbound):
    """See `Inbound`: a stream, as one partition. SQL says where to go on."""

    _from = 0

    async def start(self, positions: Mapping[int, int]) -> None:
        self._from = positions.get(0, 0)
        await super().start(positions)
        if self._from:
            await self._look()

    async def _consume(self, queue: Any, position: int | None) -> None:
        # From the last one that was consumed: whether it is there says whether the stream is.
        offset = position - 1 if position else "first"
        await queue.consume(self._arrived.put, arguments={_OFFSET: offset})

    async def _look(self) -> None:
        try:
            waiting = [await asyncio.wait_for(self._arrived.get(), _LOOK)]
        except TimeoutError:
            raise SegmentError(
                f"stream {self.topic} has less than the {self._from} messages that were consumed: "
                "it is another stream of that name; use another router's name"
            ) from None
        while not self._arrived.empty():
            waiting.append(self._arrived.get_nowait())
        for each in waiting:
            self._arrived.put_nowait(each)
        first: Any = waiting[0]
        lost = 0 if first is None else int(first.headers[_OFFSET]) - self._from
        if lost > 0:
            logger.error("%s: %d messages were deleted before they were consumed", self.topic, lost)

    def _message(self, one: Any) -> InboundMessage | None:
        offset = int(one.headers.pop(_OFFSET))
        found = super()._message(one)
        if offset < self._from or found is None:
            return None
        return replace(found, offset=offset, behind=offset + 1, replayable=True)


@dataclass(slots=True)
class _Producer:
    """Who publishes into a stream. last: the publishing id that RabbitMQ has already."""

    client: Client
    number: int
    reference: str
    last: int = 0
    waiting: dict[int, "asyncio.Future[None]"] = field(default_factory=dict)

    def confirmed(self, frame: schema.PublishConfirm) -> None:
        if frame.publisher_id == self.number:
            for id in frame.publishing_ids:
                if (sent := self.waiting.pop(id, None)) is not None and not sent.done():
                    sent.set_result(None)

    def refused(self, frame: schema.PublishError) -> None:
        if frame.publisher_id == self.number:
            codes = {each.response_code for each in frame.errors}
            self.over(DestinationDown(f"RabbitMQ: a stream does not take messages: {codes}"))

    def over(self, error: Exception) -> None:
        for sent in self.waiting.values():
            if not sent.done():
                sent.set_exception(error)


class RabbitStreamOutbound:
    """See `Outbound`: destinations are streams, which exist.

    A stream remembers the last 255 producers, each of which is a segment.

    Args:
        login: how to reach RabbitMQ; the user, the host and TLS count.
        port: of the protocol of streams.
    """

    def __init__(self, login: RabbitLogin, port: int = 5552) -> None:
        self._login, self._port = login, port
        self._pool: ClientPool | None = None
        self._producers: dict[str, _Producer] = {}

    async def start(self, pair: Pair) -> Place | None:
        self._producers = {}
        parts = urlsplit(self._login.url)
        with self._away():
            pool = self._pool = ClientPool(
                parts.hostname or "localhost",
                self._port,
                ssl_context=_tls(self._login.url),
                vhost=unquote(parts.path[1:]) or "/",
                username=unquote(parts.username or "guest"),
                password=unquote(parts.password or "guest"),
                frame_max=_FRAME,
                heartbeat=self._login.heartbeat,
                load_balancer_mode=False,
                max_retries=1,
            )
            self._locator = await pool.get("sequitur", connection_closed_handler=self._over)
        return None

    async def publish(self, batch: OutboundBatch) -> None:
        streams: dict[str, list[schema.Message]] = {}
        with self._away():
            for index, message in enumerate(batch.messages):
                data = _encoded(index, message)
                # Without a segment, as in one process, there is no id that stays.
                id = batch.offsets[index] if batch.segment else index + 1
                streams.setdefault(message.destination, []).append(schema.Message(id, None, data))
                await self._know(index, message.destination, batch.segment)
            sent = [await self._send(self._producers[name], some) for name, some in streams.items()]
            await asyncio.wait_for(asyncio.gather(*(one for some in sent for one in some)), _WAIT)

    async def stop(self) -> None:
        pool, self._pool = self._pool, None
        self._over(None)
        if pool is not None:
            await wait_for_stop(pool.close())

    async def _know(self, index: int, stream: str, segment: str) -> None:
        """Be the producer of a segment into a stream, and ask what RabbitMQ has of it."""
        producer = self._producers.get(stream)
        if producer is not None and producer.reference == segment:
            return
        assert self._pool is not None
        try:
            if not stream.isascii():  # rstream counts characters, and the connection would hang
                raise StreamDoesNotExist
            if producer is None:
                leader, _ = await self._locator.query_leader_and_replicas(stream)
                at = Addr(leader.host, leader.port)
                client = await self._pool.get(
                    "sequitur", at, connection_closed_handler=self._over, stream=stream
                )
                if len(self._producers) == _PRODUCERS:
                    raise DestinationDown(f"one connection publishes into {_PRODUCERS} streams")
                producer = _Producer(client, len(self._producers), segment)
                client.add_handler(schema.PublishConfirm, producer.confirmed, stream)
                client.add_handler(schema.PublishError, producer.refused, stream)
            else:
                await producer.client.delete_publisher(producer.number)
            await producer.client.declare_publisher(stream, segment, producer.number)
        except StreamDoesNotExist as error:
            raise PublishRefused(index, f"there is no stream {printable(stream)}") from error
        producer.reference, producer.last = segment, 0
        if segment:
            producer.last = await producer.client.query_publisher_sequence(stream, segment)
        self._producers[stream] = producer

    async def _send(
        self, producer: _Producer, messages: Sequence[schema.Message]
    ) -> list["asyncio.Future[None]"]:
        new = [each for each in messages if each.publishing_id > producer.last]
        producer.waiting = {each.publishing_id: asyncio.Future() for each in new}
        sent, frame, size = [*producer.waiting.values()], list[schema.Message](), _OVERHEAD
        for each in new:
            if size + len(each.data) + _OVERHEAD > _FRAME:
                await producer.client.send_publish_frame(schema.Publish(producer.number, frame))
                frame, size = [], _OVERHEAD
            frame.append(each)
            size += len(each.data) + _OVERHEAD
        if frame:
            await producer.client.send_publish_frame(schema.Publish(producer.number, frame))
        if not producer.client.is_connection_alive():
            raise DestinationDown("RabbitMQ has ended the connection")
        return sent

    def _over(self, _: object) -> None:
        for producer in self._producers.values():
            producer.over(DestinationDown("RabbitMQ has ended the connection"))

    @contextmanager
    def _away(self) -> Iterator[None]:
        try:
            with self._login.away(DestinationDown):
                yield
        except (ServerError, ClientError) as error:
            told = said(error, self._login.url)
            raise DestinationDown(f"RabbitMQ: {type(error).__name__}: {told}") from error


def _encoded(index: int, message: OutboundMessage) -> bytes:
    if message.value is None:
        raise PublishRefused(index, "it has no value, and a message of RabbitMQ has one")
    headers = {name: value or b"" for name, value in own_headers(message)}
    made = AMQPMessage(
        body=message.value,
        properties=Properties(message_id=message.id),
        application_properties={name: text_of(value) for name, value in headers.items()},
    )
    data = bytes(made)
    if len(data) > _FRAME - 2 * _OVERHEAD:
        raise PublishRefused(index, f"it has {len(data)} bytes, and a stream takes {_FRAME}")
    return data


def _tls(url: str) -> ssl.SSLContext | None:
    """TLS as the query of an amqps URL says."""
    parts = urlsplit(url)
    if parts.scheme != "amqps":
        return None
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    context = client_tls(given.get("cafile"), given.get("capath"))
    if "certfile" in given:
        context.load_cert_chain(given["certfile"], given.get("keyfile"))
    return context
