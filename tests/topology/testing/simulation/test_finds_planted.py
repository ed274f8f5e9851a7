"""The simulator can fail: it finds each of these planted mistakes."""

from typing import Any

import pytest

from tests.topology.partition import shop
from tests.topology.testing.simulation import planted, simulated
from topology import rebuild_stream, redeliver, skip
from topology.engine.partition import SideInputs
from topology.testing import Delivery, SimulationError, Simulator, numbered
from topology.testing.simulation.ports import SideReader
from topology.testing.simulation.runner import PartitionRunner

SEEDS = range(6000)
"""Most mistakes are found among the first twenty."""
IN_DISORDER = Delivery(late=0.6, reach=20)


def found(runner: type[PartitionRunner] = PartitionRunner, **options: Any) -> SimulationError:
    """What the first seed that fails says; the seed replays it."""
    topology = options.pop("topology", simulated.keyed)
    simulator = Simulator(topology, numbered(topology)(1), runner=runner, **options)
    with pytest.raises(SimulationError) as caught:
        simulator.run(SEEDS)
    error = caught.value
    with pytest.raises(SimulationError) as again:
        simulator.replay(error.seed)
    assert again.value.wrong == error.wrong
    return error


@pytest.mark.parametrize(
    "runner",
    [
        planted.TableBeforeCommit,
        planted.TableWithoutOffset,
        planted.TableNotRestored,
        planted.OutputsOutsideTheTransaction,
        planted.NotFenced,
        planted.RestoredBeforeFencing,
        planted.OffsetReadBeforeFencing,
        planted.MemoryKept,
    ],
)
def test_a_mistake_in_the_exactly_once_protocol(runner: type[PartitionRunner]) -> None:
    found(runner)


def test_a_mistake_in_re_keying() -> None:
    error = found(planted.ReKeyedOutsideTheTransaction, topology=shop(keyed=False))
    assert any("comes again" in each for each in error.wrong)


@pytest.mark.parametrize(
    "runner", [planted.OffsetBeforeChangelog, planted.ChangelogBeforeOutputs, planted.RowByRow]
)
def test_a_mistake_in_the_at_least_once_protocol(runner: type[PartitionRunner]) -> None:
    found(runner, guarantee="at_least_once")


@pytest.mark.parametrize("runner", [planted.GivenUpByTheClock, planted.GivenUpBeforeAllShows])
@pytest.mark.long
def test_a_gap_given_up_too_early(runner: type[PartitionRunner]) -> None:
    topology = shop(keyed=False, gap=skip(after=1))
    error = found(runner, topology=topology, delivery=IN_DISORDER)
    assert any("is late, though it came" in each for each in error.wrong)


def test_a_gap_given_up_while_its_event_comes_again_and_does_not_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SideInputs, "expect_redeliveries", planted.expects_what_shows)
    topology = shop(buffer=1, full=redeliver(delay=1, limit=60), gap=skip(after=4))
    error = found(topology=topology, delivery=IN_DISORDER, partitions=1)
    assert any("is late, though it came" in each for each in error.wrong)


def test_an_event_that_is_held_for_lost_while_it_does_not_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SideReader, "written", SideReader.end)
    topology = shop(buffer=1, full=redeliver(delay=1, limit=60))
    error = found(topology=topology, delivery=IN_DISORDER, partitions=1)
    assert any("the counts are" in each for each in error.wrong)


@pytest.mark.parametrize("runner", [planted.JoinsWhereTheOthersAre, planted.ForgetsWhereItRead])
def test_a_mistake_in_halting_a_view(
    monkeypatch: pytest.MonkeyPatch, runner: type[PartitionRunner]
) -> None:
    monkeypatch.setattr("topology.testing.simulation.simulator.ObeyingRunner", runner)
    found(halts=True)


@pytest.mark.long
def test_a_rebuild_that_is_forgotten_in_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "topology.engine.state.late_events.LateEvents.take", planted.requests_are_not_stored
    )
    topology = shop(keyed=False, gap=skip(after=1), late=rebuild_stream())
    found(topology=topology, delivery=IN_DISORDER)


@pytest.mark.parametrize(
    ("place", "mistake", "options"),
    [
        ("state.view_state.ViewState.buffer_rows", planted.buffered_is_not_stored, {}),
        ("state.view_state.ViewState.buffer_rows", planted.released_stays, {}),
        ("state.view_state.ViewState._load", planted.drain_ends_with_a_restart, {"drain": 1}),
        (
            "state.view_state.ViewState._load",
            planted.deadlines_end_with_a_restart,
            {"topology": shop(gap=skip(after=3))},
        ),
        ("state.view_state.ViewState._load", planted.counts_end_with_a_restart, {}),
        ("wait_notes.InputWaits.take", planted.nothing_is_read_again, {}),
        ("state.short_waits.ShortWaits.rows", planted.nothing_is_noted, {}),
        (
            "state.short_waits.ShortWaits.__contains__",
            planted.let_go_of_without_rows,
            {"topology": simulated.three_views(), "memory": 5000, "delivery": IN_DISORDER},
        ),
        ("view_task.step", planted.an_event_in_a_large_batch_is_dropped, {}),
        ("view_task.step", planted.an_event_that_waits_is_dropped, {"delivery": IN_DISORDER}),
    ],
)
def test_a_mistake_in_the_engine(
    monkeypatch: pytest.MonkeyPatch, place: str, mistake: Any, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(f"topology.engine.{place}", mistake)
    found(**options)


def test_a_worker_that_stalls_is_not_fenced_at_least_once() -> None:
    """Known, and documented: only a transaction can keep its late changelog rows out."""
    found(guarantee="at_least_once", zombies=True, topology=shop(buffer=2))


def test_a_mistake_in_what_is_believed_of_other_clocks() -> None:
    """A gap that began in the future of the worker that has it now."""
    error = found(planted.TimesBelieved, topology=shop(gap=skip(after=10)))
    assert any("nothing is done for" in each for each in error.wrong)
