"""What is there of topics, and how far the group is: the barrier before a gap is given up (see
`Watermark`), and what partitions have left to read."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from topology.declaration.source import Source
from topology.faust.kafka.clients import connected_consumer, partitions_of
from topology.faust.kafka.offsets import Committed, Offsets
from topology.faust.kafka.worker_clock import wall

EVERY = 0.5
"""Seconds between two looks at how far the re-keying is."""


class Barriers:
    """Asks the broker for ends of topics, and the group for its offsets."""

    def __init__(self, app: Any, offsets: Offsets) -> None:
        self._app = app
        self._offsets = offsets
        self._committed: AIOKafkaConsumer | None = None
        self._all: AIOKafkaConsumer | None = None

    async def start(self) -> None:
        """Connect, if that was not done before."""
        if self._committed is None:
            self._committed = await connected_consumer(self._app)
        if self._all is None:
            self._all = await connected_consumer(self._app, isolation_level="read_uncommitted")

    async def begin(self, source: Source, partition: int) -> tuple[int, int]:
        """(wall clock in ms now, offset of the by-stream partition behind all that came by now)."""
        assert self._all is not None
        began = wall()
        if not source.keyed:
            await self._learn_partitions(source)
            behind = await self._ends(source)
            while behind:
                done = await self._offsets.committed(list(behind))
                behind = {
                    tp: end for tp, end in behind.items() if tp not in done or done[tp].offset < end
                }
                if behind:
                    await asyncio.sleep(EVERY)
                    # A topic may be made again meanwhile.
                    ends = await self._ends(source)
                    behind = {tp: min(end, ends[tp]) for tp, end in behind.items() if tp in ends}
        # The end with open transactions: a re-keying one may have committed its source offset, as
        # seen above, a moment before its records can be read here.
        return began, await self.end(TopicPartition(source.by_stream, partition))

    async def _learn_partitions(self, source: Source) -> None:
        """Hear now of partitions that were added to a source's topics: a client that is not told to
        ask does so every few minutes. Raises KafkaError."""
        assert self._committed is not None
        client = self._committed._client
        for topic in source.topics:
            client.add_topic(topic)  # else it asks for all topics that there are
        if not await client.force_metadata_update():
            raise KafkaError(f"nobody says which partitions {', '.join(source.topics)} has")

    async def unread(self, source: Source) -> Mapping[TopicPartition, Committed | None]:
        """The partitions of a source's topics that have something left to read → how far the group
        is in them, None where it has not begun."""
        assert self._committed is not None
        ends = await self._ends(source)
        done = await self._offsets.committed(list(ends)) if ends else {}
        new = [tp for tp in ends if tp not in done]
        firsts = await self._committed.beginning_offsets(new) if new else {}
        return {
            tp: done.get(tp)
            for tp, end in ends.items()
            if end > (done[tp].offset if tp in done else firsts[tp])
        }

    async def _ends(self, source: Source) -> dict[TopicPartition, int]:
        """The ends of the partitions of a source's topics that are not empty."""
        assert self._committed is not None
        inputs = [
            TopicPartition(topic, number)
            for topic in source.topics
            for number in await partitions_of(self._committed, topic)
        ]
        ends = await self._committed.end_offsets(inputs)
        return {tp: end for tp, end in ends.items() if end > 0}

    async def end(self, partition: TopicPartition) -> int:
        """The offset behind all that is in a partition, in transactions that are open too."""
        assert self._all is not None
        end: int = (await self._all.end_offsets([partition]))[partition]
        return end

    async def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The offsets behind all that is in partitions, as of `end`; they ask the broker even where
        there are none. Raises ConnectionError."""
        if self._all is None:
            raise ConnectionError("it is not connected")
        if not partitions:
            await self._all.topics()
            return {}
        ends: Mapping[TopicPartition, int] = await self._all.end_offsets(partitions)
        return ends

    def clients(self) -> list[AIOKafkaConsumer]:
        """The clients to stop; it has none from then on."""
        found = [client for client in (self._committed, self._all) if client is not None]
        self._committed = self._all = None
        return found
