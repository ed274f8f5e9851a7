"""How far views are: what is left to read, and what stands still."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from typing import Any

import pytest
from aiokafka import TopicPartition

from stores.view_state.memory import MemoryTable
from topology import Emit, Inspector, Topology, retry
from topology.diagnostics.explain.work_tally import WorkTally
from topology.engine.intake import IntakeCounts
from topology.engine.state.work_status import WorkStatus
from topology.engine.view_task import ViewTask
from topology.faust.inspection import standing_still
from topology.faust.inspection.consumer_group import ConsumerGroup
from topology.faust.inspection.durable import Span
from topology.faust.inspection.partition_tally import partition_tally
from topology.faust.inspection.tallies import _is_late
from topology.faust.kafka.offsets import Committed
from topology.model.event import Message, Record

INPUT = TopicPartition("shop-orders-by-stream", 0)


def at(offset: int, events: int = 0) -> Committed:
    return Committed(offset, IntakeCounts(events))


class Kafka:
    """A partition's offsets, of which some have records; how far the group is at each look."""

    def __init__(self, end: int, records: Collection[int], group: Iterable[int]) -> None:
        self.end, self.there, self.group = end, records, list(group)
        self.view: ViewTask | None = None

    async def span(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        return {each: Span(0, self.end) for each in partitions}

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Committed]:
        offset = self.group.pop(0) if len(self.group) > 1 else self.group[0]
        return {each: at(offset, sum(1 for n in self.there if n < offset)) for each in partitions}

    async def records(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncGenerator[Message]:
        for offset in self.there:
            if start <= offset < end:
                yield Record("orders", 0, offset, b"a", b'{"id": "a", "n": %d}' % (offset + 1))

    async def task(self, *_: Any) -> ViewTask:
        assert self.view is not None
        return self.view


@pytest.mark.parametrize(
    ("end", "records", "group", "stands"),
    [
        (5, [0, 1, 2, 3], [2], True),
        (5, [0, 1, 2, 3], [2, 2, 3], False),
        (5, [0, 1, 2, 3], [4], False),
        (0, [], [0], False),
    ],
)
async def test_what_has_records_to_read_and_does_not_move_stands_still(
    end: int, records: list[int], group: list[int], stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_still, "STILL", 0.05)
    monkeypatch.setattr(standing_still, "PAUSE", 0.01)
    kafka: Any = Kafka(end, records, group)
    assert await standing_still.standing_still(kafka, [INPUT]) == ({INPUT} if stands else set())


async def test_a_halted_view_is_behind_by_its_messages_not_by_markers_of_transactions() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"), partitions=1)
    topology.view("board", of=orders, handler=lambda event: None)
    view = topology.views["board"]
    # After each message there is a marker. The view halted at 2, the others are at the end.
    kafka: Any = Kafka(8, [0, 2, 4], [8])
    kafka.view = ViewTask(view, MemoryTable())
    kafka.view.state.positions.input, kafka.view.state.positions.halted = 2, "by ann"
    found = await partition_tally(kafka, ConsumerGroup("Stable", {}), view, 0, True)
    assert (found.position, found.lag) == (2, 2)


async def _work(_: Any) -> list[Emit]:
    return []


@pytest.mark.parametrize(
    ("options", "age", "late"),
    [
        ({}, 59.0, False),
        ({}, 61.0, True),
        ({"time_limit": 2.0}, 1.0, True),
        ({"time_limit": 2.0, "batch": 100}, 3600.0, False),
        ({"time_limit": 30.0}, 3600.0, False),
        ({"time_limit": 2.0, "error": retry(times=5, backoff=30)}, 3600.0, False),
        ({"error": retry(times=5, backoff=1)}, 70.0, False),
        ({"error": retry(times=5, backoff=1)}, 80.0, True),
    ],
)
def test_workers_are_late_only_where_no_rule_lets_an_event_take_so_long(
    options: dict[str, Any], age: float, late: bool
) -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector(stream="id", sequence="seq"))
    topology.view("board", of=source, workers=2, handler=_work, **options)
    (stage,) = topology.stages
    now = 10_000_000
    tally = WorkTally(
        0, 1, True, 0, 0, 0, WorkStatus(), "one", now, oldest=now - round(age * 1000)
    )  # fmt: skip
    assert _is_late(stage, tally) is late
