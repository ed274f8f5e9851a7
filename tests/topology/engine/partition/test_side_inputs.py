"""What a view reads beside its input: when it comes again, and when a gap has to wait for it."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from stores.view_state.memory import MemoryTable
from topology import Inspector, Topology, redeliver, spill
from topology.engine.partition import PartitionView, StreamStep
from topology.engine.partition.side_inputs import EVERY, MANY, SideInputs
from topology.engine.redelivery.records import ATTEMPT, NOT_BEFORE, SEQUENCE
from topology.engine.state.rows import COUNTS
from topology.engine.stream_task import StreamTask
from topology.engine.view_task import ViewTask
from topology.model.counts import Counts, decode_counts, encode_counts
from topology.model.event import Record


class FakeTopic:
    """Brings what was put there."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.sought = self.last = 0

    def seek(self, offset: int) -> None:
        self.sought = offset

    async def fetch(self, timeout: float) -> Sequence[Record]:
        found, self.records = self.records, []
        if found:
            self.sought = found[-1].offset + 1
        return found

    async def position(self) -> int:
        return self.sought

    async def end(self) -> int:
        """Of the commands, all of which show."""
        return self.sought

    async def written(self) -> int:
        return self.last

    def pause(self) -> None:
        """Nothing to do."""


def side_inputs(task: ViewTask) -> tuple[SideInputs, FakeTopic, FakeTopic]:
    """Those of a view, and its redelivery and commands topics."""
    redeliveries, commands = FakeTopic(), FakeTopic()
    return (
        SideInputs(task, redeliveries, commands, redeliveries.written, time.monotonic),
        redeliveries,
        commands,
    )


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
    _, redeliveries, commands = side_inputs(task)
    assert (redeliveries.sought, commands.sought) == (7, 3)


async def test_no_gap_is_given_up_while_what_is_due_did_not_come_again(task: ViewTask) -> None:
    """After an outage all is due at once: what is missing may be in the topic, and not read yet."""
    inputs, reader, _ = side_inputs(task)
    reader.records = [record(0, 100), record(1, 200), record(2, 900)]
    reader.last = 3
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


async def test_no_gap_is_given_up_while_what_was_sent_away_does_not_show(task: ViewTask) -> None:
    """A transaction is committed a moment before its records can be read."""
    inputs, redeliveries, _ = side_inputs(task)
    redeliveries.last = 1
    await inputs.expect_redeliveries(450)
    await inputs.poll(0)
    assert await inputs.redeliveries_drained() is None
    redeliveries.records = [record(0, 100)]
    await asyncio.sleep(EVERY)
    await inputs.poll(0)
    assert [found.offset for found in inputs.take_redeliveries(500)] == [0]
    assert await inputs.redeliveries_drained() == 450


async def test_a_gap_is_given_up_though_what_has_no_room_comes_again_for_ever(
    task: ViewTask,
) -> None:
    """Behind a long gap more may be away than can come again in one delay: the topic never ends."""
    inputs, reader, _ = side_inputs(task)
    reader.records = [record(offset, 100) for offset in range(MANY)]
    reader.last = MANY
    await inputs.expect_redeliveries(450)
    await inputs.poll(0)
    assert len(inputs.take_redeliveries(500)) == MANY
    # They had no room and went away again, and are due again before all of them are read.
    reader.records = [record(offset, 200) for offset in range(MANY, 2 * MANY)]
    reader.last = 2 * MANY
    assert inputs.next_redelivery(500) == 0, "more of them is expected at once"
    await inputs.poll(0)
    assert await inputs.redeliveries_drained() == 450


async def test_without_redelivery_nothing_is_waited_for(task: ViewTask) -> None:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream="id", sequence="n"))
    topology.view("v", of=source, handler=lambda event: None, full=spill())
    table: Any = MemoryTable()
    inputs, _, _ = side_inputs(ViewTask(topology.views["v"], table))
    await inputs.expect_redeliveries(450)
    assert await inputs.redeliveries_drained() == 450


class NoRebuilds:
    ready = False

    def poll(self, position: int) -> None: ...

    def take(self) -> dict[str, Any]:
        return {}

    async def rebuild(self, histories: Any, unit: Any) -> None: ...

    async def stop(self) -> None: ...


async def at_once(work: Any) -> None:
    await work()


def step_with_two_away() -> tuple[StreamStep, FakeTopic]:
    """That of a partition whose view has sent two events away, and its redelivery topic."""
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream="id", sequence="n"))
    topology.view("v", of=source, handler=lambda event: None, full=redeliver(delay=1))
    table: Any = MemoryTable()
    table.write([(COUNTS, encode_counts(Counts(received=3, processed=1, redelivering=2)))])
    task = StreamTask(topology, source, 0, {"v": table})
    inputs, redeliveries, _ = side_inputs(task.views["v"])
    view = PartitionView(task.views["v"], table, at_once, inputs, NoRebuilds())
    watermark: Any = None
    return StreamStep(task, [view], watermark, lambda: 0, asyncio.gather), redeliveries


async def test_events_whose_records_are_gone_are_dead_and_told_of() -> None:
    """Retention deletes them while the view is halted, or its worker away, for too long."""
    step, redeliveries = step_with_two_away()
    redeliveries.sought = redeliveries.last = 7  # the first offset that is still there
    await step.poll_side_inputs()
    unit = await step.next_command_unit()
    assert unit is not None
    counts = decode_counts(dict(unit.rows["v"])[COUNTS])
    assert (counts.redelivering, counts.dead, counts.accounted) == (0, 2, counts.received)
    assert "2 events of t.v.redeliver/0 will not come again" in unit.reports[0]
    assert await step.next_command_unit() is None


async def test_what_is_in_the_rest_of_the_topic_is_not_held_for_lost() -> None:
    step, redeliveries = step_with_two_away()
    redeliveries.records, redeliveries.last = [record(4, 900)], 9
    await step.poll_side_inputs()
    assert await step.next_command_unit() is None, "there may be more"
    await asyncio.sleep(EVERY)
    await step.poll_side_inputs()
    assert await step.next_command_unit() is None, "some of it does not show yet"
    redeliveries.sought = 9
    await asyncio.sleep(EVERY)
    await step.poll_side_inputs()
    unit = await step.next_command_unit()
    assert unit is not None
    assert "1 event of t.v.redeliver/0 will not come again" in unit.reports[0]


@pytest.mark.parametrize("empty", [False, True])
async def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    task: ViewTask, empty: bool
) -> None:
    """Its records have offsets that the view has taken other records of."""
    task.state.positions.redelivered, task.state.positions.ahead = 500, 0b10
    inputs, reader, _ = side_inputs(task)
    await inputs.expect_redeliveries(450)
    reader.sought = 0  # a client begins anew where its offset is not there
    if not empty:
        reader.records, reader.last = [record(0, 100), record(1, 100)], 2
    await inputs.poll(0)
    assert not inputs.expecting, "what was to be waited for is gone"
    found = [back.offset for back in inputs.take_redeliveries(500)]
    assert found == ([] if empty else [0, 1])
    assert (task.state.positions.redelivered, task.state.positions.ahead) == (len(found), 0)
