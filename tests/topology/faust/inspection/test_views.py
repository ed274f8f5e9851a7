"""How far views are: what is left to read, and what stands still."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException

from stores.view_state.memory import MemoryTable
from tests.topology.declaration.test_route import rules
from topology import Emit, Inspector, Topology, retry
from topology.diagnostics.explain import PartitionTally, SourceTotals, gaps_text
from topology.diagnostics.explain.work_tally import StageTally, WorkTally
from topology.engine.intake import IntakeCounts
from topology.engine.state.positions import Positions, encode_positions
from topology.engine.state.rows import POSITIONS
from topology.engine.state.work_status import WorkStatus
from topology.engine.view_task import ViewTask
from topology.faust.inspection import ViewCounts, gap_ledger, standing_still
from topology.faust.inspection.consumer_group import ConsumerGroup
from topology.faust.inspection.durable import Span
from topology.faust.inspection.partition_tally import partition_tally
from topology.faust.inspection.tallies import _is_late, _is_to_move, totals_of
from topology.faust.kafka.offsets import Committed
from topology.model.counts import Counts
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


OLDER, NEWER = TopicPartition("orders", 0), TopicPartition("orders", 1)


class SourceTopic(Kafka):
    """Two partitions with a message each; the group moves in the first one, if at all."""

    def __init__(self, moves: bool, times: dict[TopicPartition, int | None]) -> None:
        super().__init__(1, [0], [0])
        self.offset, self.moves, self.times = 0, moves, times

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Committed]:
        self.offset += self.moves
        return {each: at(self.offset if each == OLDER else 0) for each in partitions}

    async def records(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncGenerator[Message]:
        time = self.times[partition]
        if time is None:
            raise CorruptRecordException
        yield Record("orders", partition.partition, 0, b"a", b"", (), time)


@pytest.mark.parametrize(
    ("moves", "times", "stands"),
    [
        (True, (5_000, 9_000), set()),
        (True, (9_000, 5_000), {NEWER}),
        (True, (5_000, None), {NEWER}),
        (False, (5_000, 9_000), {OLDER, NEWER}),
    ],
)
async def test_re_keying_that_does_not_wait_for_a_slower_partition_stands_still(
    moves: bool,
    times: tuple[int | None, ...],
    stands: set[TopicPartition],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standing_still, "STILL", 0.05)
    monkeypatch.setattr(standing_still, "PAUSE", 0.01)
    both = [OLDER, NEWER]
    kafka: Any = SourceTopic(moves, dict(zip(both, times, strict=True)))
    assert await standing_still.standing_still(kafka, both, [both]) == stands


class ViewApart(Kafka):
    """A view at offset 2 of five, that says so in its changelog as often as it is looked at."""

    topology = SimpleNamespace(views={"slow": None})

    def __init__(self, says: list[int], now: int) -> None:
        super().__init__(5, [2, 3, 4], [5])
        self.says, self.now, self.rows = says, now, list[Message]()

    async def span(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        return {each: Span(0, 5 if each == INPUT else len(self.rows)) for each in partitions}

    async def records(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncGenerator[Message]:
        if partition == INPUT:
            async for record in super().records(partition, start, end):
                yield record
            return
        for row in self.rows[start:end]:
            yield row
        if self.says:
            position = encode_positions(Positions(input=self.says.pop(0)))
            self.rows.append(Record("changelog", 0, len(self.rows), POSITIONS, position))

    async def task(self, *_: Any) -> Any:
        return SimpleNamespace(state=SimpleNamespace(positions=Positions(input=self.now)))


@pytest.mark.parametrize(
    ("says", "now", "stands"),
    [([], 2, True), ([2, 2], 2, True), ([2, 3], 2, False), ([], 5, False)],
)
async def test_a_view_apart_whose_own_position_does_not_move_stands_still(
    says: list[int], now: int, stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_still, "STILL", 0.2)
    monkeypatch.setattr(standing_still, "PAUSE", 0.01)
    view = standing_still.Apart("slow", INPUT, TopicPartition("changelog", 0), 2)
    kafka: Any = ViewApart(says, now)
    assert await standing_still.standing_still(kafka, [view]) == ({view} if stands else set())


@pytest.mark.parametrize(
    ("timeout", "to_move"), [(None, True), (5, True), (standing_still.STILL + 1, False)]
)
def test_a_view_apart_is_given_the_time_that_it_says_its_handler_takes(
    timeout: float | None, to_move: bool
) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"), partitions=1)
    topology.view("slow", of=orders, handler=lambda event: None, timeout=timeout)
    part = PartitionTally(0, Counts(), 2, 3, True, None, 2, 2, "worker-1")
    assert _is_to_move(topology.views["slow"], part) == to_move
    assert not _is_to_move(topology.views["slow"], replace(part, halted="by ann"))


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


class RoutedTopic(Kafka):
    """What a stage routes: two partitions, and a message of the first one is parked."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(5000, [], [3])
        self.topology, self.now = topology, 0

    async def __aenter__(self) -> "RoutedTopic":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def find_held(self, declared: Iterable[Any]) -> None:
        assert not [*declared]

    async def inputs(self, _: Any) -> list[TopicPartition]:
        return [TopicPartition("in", 0), TopicPartition("in", 1)]

    async def backlog(self, _: Any) -> int:
        return 5000

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Committed]:
        return {next(iter(partitions)): Committed(3, IntakeCounts(3, parked=1))}


@pytest.mark.parametrize("owned", [0, 1, 2])
async def test_what_a_stage_routes_and_no_worker_has_is_told_of(
    owned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = Topology("shop")
    topology.route("flights", rules=rules("in"))
    kafka: Any = RoutedTopic(topology)
    inputs = await kafka.inputs(None)
    group = ConsumerGroup("Stable", dict.fromkeys(inputs[:owned], "one"))
    found = await totals_of(kafka, group, topology.routes["flights"])
    told = [str(each) for each in ViewCounts([found], []).troubles()]
    nobody = ["no worker has in/0, in/1", "no worker has in/1"]
    expected = [
        f"route flights: {each}" for each in (*nobody[owned : owned + 1], "1 message parked")
    ]
    assert told == expected
    assert (found.unread, found.malformed) == (5000, 0)

    async def known(_: Any) -> ConsumerGroup:
        return group

    async def nothing(*_: Any, **__: Any) -> list[StageTally]:
        return []

    monkeypatch.setattr(gap_ledger, "DurableState", lambda *_, **__: kafka)
    monkeypatch.setattr(gap_ledger, "consumer_group", known)
    monkeypatch.setattr(gap_ledger, "stages_alone", nothing)
    app = SimpleNamespace(engine=SimpleNamespace(topology=topology))
    ledger = await gap_ledger.gaps(app)
    assert [str(each) for each in ledger.troubles] == expected
    assert "but:" in gaps_text(ledger)


@pytest.mark.parametrize(("number", "share", "told"), [(5, 0.001, 1), (30, 0.05, 0), (30, 0.01, 1)])
def test_json_goes_by_the_share_that_was_asked_for(number: int, share: float, told: int) -> None:
    taken = IntakeCounts(1000, number, recent=1000, recent_malformed=number)
    found = ViewCounts([SourceTotals("orders", None, taken, 0, 0, None)], [])
    assert len(found.troubles(share)) == len(found.as_dict(share)["troubles"]) == told
