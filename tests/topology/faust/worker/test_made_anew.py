"""A topic that was deleted and made again under a worker: its log says so."""

import logging
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import Step
from topology.faust.worker.runner import Runner
from topology.model.event import Record

PLACE = TopicPartition("orders", 0)


class FakeReader:
    def __init__(self, offsets: list[int], position: int) -> None:
        self.records = [Record("orders", 0, offset, None, b"") for offset in offsets]
        self.at = position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Where it is asked for is not there any more."""

    def resume(self, partition: TopicPartition) -> None:
        self.reads = True

    def pause(self, partition: TopicPartition) -> None:
        self.reads = False

    async def fetch(self, partition: TopicPartition, timeout: float, most: int) -> list[Record]:
        return self.records

    async def position(self, partition: TopicPartition) -> int:
        return self.at


class FakeStep(Step):
    async def take(self, records: Any) -> CommitUnit:
        return CommitUnit("", 0)

    def move(self, *_: Any) -> CommitUnit:
        return CommitUnit("", 0)


@pytest.mark.parametrize(
    ("offsets", "position", "again"),
    [([], 0, 0), ([0, 1], 2, 0), ([0, 1, 2, 3, 4, 5], 6, 0), ([5, 6], 7, None), ([], 7, None)],
)
async def test_a_partition_that_begins_anew_is_told_of(
    offsets: list[int], position: int, again: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    reader: Any = FakeReader(offsets, position)
    runner = Runner(PLACE, FakeStep(), None, reader, 5)  # type: ignore[arg-type]
    runner.ends = lambda: True
    with caplog.at_level(logging.WARNING):
        await runner.run()
    assert reader.reads == (not offsets)  # few records: not read ahead of
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (again is not None)
    if told:
        assert "made again" in told[0]
        assert f"from offset {again} on" in told[0]
