"""Messages that a command sends by itself, and the record of them: both or neither, in parts."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from topology.faust.inspection import CannotAnswer
from topology.faust.kafka.clients import connection
from topology.faust.worker.writing.writer import REQUEST_BYTES
from topology.model.ending import wait_for_stop
from topology.model.event import Message
from topology.model.large import TOPIC_BYTES

PART, PART_BYTES = 10_000, TOPIC_BYTES
"""Messages of a transaction, and of the record of it, at most; and bytes, but for one message."""
PATIENCE = 40.0
"""Seconds that the broker may take for a transaction's messages; in 60 s it gives one up itself."""
ENDING = 10.0
"""Seconds in which a transaction that failed is to end."""


class _Found(Protocol):
    @property
    def record(self) -> Message: ...


T = TypeVar("T", bound=_Found)


def in_parts(found: Iterable[T]) -> Iterator[tuple[int, list[T]]]:
    """Split what is to be sent into transactions: (how many by the end of the part, the part)."""
    part: list[T] = []
    size = end = 0
    for end, each in enumerate(found, 1):
        part.append(each)
        size += len(each.record.value or b"")
        if len(part) >= PART or size >= PART_BYTES:
            yield end, part
            part, size = [], 0
    if part:
        yield end, part


class RecordedSends:
    """Sends messages in transactions. Another one of the same name is shut out."""

    def __init__(self, app: Any, name: str) -> None:
        self._producer = AIOKafkaProducer(
            **connection(app),
            transactional_id=f"{app.conf.id}-{name}",
            acks="all",
            max_request_size=REQUEST_BYTES,
            # What fitted into its topic because it was compressed is to fit again.
            compression_type="gzip",
        )

    async def __aenter__(self) -> "RecordedSends":
        """Connect. Raises KafkaError, CannotAnswer."""
        try:
            async with _in_time():
                await self._producer.start()
        except BaseException:
            await wait_for_stop(self._producer.stop())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await wait_for_stop(self._producer.stop())

    async def send(self, messages: Sequence[Message]) -> None:
        """Send messages in one transaction, and wait until the broker has all of them.

        Raises:
            KafkaError: the broker refuses one; none of them is there then.
            CannotAnswer: one is too large for its topic, likewise; or the broker does not answer.
        """
        async with _in_time():
            await self._producer.begin_transaction()
        try:
            async with _in_time():
                await self._acknowledged(messages)
        except BaseException:
            await self._abort()
            raise
        async with _in_time():
            await self._producer.commit_transaction()

    async def _acknowledged(self, messages: Sequence[Message]) -> None:
        try:
            sent = [
                await self._producer.send(
                    each.topic, each.value, key=each.key, partition=each.partition,
                    timestamp_ms=each.timestamp, headers=[*each.headers],
                )
                for each in messages
            ]  # fmt: skip
            # A commit does not look whether the broker has taken what it is to make visible.
            answers = await asyncio.gather(*sent, return_exceptions=True)
            for message, answer in zip(messages, answers, strict=True):
                if isinstance(answer, MessageSizeTooLargeError):
                    raise CannotAnswer(
                        f"a message of {len(message.value or b''):,} bytes is too large for topic "
                        f"{message.topic!r}; raise its max.message.bytes"
                    )
                if isinstance(answer, BaseException):
                    raise answer
        except Exception:
            # What follows the first error of a transaction says only that it has failed.
            if (ended := self._producer._txn_manager.wait_for_transaction_end()).done():
                ended.result()
            raise

    async def _abort(self) -> None:
        """End what failed: left open, it would hide what is committed behind it."""
        if not self._producer._txn_manager.is_fatal_error():
            with suppress(KafkaError, TimeoutError):
                async with asyncio.timeout(ENDING):
                    await self._producer.abort_transaction()


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    """Raises CannotAnswer where what is inside takes too long."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except TimeoutError:
        raise CannotAnswer(
            f"the broker did not take what was sent within {PATIENCE:.0f} s; see in `commands` "
            "what was done before"
        ) from None
