"""How a partition starts: who is fenced off, and which views read together."""

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from stores.view_state.memory import MemoryTable
from topology import Inspector, Topology
from topology.engine.intake import IntakeCounts
from topology.engine.state.positions import Positions, encode_positions
from topology.engine.state.rows import COUNTS, POSITIONS
from topology.faust.kafka.offsets import Committed
from topology.faust.worker.stream_partition import OBJECT, StreamPartition
from topology.model.collector import COLLECTOR, KnownObjects
from topology.model.counts import Counts, encode_counts, left_behind

PLACE = TopicPartition("in", 0)
SETTINGS = SimpleNamespace(
    session_timeout=1,
    batch=100,
    guarantee="exactly_once",
    waiting_bytes=1 << 20,
    replay_log=None,
)


class FakeWriter:
    def __init__(self, view: str, told: list[str]) -> None:
        self.view = view
        self.told = told

    async def start(self) -> None:
        self.told.append(f"start {self.view}")

    async def stop(self) -> None:
        self.told.append(f"stop {self.view}")


async def opened(row: Positions, written: Positions | None = None) -> tuple[list[str], list[str]]:
    """What writers did, and which views are read together, of a partition that is at 5.

    As in `started`.
    """
    told, runners = await started(row, written)
    return told, [*runners[0].step.task.views]


async def started(row: Positions, written: Positions | None = None) -> tuple[list[str], list[Any]]:
    """What writers did, and the runners, of a partition that is at 5; see `partition`."""
    told: list[str] = []
    return told, await partition(told, row, written).open()


def partition(told: list[str], row: Positions, written: Positions | None = None) -> StreamPartition:
    """A partition that is at 5.

    told: gets what writers do. row: where view `v` stood. written: where an earlier owner brings it
    before it is fenced off.
    """
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream="id", sequence="n"), keyed=True)
    for name in ("u", "v"):
        topology.view(name, of=source, handler=lambda event: None)
    tables: dict[str, Any] = {"u": MemoryTable(), "v": MemoryTable()}
    for table in tables.values():
        table.write([(COUNTS, encode_counts(Counts()))])
    tables["v"].write([(POSITIONS, encode_positions(row))])

    async def restore(views: list[Any], partition: int) -> dict[str, Any]:
        if written is not None and "start v" in told:
            tables["v"].write([(POSITIONS, encode_positions(written))])
        return {view.name: tables[view.name] for view in views}

    async def committed(partitions: Any, *, stable: bool) -> dict[TopicPartition, Committed]:
        return {PLACE: Committed(5, IntakeCounts())}

    async def first(partition: TopicPartition) -> int:
        return 0

    async def reader(view: str) -> Any:
        return None

    async def do(work: Any) -> None:
        await work()

    async def limits(topic: str) -> None:
        return None

    context: Any = SimpleNamespace(
        timings=None,
        app=SimpleNamespace(engine=SimpleNamespace(settings=SETTINGS)),
        topology=topology,
        settings=SETTINGS,
        barriers=SimpleNamespace(end=None),
        tables=SimpleNamespace(restore=restore),
        offsets=SimpleNamespace(committed=committed),
        shared_reader=SimpleNamespace(first=first, pause=lambda partition: None),
        side_reader=SimpleNamespace(seek=lambda partition, offset: None),
        views={name: SimpleNamespace(do=do) for name in tables},
        reader=reader,
        refusals=lambda place: None,
        limits=limits,
        writer=lambda place, view="", atomic=False: FakeWriter(view, told),
        known=KnownObjects(),
        partitions=SimpleNamespace(forget=lambda: None),
    )

    async def crash(error: BaseException) -> None:
        raise error

    return StreamPartition(PLACE, source, context, crash)


async def test_a_view_that_joins_says_so_though_nothing_comes() -> None:
    for row, joins in ((Positions(input=5), True), (Positions(), False)):
        step = (await started(row))[1][0].step
        assert step.has_unsaved_progress is joins
        unit = step.move(5, None)
        assert ((POSITIONS, None) in unit.rows["v"]) is joins
        assert not step.has_unsaved_progress


async def test_what_a_view_had_nothing_to_say_of_is_not_left_behind() -> None:
    """Markers and malformed messages at the end of a partition move the group's offset only."""
    step = (await started(Positions()))[1][0].step
    rows = step.move(8, None).rows
    for name in ("u", "v"):
        assert left_behind(dict(rows[name])[COUNTS], 8) is None
    assert step.move(8, None).rows == {}


async def test_a_view_that_joins_the_others_has_its_own_writer_fenced_off_first() -> None:
    """A worker taken for dead may have had it read apart, with a transaction open."""
    assert await opened(Positions(input=5)) == (["start ", "start v", "stop v"], ["u", "v"])


async def test_a_view_that_an_earlier_owner_still_moved_on_does_not_join() -> None:
    told, together = await opened(Positions(input=5), Positions(input=8))
    assert (told, together) == (["start ", "start v"], ["u"])


async def test_a_view_that_is_behind_or_halted_reads_apart() -> None:
    for row in (Positions(input=3), Positions(input=5, halted="by me")):
        assert await opened(row) == (["start ", "start v"], ["u"])


async def test_views_that_always_read_together_need_one_writer() -> None:
    assert await opened(Positions()) == (["start "], ["u", "v"])


async def test_a_view_that_leaves_the_others_as_the_partition_restarts_has_one_runner() -> None:
    """It is started from its row; a runner that came later would be one that nobody stops."""
    told: list[str] = []
    restarted = partition(told, Positions())
    (main,) = await restarted.open()
    never = asyncio.Event()

    async def start(self: FakeWriter) -> None:
        told.append(f"start {self.view}")
        await never.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeWriter, "start", start)
        step: Any = main.step
        view = step.views["v"]
        view.task.state.positions.input = 5
        restarted._halted(view)
        await asyncio.sleep(0)
        assert told == ["start ", "start v"]
        await restarted._close(0)
    assert (told[2:], restarted.runners) == (["stop v"], {})
    restarted.stopping = True
    restarted._halted(view)
    await asyncio.sleep(0)
    assert told[3:] == []


@pytest.mark.parametrize("error", [MemoryError(), asyncio.CancelledError()])
async def test_a_partition_that_cannot_start_again_stops_the_worker(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would read it, and nothing would say so."""
    monkeypatch.setattr("topology.faust.worker.partition.RETRY", 0.0)
    crashed = asyncio.get_running_loop().create_future()
    held = partition([], Positions())

    async def crash(found: BaseException) -> None:
        crashed.set_result(found)

    async def failing() -> None:
        raise error

    monkeypatch.setattr(held, "_crash", crash)
    monkeypatch.setattr(held, "open", failing)
    held.failed(ConnectionError("the broker blinks"))
    async with asyncio.timeout(10):
        assert await crashed is error


async def test_the_collector_knows_what_waits_and_forgets_it_with_the_partition() -> None:
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTOR)
    held = partition([], Positions())
    (main,) = await held.open()
    held.run(main)
    try:
        assert held.budget is not None
        held.budget.used = 1000 * OBJECT
        main.after_commit()
        assert gc.get_threshold()[0] == COLLECTOR[0] + 1000
        await held._close(0)
        assert gc.get_threshold()[0] == COLLECTOR[0]
    finally:
        gc.set_threshold(*before)
