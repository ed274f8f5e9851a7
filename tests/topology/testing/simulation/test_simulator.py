"""The engine under simulated crashes, rebalances and stalls: no schedule breaks a promise.

`test_finds_planted.py` shows that the simulator can fail.
"""

import asyncio
import gc
import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.topology.partition import INSPECTOR, board, shop
from tests.topology.testing.simulation import simulated
from tests.topology.testing.simulation.simulated import (
    odd_messages,
    ordered_by,
    sometimes,
    steps_of_three,
    three_views,
)
from topology import (
    Emit,
    Event,
    Topology,
    ask,
    earliest_seen,
    halt,
    linked,
    monotonic,
    opened_by,
    rebuild_stream,
    redeliver,
    skip,
    spill,
)
from topology.testing import Delivery, Sent, SimulationError, Simulator, numbered
from topology.testing.simulate import main
from topology.testing.simulation.simulator import trace_text
from topology.testing.simulation.world import Guarantee

SEEDS = 100
GUARANTEES: list[Guarantee] = ["exactly_once", "at_least_once"]

CASES: dict[str, tuple[Topology, dict[str, Any]]] = {
    "keyed": (shop(), {}),
    "re-keyed": (shop(keyed=False), {}),
    "a view with workers": (shop(workers=4, commit="arrival"), {}),
    "a ring of one": (shop(buffer=1), {}),
    "gaps given up": (shop(gap=skip(after=3), buffer=2), {"delivery": Delivery(never=0.1)}),
    "gaps given up behind re-keying": (shop(keyed=False, gap=skip(after=1)), {}),
    "failing handler": (shop(handler=sometimes, buffer=2), {"workers": 3}),
    "long drains": (shop(buffer=4), {"drain": 2, "delivery": Delivery(late=0.6, reach=30)}),
    "deep disorder in little memory": (
        shop(handler=sometimes, buffer=2),
        {"memory": 8000, "delivery": Delivery(late=0.6, reach=30)},
    ),
    "three views": (three_views(), {"partitions": 1}),
    "links": (ordered_by(linked("before")), {}),
    "links given up": (ordered_by(linked("before"), gap=skip(after=2)), {}),
    "times": (ordered_by(monotonic(settle=2)), {"delivery": Delivery(late=0.5, reach=20)}),
    "streams rebuilt": (ordered_by(monotonic(settle=1), late=rebuild_stream()), {}),
}


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("case", CASES)
def test_no_schedule_breaks_a_promise(case: str, guarantee: Guarantee) -> None:
    topology, options = CASES[case]
    sent = numbered(topology, 20, 3)(7)
    report = Simulator(topology, sent, guarantee=guarantee, **options).run(range(SEEDS))

    assert report.seeds == SEEDS
    assert report.crashed.total() > SEEDS / 4


@pytest.mark.parametrize(
    ("keyed", "guarantee", "policies"),
    [
        (False, "exactly_once", {"gap": skip(after=2), "full": spill()}),
        (True, "exactly_once", {"gap": skip(after=2), "full": spill()}),
        (False, "at_least_once", {"gap": skip(after=2), "full": spill()}),
        (False, "exactly_once", {"gap": skip(after=4), "full": redeliver(delay=1, limit=60)}),
        (False, "exactly_once", {"gap": skip(after=2), "late": rebuild_stream()}),
    ],
)
def test_views_that_are_halted_and_resumed_come_to_the_same(
    keyed: bool, guarantee: Guarantee, policies: dict[str, Any]
) -> None:
    topology = shop(keyed=keyed, buffer=2)
    source = topology.sources["orders"]
    topology.view("hasty", of=source, handler=sometimes, buffer=2, **policies)
    simulator = Simulator(topology, numbered(topology, 20, 3), halts=True, guarantee=guarantee)
    report = simulator.run(range(SEEDS))
    assert report.crashed.total() > SEEDS / 4
    commands = Counter(what for seed in range(20) for what, _, _ in simulator.run(seed).trace)
    assert commands["halt"] > 10


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_nor_does_one_with_conflicts_and_with_what_is_no_event(guarantee: Guarantee) -> None:
    Simulator(steps_of_three(), odd_messages, guarantee=guarantee, partitions=1).run(range(SEEDS))


def test_a_report_adds_up_what_was_done() -> None:
    simulator = Simulator(shop(handler=sometimes), simulated.messages)
    reports = [simulator.run(seed) for seed in range(4)]
    report = simulator.run(range(4))

    assert report.messages == sum(each.messages for each in reports)
    assert report.steps == sum(each.steps for each in reports)
    assert report.failed == sum(each.failed for each in reports) > 0
    assert report.handled > report.failed
    assert f"{report.handled} events handled, {report.failed} failed" in str(report)


def test_a_worker_dies_at_every_step() -> None:
    crashed: Counter[str] = Counter()
    for guarantee in GUARANTEES:
        simulator = Simulator(CASES["re-keyed"][0], simulated.messages, guarantee=guarantee)
        crashed += simulator.run(range(400)).crashed
    steps = "fenced restoring started fetched computed begun outputs changelog offsets prepared"
    assert {*steps.split(), "table", "done", "idle"} <= crashed.keys()


def test_a_seed_makes_the_same_schedule_again() -> None:
    first = Simulator(simulated.keyed, simulated.messages).run(11)
    other = Simulator(simulated.keyed, simulated.messages)
    other.run(range(5))
    assert other.run(11).trace == first.trace
    assert other.run(12).trace != first.trace


def test_a_replay_tells_each_step_of_the_same_schedule() -> None:
    simulator = Simulator(simulated.keyed, simulated.messages)
    actions, report = simulator.run(11).trace, simulator.replay(11)
    assert [line for line in report.trace if line[0] != "  step"] == actions
    text = trace_text(report.trace)
    assert "fetched" in text
    assert "to shop.board" in text


def test_a_schedule_does_not_depend_on_the_process() -> None:
    """Nor on how it hashes texts."""
    command = [sys.executable, "-m", "topology.testing.simulate", "--replay", "3"]
    command += ["--topology", "tests.topology.testing.simulation.simulated:keyed"]
    outputs = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hashing},
            cwd=Path(__file__).parents[4],
            check=True,
            capture_output=True,
        ).stdout
        for hashing in ("1", "2")
    ]
    assert b"from here on nothing goes wrong" in outputs[0]
    assert outputs[0] == outputs[1]


def test_the_command_runs_seeds_and_tells_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    where = "tests.topology.testing.simulation.simulated"
    status = main(
        ["--topology", f"{where}:keyed", "--messages", f"{where}:messages", "--seeds", "5..15"]
    )
    assert status == 0
    assert "10 schedules" in (out := capsys.readouterr().out)
    assert "schedules/s" in out


@pytest.mark.integration
def test_seeds_in_several_processes_come_to_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.testing.simulate.CHUNK", 50)
    where = ["--topology", "tests.topology.testing.simulation.simulated:keyed", "--seeds", "0..120"]
    said = []
    for jobs in ("1", "2"):
        assert main([*where, "--jobs", jobs]) == 0
        first, *rest = capsys.readouterr().out.splitlines()
        said.append([first.split(" in ")[0], *rest])
    assert said[0] == said[1]
    assert said[0][0].startswith("120 schedules")


def test_a_failure_comes_whole_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(SimulationError(7, ["lost"], [("crash", "worker 0", "")])))
    assert (error.seed, error.wrong, error.trace) == (7, ["lost"], [("crash", "worker 0", "")])
    assert "seed 7:" in str(error)


def test_a_schedule_leaves_nothing_for_the_collector() -> None:
    """It would take a good part of the time of a run of many."""
    simulator = Simulator(CASES["re-keyed"][0], simulated.messages)
    simulator.run(range(20))
    left = []
    gc.disable()
    try:
        for _ in range(3):  # a thread of another test may leave something meanwhile
            gc.collect()
            simulator.run(range(20))
            left.append(gc.collect())
    finally:
        gc.enable()
    assert min(left) == 0, left


def test_the_command_tells_the_seed_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "topology.engine.state.view_state.ViewState.buffer_rows", lambda self, result: []
    )
    monkeypatch.setattr("topology.testing.simulate._run", _first)
    assert main(["--topology", "tests.topology.testing.simulation.simulated:keyed"]) == 1
    captured = capsys.readouterr()
    assert "seed " in captured.out
    assert "--replay " in captured.err


def _first(options: Any, seeds: range, jobs: int) -> Any:
    return Simulator(simulated.keyed, simulated.messages).run(seeds)


def test_a_failure_tells_what_is_wrong_and_what_happened() -> None:
    calls = 0

    def forgetful(event: Event, state: dict[str, Any]) -> Any:
        nonlocal calls
        calls += 1
        return board(event, {"count": calls})

    simulator = Simulator(shop(handler=forgetful), simulated.messages)
    with pytest.raises(SimulationError, match="seed 0:") as caught:
        simulator.run(range(10))
    error = caught.value
    assert error.seed == 0
    assert "shop.board: stream" in error.wrong[0]
    assert "arrive" in str(error)
    with pytest.raises(SimulationError, match="step "):
        simulator.replay(0)


def test_messages_may_be_tuples_and_come_with_keys() -> None:
    topology = shop(keyed=False)
    body = {"stream": "a", "sequence": 1, "kind": "k"}
    Simulator(topology, [("orders", body), Sent("orders", None, "k", (("h", b"1"),))]).run(3)
    with pytest.raises(KeyError, match="'orders'"):
        Simulator(topology, [("payments", body)])


def test_numbered_messages_need_an_inspector_that_says_what_they_look_like() -> None:
    with pytest.raises(ValueError, match="messages of your own"):
        numbered(steps_of_three())
    kinds = {sent.value["kind"] for sent in numbered(three_views(), 60)(1)}
    assert kinds == {"Paid", "other"}


@pytest.mark.parametrize(
    ("policies", "named"),
    [
        ({"start": earliest_seen(after=5)}, r"start=earliest_seen\(after=5\) is not simulated"),
        ({"start": opened_by("Placed")}, r"start=opened_by\('Placed'\)"),
        ({"closes": "Paid", "retention": 60}, "closes=…"),
        ({"lane": "kind"}, "lane="),
        ({"gap": ask("orders")}, r"gap=ask\(source='orders'"),
        ({"error": halt()}, r"error=halt\(\)"),
        ({"full": halt()}, r"full=halt\(\)"),
        ({"full": redeliver()}, r"full=redeliver\("),
    ],
)
def test_what_is_not_simulated_is_refused_by_name(policies: dict[str, Any], named: str) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    topology.view("board", of=orders, handler=board, **policies)
    with pytest.raises(ValueError, match=f"view 'board': {named}.*TopologyTestDriver"):
        Simulator(topology, simulated.messages)


def test_a_redelivery_without_a_limit_ends_where_gaps_are_given_up() -> None:
    topology = shop(full=redeliver(delay=1), gap=skip(after=8), buffer=2)
    assert Simulator(topology, simulated.messages).run(range(20)).handled > 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"guarantee": "exactly-once"},
        {"workers": 0},
        {"partitions": 0},
        {"batch": 0},
        {"workers": 1.5},
        {"partitions": True},
    ],
)
def test_an_option_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=f"Simulator.{name}="):
        Simulator(simulated.keyed, simulated.messages, **wrong)


def test_what_is_no_topology_is_refused() -> None:
    with pytest.raises(TypeError, match="give a Topology"):
        Simulator("shop", simulated.messages)  # type: ignore[arg-type]


def test_an_async_handler_may_have_a_time_limit() -> None:
    report = Simulator(shop(handler=simulated.later, timeout=5), simulated.messages).run(range(5))
    assert report.failed == 0
    assert report.handled > 0


def test_a_schedule_knows_nothing_of_the_topics_that_others_named() -> None:
    def tenants(event: Event) -> Any:
        yield Emit(f"tenant-{event.stream}", event.stream, {"n": event.sequence})

    def messages(seed: int) -> list[Any]:
        bodies = ({"stream": f"{seed}-{k}", "sequence": 1, "kind": "k"} for k in range(3))
        return [("orders", body) for body in bodies]

    assert Simulator(shop(handler=tenants), messages).run(range(60)).failed == 0


WHERE = "tests.topology.testing.simulation.simulated"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--topology", f"{WHERE}:picky", "--seeds", "1..2"], "give --messages"),
        (
            ["--topology", f"{WHERE}:keyed", "--messages", f"{WHERE}:none", "--seeds", "1"],
            "no handler got through",
        ),
        (["--topology", "sequitur.flights.topology:topology"], "messages of your own"),
        (["--topology", "nowhere:topology"], "nowhere"),
        (["--topology", f"{WHERE}:nothing"], "nothing"),
        (["--topology", f"{WHERE}:messages"], "give a Topology"),
        (["--topology", WHERE], "no attribute"),
        (["--topology", f"{WHERE}:keyed", "--messages", f"{WHERE}:elsewhere"], "'payments'"),
        (["--topology", f"{WHERE}:keyed", "--messages", f"{WHERE}:made_elsewhere"], "'payments'"),
        (["--topology", f"{WHERE}:keyed", "--messages", f"{WHERE}:keyed"], "Topology"),
        (["--topology", f"{WHERE}:keyed", "--workers", "0"], "workers=0"),
        (["--topology", f"{WHERE}:keyed", "--partitions", "0"], "partitions=0"),
    ],
)
def test_the_command_ends_with_2_where_nothing_could_be_simulated(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("seeds", ["20..5", "0..0", "x", "1..x"])
def test_the_command_takes_no_seeds_for_a_mistake(
    seeds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--topology", f"{WHERE}:keyed", "--seeds", seeds])
    assert "A..B" in capsys.readouterr().err


def test_a_handler_that_really_waits_is_refused() -> None:
    async def sleepy(event: Event) -> None:
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="event loop"):
        Simulator(shop(handler=sleepy), simulated.messages).run(range(3))
