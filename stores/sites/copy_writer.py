"""Writes copies at a site, with how far they are, in one transaction: so positions are exact."""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTimestampError,
    MessageSizeTooLargeError,
    ProducerFenced,
    RecordTooLargeError,
)
from aiokafka.producer import sender

from stores.sites.errors import SiteError
from stores.sites.origin import Headers, Origin, headers_of_copy, origin_of
from stores.sites.site import FORWARDED, LAST, SITES, Last, Position, Site, key_of, progress_of
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

# A transaction close behind another one waits for that one's markers: not aiokafka's 20 ms.
sender.BACKOFF_OVERRIDE = 0.003

_TIMEOUT = 10.0
"""Seconds for which the open transaction of a forwarder that was killed holds up readers."""
REFUSED = (MessageSizeTooLargeError, RecordTooLargeError, InvalidTimestampError)
"""What a site does not take, for its size or its time."""
_BATCH, _LARGEST = 1 << 19, 256 << 20
_NOTHING = object()
"""Instead of no content: aiokafka sends no message that has neither key nor content."""
SHUT_OUT = ProducerFenced
"""Another writer has started."""


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


def last_of(record: Any) -> Last:
    """What another site keeps of a record that was read, to know by it what it was read from."""
    stamp = record.timestamp if record.timestamp >= 0 else None
    return Last(record.offset, mark_of(record.key, record.value, stamp))


def mark_of(key: bytes | None, value: bytes | None, timestamp: int | None) -> str:
    """What tells a message from another one at the same offset. Pure."""
    lengths = [None if each is None else len(each) for each in (key, value)]
    crc = zlib.crc32(value or b"", zlib.crc32(key or b"", zlib.crc32(orjson.dumps(lengths))))
    return f"{timestamp}/{crc:08x}"


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
        return (await self.progress())[0]

    async def progress(self) -> tuple[dict[int, Position], dict[int, Last]]:
        """How far the origin's topic is copied here, and the last copies: partition → each."""
        return progress_of(await self.target.rows(FORWARDED), self.cluster, self.topic)

    async def write(
        self,
        copies: Sequence[Copy],
        positions: Mapping[int, Position],
        rows: Mapping[tuple[str | int, ...], Any] | None = None,
        last: Mapping[int, Last] | None = None,
    ) -> None:
        """Write copies, how far they are, and rows about sites: all of it or nothing.

        Raises:
            SiteError: the site does not take one of them, for its size or its time.
            REFUSED: it does not take a batch; start anew, and each is sent alone.
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
            for number, copied in (last or {}).items():
                value = orjson.dumps(list(copied))
                sent.append(await producer.send(FORWARDED, value, key_of((LAST, *key, number)), 0))
            for row, value in (rows or {}).items():
                sent.append(await producer.send(SITES, orjson.dumps(value), key_of(row), 0))
            done = await asyncio.gather(*sent, return_exceptions=True)
            for index, each in enumerate(done):
                if isinstance(each, REFUSED):
                    self._refused(copies[index : index + 1], each)
                if isinstance(each, BaseException):
                    raise each
        self._batch = _BATCH

    def _refused(self, copies: Sequence[Copy], error: BaseException) -> None:
        if self._batch > 1 or not copies:
            self._batch = 1  # which of them it is shows when each is sent alone
            raise error
        time = isinstance(error, InvalidTimestampError)
        what = "of the time of" if time else "as large as"
        setting = "message.timestamp.after.max.ms" if time else "max.message.bytes"
        raise SiteError(
            f"site {printable(self.target.name)} takes no message {what} {copies[0].origin}: "
            f"raise {setting} of its topic {self.topic}"
        ) from error

    async def stop(self) -> None:
        """Stop; a transaction that is open comes to nothing."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await wait_for_stop(producer.stop())
