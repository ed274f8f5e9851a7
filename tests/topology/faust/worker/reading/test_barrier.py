"""What is waited for before a gap is given up."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from topology.engine.intake import IntakeCounts
from topology.faust.kafka.offsets import Committed
from topology.faust.worker.reading import barrier

PLACE = TopicPartition("in", 0)
BY_STREAM = TopicPartition("in.by-stream", 0)


class Client:
    """Knows of the partitions of `in` that there were when it asked last."""

    def __init__(self, *there: int) -> None:
        self.there, self.known, self.answers = there, {0}, True
        self.topics: set[str] = set()

    def add_topic(self, topic: str) -> None:
        self.topics.add(topic)

    async def force_metadata_update(self) -> bool:
        assert self.topics, "it would ask for all topics"
        if self.answers:
            self.known = {*self.there}
        return self.answers

    async def _wait_on_metadata(self, topic: str) -> set[int]:
        return self.known

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self.known


async def test_a_topic_that_is_made_again_meanwhile_is_waited_for_as_it_is_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends, looks = {PLACE: 100, BY_STREAM: 7}, []

    async def committed(partitions: Any) -> dict[TopicPartition, Committed]:
        looks.append(dict(ends))
        ends[PLACE] = 3  # it was deleted, and three messages have come since
        return {PLACE: Committed(3 if len(looks) > 2 else 0, IntakeCounts())}

    async def end_offsets(partitions: Any) -> dict[TopicPartition, int]:
        return {partition: ends[partition] for partition in partitions}

    async def partitions_of(consumer: Any, topic: str) -> list[int]:
        return [0]

    monkeypatch.setattr(barrier, "EVERY", 0)
    monkeypatch.setattr(barrier, "partitions_of", partitions_of)
    barriers = barrier.Barriers(None, SimpleNamespace(committed=committed))  # type: ignore[arg-type]
    barriers._committed = barriers._all = SimpleNamespace(end_offsets=end_offsets, _client=Client())
    source: Any = SimpleNamespace(keyed=False, topics=["in"], by_stream="in.by-stream")
    assert (await barriers.begin(source, 0))[1] == 7
    assert len(looks) == 3


async def test_partitions_that_were_added_are_waited_for_at_once() -> None:
    client = Client(0, 1)
    ends = {PLACE: 5, TopicPartition("in", 1): 2, BY_STREAM: 7}
    asked: list[TopicPartition] = []

    async def committed(partitions: list[TopicPartition]) -> dict[TopicPartition, Committed]:
        asked.extend(partitions)
        return {partition: Committed(ends[partition], IntakeCounts()) for partition in partitions}

    async def end_offsets(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: ends[partition] for partition in partitions}

    barriers = barrier.Barriers(None, SimpleNamespace(committed=committed))  # type: ignore[arg-type]
    barriers._committed = barriers._all = SimpleNamespace(
        end_offsets=end_offsets, partitions_for_topic=client.partitions_for_topic, _client=client
    )
    source: Any = SimpleNamespace(keyed=False, topics=["in"], by_stream="in.by-stream")
    assert (await barriers.begin(source, 0))[1] == 7
    assert set(asked) == {PLACE, TopicPartition("in", 1)}
    client.answers = False
    with pytest.raises(KafkaError):
        await barriers.begin(source, 0)
