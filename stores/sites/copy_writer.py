"""Writes copies at a site, with how far they are, in one transaction: so positions are exact."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    IllegalOperation,
    MessageSizeTooLargeError,
    ProducerFenced,
    RecordTooLargeError,
)
from aiokafka.producer import sender

from stores.sites.errors import SiteError
from stores.sites.origin import Headers, Origin, headers_of_copy, origin_of
from stores.sites.site import FORWARDED, SITES, Position, Site, key_of
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

# A transaction close behind another one waits for that one's markers: not aiokafka's 20 ms.
sender.BACKOFF_OVERRIDE = 0.003

_TIMEOUT = 10.0
"""Seconds for which the open transaction of a forwarder that was killed holds up readers."""
TOO_LARGE = (MessageSizeTooLargeError, RecordTooLargeError)
_BATCH, _LARGEST = 1 << 19, 256 << 20
_NOTHING = object()
"""Instead of no content: aiokafka sends no message that has neither key nor content."""
SHUT_OUT = (ProducerFenced, IllegalOperation)
"""Another writer has started; the second one where it did before anything was sent."""


class Copy(NamedTuple):
    """A message on its way to another site; it has the same partition there."""

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None

    @classmethod
    def of(cls, record: Any, by: str) -> "Copy":
        """The copy of a record that site `by` (a cluster id) has, as its own or as a copy."""
        here = Origin(by, record.topic, record.partition, record.offset)
        origin = origin_of(record.headers, record.topic) or here
        headers = headers_of_copy(record.headers, origin, by)
        stamp = record.timestamp if record.timestamp >= 0 else None
        return cls(origin, record.key, record.value, headers, stamp)


class CopyWriter:
    """The one writer of one origin's topic at one site: its start shuts out the one before.

    Args:
        target: where.
        cluster: the origin's cluster id.
        topic: which.
    """

    def __init__(self, target: Site, cluster: str, topic: str) -> None:
        self.target, self.cluster, self.topic = target, cluster, topic
        self._producer: AIOKafkaProducer | None = None
        self._batch = _BATCH

    async def start(self) -> None:
        """Shut out the writer before, and end its transaction. Raises KafkaError."""
        await self.target.prepare()
        self._producer = AIOKafkaProducer(
            **{"retry_backoff_ms": 10, **self.target.kafka},
            transactional_id=f"forward/{self.cluster}/{self.topic}",
            transaction_timeout_ms=round(_TIMEOUT * 1000),
            max_batch_size=self._batch,
            max_request_size=_LARGEST,
            value_serializer=lambda value: None if value is _NOTHING else value,
        )
        await self._producer.start()

    async def positions(self) -> dict[int, Position]:
        """How far the origin's topic is copied here: partition → position."""
        found = await self.target.positions()
        own = (self.cluster, self.topic)
        return {key[2]: position for key, position in found.items() if key[:2] == own}

    async def write(
        self,
        copies: Sequence[Copy],
        positions: Mapping[int, Position],
        rows: Mapping[tuple[str | int, ...], Any] | None = None,
    ) -> None:
        """Write copies, how far they are, and rows about sites: all of it or nothing.

        Raises:
            SiteError: the site takes no message as large as one of them.
            TOO_LARGE: it takes no batch as large; start anew, and each is sent alone.
            SHUT_OUT: another writer has started.
            KafkaError: it is in doubt; start anew, from the positions.
        """
        producer = self._producer
        assert producer is not None
        key = self.cluster, self.topic
        async with producer.transaction():
            sent = [
                await producer.send(
                    self.topic,
                    _NOTHING if each.value is None else each.value,
                    each.key,
                    each.origin.partition,
                    each.timestamp,
                    list(each.headers),
                )
                for each in copies
            ]
            for number, position in positions.items():
                value = orjson.dumps(list(position))
                sent.append(await producer.send(FORWARDED, value, key_of((*key, number)), 0))
            for row, value in (rows or {}).items():
                sent.append(await producer.send(SITES, orjson.dumps(value), key_of(row), 0))
            done = await asyncio.gather(*sent, return_exceptions=True)
            for index, each in enumerate(done):
                if isinstance(each, TOO_LARGE):
                    self._refused(copies[index : index + 1], each)
                if isinstance(each, BaseException):
                    raise each
        self._batch = _BATCH

    def _refused(self, copies: Sequence[Copy], error: BaseException) -> None:
        if self._batch > 1 or not copies:
            self._batch = 1  # which of them it is shows when each is sent alone
            raise error
        raise SiteError(
            f"site {printable(self.target.name)} takes no message as large as {copies[0].origin}: "
            f"raise max.message.bytes of its topic {self.topic}"
        ) from error

    async def stop(self) -> None:
        """Stop; a transaction that is open comes to nothing."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await wait_for_stop(producer.stop())
