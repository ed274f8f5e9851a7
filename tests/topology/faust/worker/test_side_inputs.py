"""What a view reads beside its input: when it comes again, and when a gap has to wait for it."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from stores.view_state.memory import MemoryTable
from topology import Inspector, Topology, redeliver, spill
from topology.engine.redelivery import ATTEMPT, NOT_BEFORE, SEQUENCE
from topology.engine.view_task import ViewTask
from topology.faust.kafka.reader import Reader
from topology.faust.worker.side_inputs import MANY, SideInputs
from topology.model.event import Record

AGAIN = "t.v.redeliver"


class FakeReader:
    """Brings what was put there, one partition as good as another."""

    def __init__(self) -> None:
        self.records: dict[str, list[Record]] = {}
        self.sought: dict[str, int] = {}
        self.ends: dict[str, int] = {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.sought[partition.topic] = offset

    async def fetch(self, partition: TopicPartition, timeout: float) -> Sequence[Record]:
        found = self.records.pop(partition.topic, [])
        if found:
            self.sought[partition.topic] = found[-1].offset + 1
        return found

    async def position(self, partition: TopicPartition) -> int:
        return self.sought[partition.topic]

    async def end(self, partition: TopicPartition) -> int:
        return self.ends[partition.topic]


@pytest.fixture
def task() -> ViewTask:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream="id", sequence="n"))
    topology.view("v", of=source, handler=lambda event: None, full=redeliver(delay=1))
    table: Any = MemoryTable()
    return ViewTask(topology.views["v"], table)


def record(offset: int, not_before: int) -> Record:
    headers = [(NOT_BEFORE, b"%d" % not_before), (ATTEMPT, b"1"), (SEQUENCE, b"99")]
    return Record("t.v.redeliver", 0, offset, b"s", b"{}", headers)


async def test_it_reads_from_where_the_views_rows_say(task: ViewTask) -> None:
    task.state.positions.redelivered, task.state.positions.commands = 7, 3
    reader = FakeReader()
    SideInputs(cast(Reader, reader), task, 0)
    assert reader.sought == {"t.v.redeliver": 7, "t.v.commands": 3}


async def test_no_gap_is_given_up_while_what_is_due_did_not_come_again(task: ViewTask) -> None:
    """After an outage all is due at once: what is missing may be in the topic, and not read yet."""
    reader = FakeReader()
    inputs = SideInputs(cast(Reader, reader), task, 0)
    reader.records[AGAIN] = [record(0, 100), record(1, 200), record(2, 900)]
    reader.ends[AGAIN] = 3
    assert await inputs.redeliveries_drained() is None, "nobody asks"
    await inputs.expect_redeliveries(450)
    assert await inputs.redeliveries_drained() is None, "they are not even read"
    await inputs.poll(0)
    assert inputs.next_redelivery(0) == 100
    assert [found.offset for found in inputs.take_redeliveries(500)] == [0, 1]
    assert await inputs.redeliveries_drained() is None, "one of them is not due yet"
    assert inputs.next_redelivery(500) == 900
    assert [found.offset for found in inputs.take_redeliveries(900)] == [2]
    assert await inputs.redeliveries_drained() == 450
    assert not inputs.expecting


async def test_a_gap_is_given_up_though_what_has_no_room_comes_again_for_ever(
    task: ViewTask,
) -> None:
    """Behind a long gap more may be away than can come again in one delay: the topic never ends."""
    reader = FakeReader()
    inputs = SideInputs(cast(Reader, reader), task, 0)
    reader.records[AGAIN] = [record(offset, 100) for offset in range(MANY)]
    reader.ends[AGAIN] = MANY
    await inputs.expect_redeliveries(450)
    await inputs.poll(0)
    assert len(inputs.take_redeliveries(500)) == MANY
    # They had no room and went away again, and are due again before all of them are read.
    reader.records[AGAIN] = [record(offset, 200) for offset in range(MANY, 2 * MANY)]
    reader.ends[AGAIN] = 2 * MANY
    assert inputs.next_redelivery(500) == 0, "more of them is expected at once"
    await inputs.poll(0)
    assert await inputs.redeliveries_drained() == 450


async def test_without_redelivery_nothing_is_waited_for(task: ViewTask) -> None:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream="id", sequence="n"))
    topology.view("v", of=source, handler=lambda event: None, full=spill())
    table: Any = MemoryTable()
    reader = FakeReader()
    reader.ends[AGAIN] = 0
    inputs = SideInputs(cast(Reader, reader), ViewTask(topology.views["v"], table), 0)
    await inputs.expect_redeliveries(450)
    assert await inputs.redeliveries_drained() == 450
