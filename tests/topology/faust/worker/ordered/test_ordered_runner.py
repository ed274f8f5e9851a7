"""Side by side and in order, in memory: hurry, roll back, time limits, errors, new runs."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import orjson
import pytest

from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import (
    Emit,
    Event,
    Inspector,
    Topology,
    Touched,
    halt,
    key,
    park,
    retry,
    wait_and_commit,
    wait_and_roll_back,
)
from topology.declaration.ordered_stage import RELEASE


def partition(handler: Any, **options: Any) -> Partition:
    topology = Topology("t")
    topology.parallel(
        "work", topic="in", handler=handler, **{"workers": 8, "commit": "arrival", **options}
    )
    return Partition(topology)


def number(event: Event) -> Any:
    return orjson.loads(event.content)


class Gate:
    """Events that are held until they are let go; how often each was begun."""

    def __init__(self) -> None:
        self.open: set[Any] = set()
        self.begun: list[Any] = []
        self.keys: dict[Any, set[str]] = {}

    async def __call__(self, event: Event) -> None:
        name = number(event)
        self.begun.append(name)
        self.keys.setdefault(name, set()).add(event.idempotency_key)
        while isinstance(name, str) and name.startswith("slow") and name not in self.open:
            await asyncio.sleep(0.005)


async def test_a_running_older_event_is_told_that_later_ones_wait() -> None:
    hurried = []

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if number(event) == 0:
            await event.hurry.wait()
            hurried.append(event.hurry.is_set())
        yield Emit("out", None, number(event))

    held = partition(handler)
    for name in range(3):
        held.log.append(f"k{name}", name)
    held.start()
    await held.until(lambda: held.out("out") == [0, 1, 2])
    assert hurried == [True]
    await held.runner.stop(1)


async def test_after_the_wait_later_work_is_rolled_back_and_run_again_after_the_older_one() -> None:
    gate = Gate()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        await gate(event)
        yield Emit("out", None, number(event))

    held = partition(handler, older=wait_and_roll_back(wait=0.05))
    for name in ("slow", "a", "b"):
        held.log.append(name, name)
    held.start()
    await held.until(lambda: gate.begun.count("a") == 1 and held.runner.core.counts.rolled_back > 1)
    assert not held.units
    gate.open.add("slow")
    await held.until(lambda: held.out("out") == ["slow", "a", "b"])
    assert gate.begun.count("slow") == 1
    assert gate.begun.count("a") == 2
    assert all(len(keys) == 1 for keys in gate.keys.values())
    await held.runner.stop(1)


async def test_after_the_wait_what_touches_other_keys_commits_first_and_stays_on_record() -> None:
    gate = Gate()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        await gate(event)
        yield Emit("out", None, number(event))

    def touches(event: Event) -> Touched:
        return Touched.of([("account", number(event)[-1])])

    held = partition(handler, older=wait_and_commit(wait=0.05), touches=touches)
    for name in ("slow-1", "a-1", "b-2"):
        held.log.append(name, name)
    held.start()
    await held.until(lambda: held.out("out") == ["b-2"])
    await held.runner.stop(1)
    gate.open.add("slow-1")
    held.new_run()
    held.start()
    await held.until(lambda: held.out("out") == ["b-2", "slow-1", "a-1"])
    assert gate.begun.count("b-2") == 1
    await held.runner.stop(1)


async def test_an_attempt_over_its_time_limit_is_cancelled_and_keeps_its_place() -> None:
    cancelled: list[int] = []

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if number(event) == 0 and not cancelled:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.append(0)
                raise
        yield Emit("out", None, number(event))

    held = partition(handler, time_limit=0.1)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: held.out("out") == [0, 1])
    assert cancelled == [0]
    await held.runner.stop(1)


async def test_what_a_rolled_back_event_left_of_its_streams_state_is_dropped_with_it() -> None:
    calls: list[Any] = []

    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Emit]:
        calls.append(number(event))
        state["sum"] = state.get("sum", 0) + number(event)
        while number(event) == 100 and not held.runner.core.counts.rolled_back:
            await asyncio.sleep(0.005)
        yield Emit("out", event.stream, state["sum"])

    held = partition(handler, older=wait_and_roll_back(wait=0.05))
    held.log.append("slow", 100)
    for value in (1, 2, 3):
        held.log.append("sum", value)
    held.start()
    await held.until(lambda: len(held.out("out")) == 4)
    assert held.out("out") == [100, 1, 3, 6]
    assert calls.count(1) > 1
    await held.runner.stop(1)


async def test_a_failed_attempt_is_tried_again_and_then_the_error_policy_decides() -> None:
    tries: list[int] = []

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if number(event) == 0:
            tries.append(0)
            raise ValueError("boom")
        if number(event) == 1 and tries.count(1) < 2:
            tries.append(1)
            raise TimeoutError("lock")
        yield Emit("out", None, number(event))

    held = partition(handler)
    for name in range(3):
        held.log.append(f"k{name}", name)
    held.start()
    await held.until(lambda: held.out("out") == [1, 2])
    assert tries.count(0) == 4
    errors = held.out("t.errors")
    assert [(each["sequence"], each["done"]) for each in errors] == [(0, "advance")]
    await held.runner.stop(1)


async def test_a_parked_streams_later_events_are_set_aside_in_order_and_released_in_order() -> None:
    fails, keys = {1, 3}, []

    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Emit]:
        if event.stream == "a" and event.sequence in fails:
            raise ValueError("boom")
        keys.append(event.idempotency_key)
        state["n"] = state.get("n", 0) + 1
        yield Emit("out", event.stream, [event.stream, event.sequence, state["n"]])

    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)
    topology.view("work", of=source, workers=8, commit="stream", error=park(), handler=handler)
    held = Partition(topology)
    for stream, number in (("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("a", 4)):
        held.log.append(stream, {"n": number})
    held.start()
    await held.until(lambda: held.runner.core.position == 6)
    assert held.out("out") == [["b", 1, 1], ["b", 2, 2]]
    await held.runner.stop(1)
    held.new_run()
    held.log.append("a", {"n": 5})
    fails.remove(1)
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    held.log.append("a", {"n": 6})
    held.start()
    await held.until(lambda: held.runner.core.position == 9)
    # The third failed when it was handled again: it and what follows it stay parked.
    assert held.out("out")[2:] == [["a", 1, 1], ["a", 2, 2]]
    held.log.append("a", b"a", [(RELEASE, b"unpark")])
    held.log.append("a", {"n": 7})
    await held.until(lambda: held.runner.core.position == 11)
    assert held.out("out")[4:] == [["a", 4, 3], ["a", 5, 4], ["a", 6, 5], ["a", 7, 6]]
    assert [each["n"] for each in held.out("t.dead")] == [3]
    assert [each["sequence"] for each in held.out("t.errors")] == [1, 3]
    assert not list(held.table.scan(b"b", b"c"))
    assert len(set(keys)) == len(keys)
    await held.runner.stop(1)


async def test_a_view_that_halts_commits_nothing_behind_the_failed_event() -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        if number(event) == 1:
            raise ValueError("boom")
        yield Emit("out", None, number(event))

    held = partition(handler, error=halt())
    for name in range(3):
        held.log.append(f"k{name}", name)
    held.start()
    await held.until(lambda: len(held.out("t.errors")) == 1 and held.runner.core.position == 1)
    assert held.out("out") == [0]
    await held.runner.stop(1)


async def test_a_handler_that_yields_nonsense_fails_its_event_alone() -> None:
    async def handler(event: Event) -> AsyncIterator[Any]:
        yield 7 if number(event) == 0 else Emit("out", None, number(event))

    held = partition(handler)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: held.out("out") == [1])
    assert "yielded a int" in held.out("t.errors")[0]["error"]
    await held.runner.stop(1)


async def test_a_message_that_kafka_refuses_fails_its_event_at_once_whatever_is_retried() -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        yield Emit("out", event.stream, number(event))

    held = partition(handler, error=retry(3, 0.01))
    held.stage.view.emitting.refused["a", 0] = "Kafka refuses it"
    held.log.append("a", 0)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.out("out") == [1])
    assert [each["done"] for each in held.out("t.errors")] == ["advance"]
    await held.runner.stop(1)


async def test_messages_without_a_key_are_no_stream_and_bad_keys_are_malformed() -> None:
    gate = Gate()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        await gate(event)
        yield Emit("out", None, number(event))

    held = partition(handler, commit="stream")
    held.log.append(None, "slow")
    held.log.append(None, 1)
    held.log.append("\udcff".encode("utf-8", "surrogatepass").decode("latin-1"), 2)
    held.log.records[-1].key = b"\xff"
    held.start()
    await held.until(lambda: held.out("out") == [1] and len(held.out("t.malformed")) == 1)
    gate.open.add("slow")
    await held.until(lambda: held.out("out") == [1, "slow"])
    await held.runner.stop(1)


async def test_events_of_one_stream_in_one_fetch_are_never_handled_side_by_side() -> None:
    at_work: set[str] = set()
    most = 0

    async def handler(event: Event) -> AsyncIterator[Emit]:
        nonlocal most
        assert event.stream not in at_work
        at_work.add(event.stream)
        most = max(most, len(at_work))
        await asyncio.sleep(0.002)
        at_work.discard(event.stream)
        yield Emit("out", event.stream, number(event))

    held = partition(handler, commit="stream")
    for name in range(200):
        held.log.append(f"k{name % 5}", name)
    held.start()
    await held.until(lambda: len(held.out("out")) == 200)
    assert most == 5
    await held.runner.stop(1)


@pytest.mark.parametrize("in_threads", [False, True])
async def test_a_streams_new_run_waits_for_the_end_of_the_old_one(in_threads: bool) -> None:
    let_go, calls = threading.Event(), []

    async def stubborn(event: Event) -> AsyncIterator[Emit]:
        calls.append("begin")
        while not let_go.is_set():
            # As code does that catches everything.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        calls.append("end")
        yield Emit("out", None, number(event))

    def blocking(event: Event) -> list[Emit]:
        calls.append("begin")
        let_go.wait(120)
        calls.append("end")
        return [Emit("out", None, number(event))]

    held = partition(blocking if in_threads else stubborn)
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: calls == ["begin"])
    old = asyncio.create_task(held.runner.stop(0))
    await held.until(lambda: held.runner.core.still_running != ())
    if in_threads:
        await old
    held.new_run()
    held.start()
    await asyncio.sleep(0.1)
    assert calls == ["begin"]
    let_go.set()
    await held.until(lambda: held.out("out") == [0])
    assert calls == ["begin", "end", "begin", "end"]
    await held.runner.stop(1)
    await old


async def test_intake_pauses_at_its_limit_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        await gate(event)
        yield Emit("out", None, number(event))

    held = partition(handler)
    object.__setattr__(held.stage.work.rules, "max_events", 10)
    held.new_run()
    held.log.append("slow", "slow")
    held.start()
    await held.until(lambda: len(gate.begun) == 1)
    for name in range(9):
        held.log.append(f"k{name}", name)
    await held.until(lambda: held.runner.core.counts.paused == 1)
    for name in range(9, 30):
        held.log.append(f"k{name}", name)
    gate.open.add("slow")
    await held.until(lambda: held.out("out") == ["slow", *range(30)])
    await held.runner.stop(1)
    assert held.runner.core.in_hand == 0
