"""Looks into topics beside the group: what is unread, how old, whether an end mark is there."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaTimeoutError

import stores.kafka_topics  # noqa: F401  # no topic is made by asking for it
from stores.replay.recovering.switch import Seen
from topology.model.ending import wait_for_stop
from topology.model.replay_headers import RECOVERY_END, REPLAY

_ID = "sequitur-id"
_TAIL = 10
"""Offsets before an end where an end mark is; others there are markers of transactions."""
_PATIENCE = 60.0


def seen(record: Any, recovery: str = "", request: str = "") -> Seen:
    """What a switch has to know of a record.

    Args:
        record: of aiokafka.
        recovery: the server's id of a recovery.
        request: the group's.
    """
    names = dict(record.headers)
    id, ends = names.get(_ID), names.get(RECOVERY_END)
    return Seen(
        record.offset,
        None if id is None else id.decode(errors="replace"),
        REPLAY in names,
        request if ends is not None and ends == recovery.encode() else None,
    )


class Lookup:
    """Reads for one task at a time.

    Args:
        kafka: arguments of aiokafka's clients.
    """

    def __init__(self, kafka: Mapping[str, Any]) -> None:
        self._kafka = dict(kafka)
        self._reader = AIOKafkaConsumer(
            **{"fetch_max_wait_ms": 50, **self._kafka},
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )

    async def start(self) -> None:
        """Connect."""
        await self._reader.start()

    async def stop(self) -> None:
        """Disconnect."""
        await wait_for_stop(self._reader.stop())

    async def topics(self) -> set[str]:
        """The topics that are there."""
        return set(await self._reader.topics())

    async def begin_of(self, at: TopicPartition) -> int:
        """The first offset of a partition."""
        return int((await self._reader.beginning_offsets([at]))[at])

    async def end_of(self, at: TopicPartition) -> int:
        """The end of what is committed."""
        return int((await self._reader.end_offsets([at]))[at])

    async def records(
        self, at: TopicPartition, low: int, high: int
    ) -> AsyncIterator[Sequence[Any]]:
        """Records from one offset up to another, which is there. Raises KafkaTimeoutError."""
        self._reader.assign([at])
        self._reader.seek(at, low)
        since = time.monotonic()
        while await asyncio.wait_for(self._reader.position(at), _PATIENCE) < high:
            found = (await self._reader.getmany(at, timeout_ms=200)).get(at, [])
            if kept := [each for each in found if each.offset < high]:
                since = time.monotonic()
                yield kept
            elif time.monotonic() - since > _PATIENCE:
                raise KafkaTimeoutError(f"{at.topic}/{at.partition} cannot be read up to {high}")

    async def has_end(self, at: TopicPartition, recovery: str) -> bool:
        """Whether a recovery's end mark is in a partition."""
        end = await self.end_of(at)
        low = max(await self.begin_of(at), end - _TAIL)
        async for records in self.records(at, low, end):
            if any(seen(each, recovery, recovery).ends for each in records):
                return True
        return False

    async def seconds_left(
        self, at: TopicPartition, position: int, kept: float | None
    ) -> float | None:
        """For how long what is unread stays there at least, by its time; None: for ever.

        Args:
            at: the partition.
            position: the next offset to be read.
            kept: what `retention` says of the topic.
        """
        if kept is None:
            return None
        async for records in self.records(at, position, await self.end_of(at)):
            return kept - time.time() + float(records[0].timestamp) / 1000
        return kept

    async def retention(self, topic: str) -> float | None:
        """Seconds for which a topic keeps records; None: for ever."""
        admin = AIOKafkaAdminClient(**self._kafka)
        try:
            await admin.start()
            named = dict.fromkeys(("retention.ms", "cleanup.policy"), "")
            asked = ConfigResource(ConfigResourceType.TOPIC, topic, named)
            (answer,) = await admin.describe_configs([asked])
        finally:
            await wait_for_stop(admin.close())
        found = {each[0]: each[1] for each in answer.resources[0][4]}
        milliseconds = int(found.get("retention.ms") or -1)
        deleted = "delete" in (found.get("cleanup.policy") or "delete")
        return milliseconds / 1000 if deleted and milliseconds >= 0 else None
