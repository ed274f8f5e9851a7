"""Batches: what is yielded of each event, states of several streams, and one event that fails."""

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest

from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import (
    Batch,
    DeclarationError,
    Emit,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    key,
    park,
)


def partition(handler: Any, **options: Any) -> Partition:
    topology = Topology("t")
    given = {"workers": 4, "commit": "stream", **options}
    topology.parallel("work", topic="in", handler=handler, **given)
    return Partition(topology)


def number(event: Event) -> Any:
    return orjson.loads(event.content)


async def until_done(held: Partition, end: int) -> None:
    held.start()
    await held.until(lambda: held.runner.core.position == end)
    await held.runner.stop(1)


async def test_a_batch_of_a_stream_has_its_state_and_what_it_yields_is_of_its_last_event() -> None:
    sizes = []

    async def handler(events: list[Event], state: dict[str, Any]) -> AsyncIterator[Any]:
        assert len({event.stream for event in events}) == 1
        sizes.append(len(events))
        state["sum"] = state.get("sum", 0) + sum(map(number, events))
        yield Upsert("sums", {"id": events[0].stream}, {"sum": state["sum"]})
        for event in events:
            yield event, Emit("out", event.stream, [event.stream, number(event)])

    held = partition(handler, batch=5)
    for value in range(20):
        held.log.append("ab"[value % 2], value)
    await until_done(held, 20)
    assert max(sizes) > 1
    assert max(sizes) <= 5
    for at, stream in enumerate("ab"):
        values = [each[1] for each in held.out("out") if each[0] == stream]
        assert values == [*range(at, 20, 2)]
        changes = [each for each in held.out("t.work") if each["stream"] == stream]
        assert changes[-1]["changes"][0]["values"]["sum"] == sum(values)
        assert changes[-1]["sequence"] == 18 + at


async def test_a_batch_of_many_streams_has_the_state_of_each_and_leaves_it_to_the_next() -> None:
    sizes = Counter[int]()

    def handler(events: list[Event], states: dict[str, Any]) -> Iterator[Any]:
        assert {event.stream for event in events} == {*states}
        sizes[len(states)] += 1
        for event in events:
            state = states[event.stream]
            state["n"] = state.get("n", 0) + 1
            yield event, Emit("out", event.stream, [event.stream, state["n"]])

    held = partition(handler, batch=Batch(10, "any"))
    for value in range(60):
        held.log.append(f"k{value % 6}", value)
    await until_done(held, 60)
    assert max(sizes) > 1
    for name in range(6):
        values = [each[1] for each in held.out("out") if each[0] == f"k{name}"]
        assert values == [*range(1, 11)]
    # Also over a restart: the states are durable.
    held.log.append("k1", 0)
    held.new_run()
    held.start()
    await held.until(lambda: held.out("out")[-1:] == [["k1", 11]])
    await held.runner.stop(1)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_batch_that_yields_more_than_one_event_may_is_handled_one_by_one(
    is_async: bool,
) -> None:
    def handler(events: list[Event]) -> Iterator[Any]:
        for event in events:
            for _ in range(60_000):
                yield event, Emit("out", None, None)

    async def in_task(events: list[Event]) -> AsyncIterator[Any]:
        for each in handler(events):
            yield each

    held = partition(in_task if is_async else handler, workers=1, batch=Batch(2, "any"))
    held.log.append("a", 0)
    held.log.append("b", 1)
    await until_done(held, 2)
    assert sum(len(unit.keyed["out"]) for unit in held.units) == 120_000


@pytest.mark.parametrize("of", ["stream", "any"])
async def test_the_events_of_a_failed_batch_are_tried_one_by_one_and_only_the_guilty_fails(
    of: Any,
) -> None:
    alone = []

    async def handler(events: list[Event]) -> AsyncIterator[Any]:
        if len(events) == 1:
            alone.append(number(events[0]))
        for event in events:
            if number(event) == 3:
                raise ValueError("boom")
            # An effect that is wrong fails its event, too.
            yield event, 7 if number(event) == 4 else Emit("out", event.stream, number(event))

    held = partition(handler, batch=Batch(6, of), workers=1)
    for value in range(6):
        held.log.append("a", value)
    await until_done(held, 6)
    assert held.out("out") == [0, 1, 2, 5]
    assert [each["sequence"] for each in held.out("t.errors")] == [3, 4]
    assert {*alone} >= {3, 4}


async def test_events_of_one_group_in_one_fetch_are_never_handled_side_by_side() -> None:
    at_work, lock = set[str](), threading.Lock()
    clashes: list[str] = []

    def handler(events: list[Event]) -> Iterator[Any]:
        streams = {event.stream for event in events}
        with lock:
            clashes.extend(streams & at_work)
            at_work.update(streams)
        with lock:
            at_work.difference_update(streams)
        for event in events:
            yield event, Emit("out", event.stream, [event.stream, number(event)])

    for batch in (Batch(4), Batch(4, "any")):
        held = partition(handler, batch=batch, workers=8)
        for value in range(200):
            held.log.append(f"k{value % 7}", value)
        await until_done(held, 200)
        assert clashes == []
        for name in range(7):
            values = [each[1] for each in held.out("out") if each[0] == f"k{name}"]
            assert values == [*range(name, 200, 7)]


async def test_malformed_and_parked_events_are_never_part_of_a_batch() -> None:
    async def handler(events: list[Event]) -> AsyncIterator[Any]:
        for event in events:
            if event.content.get("bad"):
                raise ValueError("boom")
            yield event, Emit("out", event.stream, event.sequence)

    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)
    topology.view(
        "work", of=source, workers=1, commit="arrival", error=park(), handler=handler,
        batch=Batch(10, "any"),
    )  # fmt: skip
    held = Partition(topology)
    for stream, n, bad in (("a", 1, 0), ("b", 1, 1), ("a", 2, 0), ("b", 2, 0), ("b", 3, 0)):
        held.log.append(stream, {"n": n, "bad": bad})
    held.log.append("a", b"{no json")
    held.log.append("a", {"n": 3})
    await until_done(held, 7)
    assert held.out("out") == [1, 2, 3]
    assert sum(len(unit.keyed["t.malformed"]) for unit in held.units) == 1
    assert held.runner.effects.parked("b")
    assert len(held.runner.effects.parked_events("b")) == 3


async def test_an_effect_by_itself_of_a_batch_of_several_streams_is_refused() -> None:
    async def handler(events: list[Event]) -> AsyncIterator[Any]:
        yield Emit("out", None, len(events))

    held = partition(handler, batch=Batch(2, "any"), workers=1)
    held.log.append("a", 0)
    held.log.append("b", 1)
    await until_done(held, 2)
    assert held.out("out") == [1, 1], "one by one it is known which event an effect is of"


def test_the_test_driver_gives_batches_of_one() -> None:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)

    @topology.view("one", of=source, workers=2, batch=3)
    async def one(events: list[Event], state: dict[str, Any]) -> AsyncIterator[Any]:
        state["n"] = state.get("n", 0) + len(events)
        yield Emit("one", None, state["n"])

    @topology.view("many", of=source, workers=2, batch=Batch(3, "any"))
    def many(events: list[Event], states: dict[str, Any]) -> Iterator[Any]:
        for event in events:
            states[event.stream]["n"] = states[event.stream].get("n", 0) + 1
            yield event, Emit("many", None, states[event.stream]["n"])

    driver = TopologyTestDriver(topology)
    for n in (1, 2):
        driver.pipe("in", {"n": n}, key="a")
    assert driver.read_json("one") == [1, 2]
    assert driver.read_json("many") == [1, 2]


def test_what_does_not_go_with_a_batch_is_refused() -> None:
    async def handler(events: list[Event], state: dict[str, Any]) -> list[Any]:
        return []

    def declare(**options: Any) -> None:
        topology = Topology("t")
        source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)
        topology.view("work", of=source, handler=handler, **options)

    for options, why in (
        ({"batch": 5}, "without workers"),
        ({"batch": 1, "workers": 1}, "from 2 to 10000"),
        ({"batch": True, "workers": 1}, "from 2 to 10000"),
        ({"batch": Batch(5, "both"), "workers": 1}, "'stream' or 'any'"),  # type: ignore[arg-type]
        ({"batch": 5, "workers": 1, "timeout": 1.0}, "use time_limit="),
        ({"batch": 5, "workers": 1, "database": "shop"}, "leave one of the two out"),
        ({"batch": 5, "workers": 1, "closes": "end", "retention": 9.0}, "closes= with batch="),
    ):
        with pytest.raises(DeclarationError, match=why):
            declare(**options)
