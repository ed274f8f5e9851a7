"""Events that workers of the user's own pull: each once, in order when committed, never lost."""

import asyncio
from typing import Any

import orjson
import pytest

from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import (
    DeclarationError,
    Emit,
    Event,
    HandlerError,
    Inspector,
    PulledHandler,
    Topology,
    TopologyTestDriver,
    key,
    pulled,
)


def partition(handler: PulledHandler, **options: Any) -> Partition:
    topology = Topology("t")
    given = {"workers": 4, "commit": "arrival", **options}
    topology.parallel("work", topic="in", handler=handler, **given)
    return Partition(topology)


def number(event: Event) -> Any:
    return orjson.loads(event.content)


async def test_pullers_get_each_event_once_and_their_effects_commit_in_order() -> None:
    events = pulled()
    held = partition(events)
    seen: list[Any] = []

    async def puller(pause: float) -> None:
        async for work in events:
            seen.append(number(work.event))
            await asyncio.sleep(pause)
            assert work.done([Emit("out", None, number(work.event))])

    for name in range(30):
        held.log.append(f"k{name}", name)
    held.start()
    pullers = [asyncio.create_task(puller(pause)) for pause in (0.0, 0.003, 0.01)]
    await held.until(lambda: held.out("out") == [*range(30)])
    assert sorted(seen) == [*range(30)]
    for each in pullers:
        each.cancel()
    await held.runner.stop(1)


async def test_what_a_puller_that_vanishes_has_taken_is_rolled_back_and_pulled_again() -> None:
    events = pulled()
    held = partition(events, time_limit=0.2)
    for name in range(3):
        held.log.append(f"k{name}", name)
    held.start()
    vanished = await events.next()
    assert number(vanished.event) == 0

    async def puller() -> None:
        async for work in events:
            work.done([Emit("out", None, [number(work.event), work.event.idempotency_key])])

    pulling = asyncio.create_task(puller())
    await held.until(lambda: len(held.out("out")) == 3)
    assert [each[0] for each in held.out("out")] == [0, 1, 2]
    assert held.out("out")[0][1] == vanished.event.idempotency_key
    assert vanished.rolled_back
    assert not vanished.done([Emit("out", None, "late")])
    pulling.cancel()
    await held.runner.stop(1)
    assert len(held.out("out")) == 3


async def test_the_time_limit_begins_when_an_event_is_pulled_so_that_slow_pullers_lose_none() -> (
    None
):
    events = pulled()
    held = partition(events, workers=16, time_limit=0.5, commit="stream")
    for each in range(16):
        held.log.append(f"k{each}", each)
    held.start()

    async def puller() -> None:
        async for work in events:
            await asyncio.sleep(0.05)
            work.done([Emit("out", None, number(work.event))])

    pulling = asyncio.create_task(puller())
    await held.until(lambda: held.runner.core.position == 16)
    pulling.cancel()
    assert sorted(held.out("out")) == [*range(16)]
    await held.runner.stop(1)


async def test_what_a_puller_raises_or_yields_wrong_fails_the_event_as_of_a_handler() -> None:
    events = pulled(state=True)
    held = partition(events)
    held.log.append("a", 0)
    held.log.append("a", 1)
    held.log.append("a", 2)
    held.start()

    async def puller() -> None:
        async for work in events:
            async with work:
                work.state["n"] = work.state.get("n", 0) + 1
                if number(work.event) == 0:
                    raise ValueError("boom")
                wrong: Any = 7 if number(work.event) == 1 else Emit("out", None, work.state["n"])
                work.done([wrong])

    pulling = asyncio.create_task(puller())
    await held.until(lambda: held.out("out") == [1])
    assert [each["error"].partition(":")[0] for each in held.out("t.errors")] == [
        "ValueError",
        "HandlerError",
    ]
    pulling.cancel()
    await held.runner.stop(1)


async def test_a_puller_that_gives_up_waiting_loses_no_event() -> None:
    events = pulled()
    held = partition(events, workers=1)
    held.start()
    waiting = asyncio.create_task(events.next())
    await asyncio.sleep(0.01)
    held.log.append("a", 0)
    while not events._waiting and not waiting.done():
        # Cancelled in the very step in which it is given the event.
        if held.runner.workers._attempts:
            waiting.cancel()
        await asyncio.sleep(0)
    if not waiting.cancelled() and waiting.done():
        work = waiting.result()
    else:
        work = await events.next()
    assert work.done([Emit("out", None, 0)])
    await held.until(lambda: held.out("out") == [0])
    await held.runner.stop(1)


def test_pulled_and_its_handler_go_together_and_no_test_driver_pulls() -> None:
    async def handler(event: Event) -> list[Emit]:
        return []

    with pytest.raises(DeclarationError, match="give both, or neither"):
        Topology("t").parallel("w", topic="in", workers=1, run_in="pulled", handler=handler)
    with pytest.raises(DeclarationError, match="give both, or neither"):
        Topology("t").parallel("w", topic="in", workers=1, run_in="tasks", handler=pulled())
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)
    topology.view("work", of=source, workers=1, handler=pulled())
    driver = TopologyTestDriver(topology)
    driver.pipe("in", {"n": 1}, key="a")
    (error,) = driver.read_json("t.errors")
    assert HandlerError.__name__ in error["error"]
    assert "nobody pulls outside of a worker" in error["error"]
