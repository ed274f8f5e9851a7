"""The group's offsets, and what is noted with them."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata
from mode import get_logger

from stores.kafka_offsets import group_offsets
from topology.engine.intake import IntakeCounts, decode_intake
from topology.faust.kafka.clients import admin_client

logger = get_logger(__name__)

COMMIT = 10.0
"""Seconds that committing offsets may take; at least once, they can be committed later."""


class Committed(NamedTuple):
    """A committed offset, and what became of the messages before it."""

    offset: int
    taken: IntakeCounts


class Offsets:
    """Reads the group's offsets; at least once, it also commits them now and then.

    Exactly once, they are committed in the transactions of the units.
    """

    def __init__(self, app: Any, group: str) -> None:
        self._app = app
        self._group = group
        self._done: dict[TopicPartition, OffsetAndMetadata] = {}

    async def committed(
        self, partitions: Iterable[TopicPartition], *, stable: bool = False
    ) -> Mapping[TopicPartition, Committed]:
        """The offsets of those partitions that have one. stable: see `group_offsets`."""
        async with admin_client(self._app) as admin:
            found = await group_offsets(admin, self._group, list(partitions), stable=stable)
        return {
            tp: Committed(meta.offset, decode_intake(meta.metadata)) for tp, meta in found.items()
        }

    async def done(self, partition: TopicPartition, offset: int, taken: str) -> None:
        """At least once: all before an offset is durable."""
        self._done[partition] = OffsetAndMetadata(offset, taken)

    async def commit(self) -> None:
        """Commit what is done; the group refuses it under an old generation."""
        offsets, self._done = self._done, {}
        if offsets:
            try:
                await asyncio.wait_for(self._app.consumer.commit_noted(offsets), COMMIT)
            except (KafkaError, TimeoutError) as error:
                logger.warning("offsets are not committed, events will come again: %r", error)
