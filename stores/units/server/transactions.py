"""What an owner makes durable: rows, offset, departures and sends, in one Kafka transaction."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    InvalidTimestampError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from stores.db.steady_clock import elapsed
from stores.units.errors import MemberUnavailable
from stores.units.kafka.records import OutgoingMessage, handover_headers, key_of
from stores.units.kafka.row_log import POSITION, RowKey, row_key
from stores.units.kafka.rows import row_json
from stores.units.kafka.topics import (
    LOOKS,
    ROW_BYTES,
    dead_topic,
    learn_partition,
    member_of,
    rows_topic,
)
from stores.units.queue import Departure, Outcome, UnitChanges
from stores.units.server.settings import ServerSettings
from stores.units.wire import packed
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

OFFSET_EVERY = 1.0
"""Seconds between commits of the group's offset: for tools; the row of the position is what
counts."""
REFUSED = (
    InvalidTimestampError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)
"""Errors of a message or its topic, which come again with the next attempt."""


def transactional_id(destination: str, group: str, member: int) -> str:
    """By which owners of a member fence each other, and nobody else: topics have no slash."""
    return f"units/{destination}/{group}/{member}"


@dataclass(frozen=True, slots=True)
class Send:
    """A message that a transacted consumer sends.

    key: of the record, where the message names no unit. empty: whether it has no value. refused: is
    told why if the topic does not take it.
    """

    topic: str
    message: OutgoingMessage
    unit: str | None
    key: bytes | None = None
    empty: bool = False
    refused: Callable[[str], object] = field(default=lambda _: None, compare=False)


@dataclass(slots=True)
class Batch:
    """What waits for the next transaction.

    commits: whether it has to be durable before anybody gets what follows. confirm: called once it
    is.
    """

    changes: UnitChanges | None = None
    rows: dict[RowKey, Any] = field(default_factory=dict)
    departures: list[Departure] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    commits: bool = False
    confirm: list[Callable[[], object]] = field(default_factory=list)

    def add(self, changes: UnitChanges) -> None:
        """What the queue says; later rows go over earlier ones."""
        self.changes = changes
        for key, value in changes.rows.items():
            self.rows[key] = None if value is None else row_json(value)
        self.departures += changes.departures
        self.commits |= bool(changes.departures)


class OwnerTransactions:
    """The transactions of one member's owner; starting fences the former owner.

    members: topic → members, of the topics that messages may be sent to.
    """

    def __init__(
        self, settings: ServerSettings, member: int, partition: int, members: dict[str, int]
    ) -> None:
        self._settings, self._member, self._partition = settings, member, partition
        self._members = members
        self._at = TopicPartition(settings.destination, member)
        self._rows = rows_topic(settings.destination)
        self._offset, self._offset_at = -1, 0.0
        self._written: tuple[int, bytes] | None = None
        self.topic: str | None = None
        """The topic's id, which goes with the position."""
        self._producer = AIOKafkaProducer(
            **{"retry_backoff_ms": 10, **settings.kafka},
            transactional_id=transactional_id(settings.destination, settings.group, member),
            max_request_size=ROW_BYTES,
            max_batch_size=1 << 18,
            transaction_timeout_ms=30_000,
        )

    async def start(self) -> None:
        """Fence the former owner: what it has not committed by now it never will."""
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect; a transaction that is open is aborted by the broker."""
        await wait_for_stop(self._producer.stop())

    async def commit(self, batch: Batch) -> float:
        """Commit a batch. Returns the time by `elapsed` at which the member was surely owned.

        Raises KafkaError, after which the owner has to start anew.
        """
        begun = elapsed()
        producer, sent = self._producer, []
        await producer.begin_transaction()
        for key, value in self._all_rows(batch):
            name = row_key(self._settings.group, self._member, key)
            data = None if value is None else orjson.dumps(value)
            sent.append(await producer.send(self._rows, data, name, self._partition))
        for leaving in batch.departures:
            sent.append(await self._depart(leaving))
        for each in batch.sends:
            place = None if each.unit is None else member_of(each.unit, self._members[each.topic])
            headers = each.message.headers(each.unit)
            to = each.key if each.unit is None else key_of(each.unit)
            content = None if each.empty else each.message.value
            sending = producer.send(each.topic, content, to, place, headers=headers)
            sent.append(await self._unless_refused(each, sending))
        changes = batch.changes
        if (
            changes is not None
            and changes.position != self._offset
            and begun - self._offset_at > OFFSET_EVERY
        ):
            offsets = {self._at: changes.position}
            await producer.send_offsets_to_transaction(offsets, self._settings.group)
            self._offset, self._offset_at = changes.position, begun
        # A record that the broker refuses does not keep a transaction from being committed.
        await asyncio.gather(*sent)
        await producer.commit_transaction()
        return begun

    async def _unless_refused(self, sent: Send, sending: Any) -> Any:
        """The future of a send; who sent it hears if its topic does not take it."""

        def tell(error: BaseException | None) -> None:
            if isinstance(error, REFUSED):
                topic = printable(sent.topic)
                sent.refused(f"topic {topic!r} does not take the message: {printable(error, 200)};"
                             " send less, or look at the topic's limits and rights")  # fmt: skip

        try:
            result = await sending
        except REFUSED as error:
            tell(error)
            raise
        result.add_done_callback(lambda done: tell(None if done.cancelled() else done.exception()))
        return result

    def _all_rows(self, batch: Batch) -> list[tuple[RowKey, Any]]:
        rows = list(batch.rows.items())
        if (changes := batch.changes) is not None:
            place = changes.position, changes.done.encode()
            if place != self._written:
                self._written = place
                row = {"position": place[0], "done": packed(place[1]), "topic": self.topic}
                rows.append(((POSITION,), row))
        return rows

    async def _is_there(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition: not every record was written by the path service."""
        for _ in range(LOOKS):
            with suppress(MemberUnavailable):
                await learn_partition(self._producer, topic, partition)
                return True
            await asyncio.sleep(0.2)
        return False

    async def _depart(self, leaving: Departure) -> Any:
        message = leaving.message
        if message.handover is not None and message.unit is not None:
            handed = replace(message.handover, kind="handed", other=self._member)
            headers = handover_headers(message.unit, handed, self._settings.group)
            to, place = self._settings.destination, message.handover.other
            if await self._is_there(to, place):
                key = key_of(message.unit)
                return await self._producer.send(to, b"", key, place, headers=headers)
            why = f"it says that its unit goes to member {place}, which {to!r} does not have"
            logger.error("%s/%d offset %d: %s; it goes to the dead topic",
                         to, self._member, message.offset, why)  # fmt: skip
            leaving = replace(leaving, outcome=Outcome.REFUSED, reason=why)
        topic = leaving.to or dead_topic(self._settings.destination)
        left = OutgoingMessage(b"", attributes=message.attributes)
        if leaving.outcome is Outcome.MOVED:  # who has it next goes by what it said
            left = replace(left, sort=message.sort, not_before=message.not_before or None,
                           expires=message.expires)  # fmt: skip
        headers = left.headers(message.unit)
        headers.append(("unit-outcome", leaving.outcome.value.encode()))
        if leaving.reason:
            headers.append(("unit-reason", leaving.reason[:1000].encode("utf-8", "replace")))
        partition = None
        if message.unit is not None:  # all of one unit go to one partition, in order
            members = self._members.get(topic)
            partition = member_of(message.unit, members) if members else self._partition
        key = key_of(message.unit) if message.key is None else message.key
        return await self._producer.send(topic, message.content, key, partition, headers=headers)
