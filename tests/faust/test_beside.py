"""What a view reads beside its input: when it comes again, and when a gap has to wait for it."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from stores.memory import MemoryTable
from topology import Inspector, Topology, redeliver
from topology.event import Record
from topology.faust.beside import Beside
from topology.faust.reader import Reader
from topology.redelivery import NOT_BEFORE
from topology.view_task import ViewTask


class FakeReader:
    """Brings what was put there, one partition as good as another."""

    def __init__(self) -> None:
        self.records: dict[str, list[Record]] = {}
        self.sought: dict[str, int] = {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.sought[partition.topic] = offset

    async def fetch(self, partition: TopicPartition, timeout: float) -> Sequence[Record]:
        return self.records.pop(partition.topic, [])

    async def at_end(self, partition: TopicPartition) -> bool:
        return partition.topic not in self.records


@pytest.fixture
def task() -> ViewTask:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream="id", sequence="n"))
    topology.view("v", of=source, handler=lambda event: None, full=redeliver(delay=1))
    table: Any = MemoryTable()
    return ViewTask(topology.views["v"], table)


def record(offset: int, not_before: int) -> Record:
    return Record("t.v.redeliver", 0, offset, b"s", b"{}", [(NOT_BEFORE, b"%d" % not_before)])


async def test_it_reads_from_where_the_views_rows_say(task: ViewTask) -> None:
    task.positions.redelivered, task.positions.commands = 7, 3
    reader = FakeReader()
    Beside(cast(Reader, reader), task, 0)
    assert reader.sought == {"t.v.redeliver": 7, "t.v.commands": 3}


async def test_no_gap_is_given_up_while_what_is_due_did_not_come_again(task: ViewTask) -> None:
    """After an outage all is due at once: what is missing may be in the topic, and not read yet."""
    reader = FakeReader()
    beside = Beside(cast(Reader, reader), task, 0)
    reader.records["t.v.redeliver"] = [record(0, 100), record(1, 200), record(2, 900)]
    assert not await beside.all_came(500), "they are not even read"
    await beside.look()
    assert beside.next == 100
    assert await beside.all_came(500), "the next step takes those that are due"
    assert [found.offset for found in beside.again(500)] == [0, 1]
    assert await beside.all_came(500), "the rest is not due yet"
    assert beside.next == 900
