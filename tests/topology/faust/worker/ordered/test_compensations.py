"""Compensations: durable before the call, and called for attempts that come to nothing."""

import asyncio
import gc
import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest

from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import (
    Emit,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    advance,
    key,
    park,
    wait_and_roll_back,
)
from topology.declaration.ordered_stage import RELEASE
from topology.engine.commit_unit import CommitUnit
from topology.engine.state.rows import INTENTS
from topology.model.errors import DeclarationError


class Hotel:
    """The other side: what is booked there, in the order of what was called."""

    def __init__(self) -> None:
        self.called: list[tuple[Any, ...]] = []
        self.away = 0

    def cancel(self, arguments: Any, key: str) -> None:
        if self.away:
            self.away -= 1
            raise ConnectionError("the hotel is away")
        self.called.append(("cancel", arguments["room"], key))

    async def cancel_soon(self, arguments: Any, key: str) -> None:
        await asyncio.sleep(0.01)
        self.cancel(arguments, key)

    @property
    def names(self) -> list[str]:
        return [each[0] for each in self.called]


def partition(hotel: Hotel, handler: Any, **options: Any) -> Partition:
    topology = Topology("t")
    compensations = {
        "cancel": hotel.cancel,
        "cancel_soon": hotel.cancel_soon,
        "by_lambda": lambda arguments, key: hotel.cancel_soon(arguments, key),
    }
    given = {"workers": 4, "commit": "arrival", "error": advance(), **options}
    topology.parallel("work", topic="in", handler=handler, compensations=compensations, **given)
    return Partition(topology)


def left(held: Partition) -> int:
    return len(list(held.table.scan(*INTENTS)))


@pytest.mark.parametrize("name", ["cancel", "cancel_soon", "by_lambda"])
@pytest.mark.parametrize("threads", [False, True])
async def test_a_failed_attempt_is_compensated_before_the_next_one_and_what_succeeds_is_not(
    threads: bool, name: str
) -> None:
    hotel = Hotel()
    rows_seen: list[int] = []

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate(name, {"room": event.stream})
        rows_seen.append(left(held))
        hotel.called.append(("book", event.stream))
        if hotel.names.count("book") < 3:
            raise TimeoutError("the hotel does not answer")
        yield Emit("out", event.stream, 1)

    def in_thread(event: Any) -> Iterator[Emit]:
        event.compensate(name, {"room": event.stream})
        rows_seen.append(left(held))
        hotel.called.append(("book", event.stream))
        if hotel.names.count("book") < 3:
            raise TimeoutError("the hotel does not answer")
        yield Emit("out", event.stream, 1)

    held = partition(hotel, in_thread if threads else handler)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    await held.runner.stop(1)
    key = "t.work/in/0/0"
    assert hotel.called == [
        ("book", "a"), ("cancel", "a", key), ("book", "a"), ("cancel", "a", key), ("book", "a"),
    ]  # fmt: skip
    assert rows_seen == [1, 1, 1], "the intent is durable before the call"
    assert left(held) == 0, "it goes with the unit of its event"


async def test_a_compensation_that_fails_is_called_until_it_works_and_its_event_waits() -> None:
    hotel = Hotel()
    hotel.away = 2

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": event.stream})
        hotel.called.append(("book", event.stream))
        if hotel.names.count("book") < 2:
            raise TimeoutError
        yield Emit("out", event.stream, 1)

    held = partition(hotel, handler)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert hotel.names == ["book", "cancel", "book"]
    counts = held.runner.core.counts
    assert (counts.compensated, counts.compensation_failures) == (1, 2)
    await held.runner.stop(1)


async def test_a_compensation_that_raises_anything_at_all_is_called_again() -> None:
    hotel, kinds = Hotel(), [SystemExit, asyncio.CancelledError, GeneratorExit, StopIteration]
    plain = hotel.cancel

    def cancel(arguments: Any, key: str) -> None:
        plain(arguments, key)
        if kinds:
            raise kinds.pop()

    hotel.cancel = cancel  # type: ignore[method-assign]

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": 1})
        if not hotel.called:
            raise TimeoutError
        yield Emit("out", event.stream, 1)

    held = partition(hotel, handler)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert len(hotel.called) == 5
    await held.runner.stop(1)


async def test_the_newest_intent_is_the_first_also_where_the_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hotel, clock = Hotel(), itertools.count(1 << 60, -1_000_000_000)
    monkeypatch.setattr(time, "time_ns", lambda: next(clock))

    async def handler(event: Any) -> AsyncIterator[Emit]:
        for room in range(3):
            await event.compensate("cancel", {"room": room})
        if not hotel.called:
            raise TimeoutError
        yield Emit("out", event.stream, 1)

    held = partition(hotel, handler)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert [each[1] for each in hotel.called] == [2, 1, 0]
    await held.runner.stop(1)


async def test_a_thread_that_waits_for_its_intent_ends_with_the_run_and_its_stream_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handler(event: Any) -> list[Emit]:
        event.compensate("cancel", {"room": 1})
        return [Emit("out", event.stream, 1)]

    def away(unit: CommitUnit) -> None:
        if "work" in unit.rows and any(key.startswith(INTENTS[0]) for key, _ in unit.rows["work"]):
            raise ConnectionError("away")

    held = partition(Hotel(), handler)
    held.on_commit = away
    held.log.append("a", 1)
    held.start()
    with pytest.raises(ConnectionError, match="away"):
        await held.until(lambda: False)
    held.on_commit = lambda unit: None
    held.new_run()
    held.start()
    await held.until(lambda: held.out("out") == [1])
    await held.runner.stop(1)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_compensations_that_hang_keep_nobody_from_a_thread_but_their_own_view() -> None:
    hotel, gate, begun = Hotel(), threading.Event(), set[str]()
    hotel.cancel = lambda arguments, key: gate.wait(120)  # type: ignore[method-assign, assignment]

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": 1})
        if event.stream not in begun:
            begun.add(event.stream)
            raise TimeoutError
        yield Emit("out", event.stream, 1)

    held = partition(hotel, handler, workers=40, commit="stream")
    for each in range(40):
        held.log.append(f"k{each}", each)
    held.start()
    await held.until(lambda: len(begun) == 40)
    async with asyncio.timeout(60):
        await asyncio.to_thread(int)
    gate.set()
    await held.until(lambda: held.runner.core.position == 40)
    await held.runner.stop(1)


async def test_arguments_that_no_topic_takes_are_refused_before_they_are_written() -> None:
    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", "x" * 1_000_001)
        yield Emit("out", event.stream, 1)

    held = partition(Hotel(), handler)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert "the limit is 1000000" in held.out("t.errors")[0]["error"]
    await held.runner.stop(1)


async def test_what_the_error_policy_passes_over_is_compensated() -> None:
    hotel = Hotel()

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": event.stream})
        raise TimeoutError
        yield

    held = partition(hotel, handler)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1 and not left(held))
    assert hotel.names == ["cancel"]
    assert len(held.out("t.errors")) == 1
    await held.runner.stop(1)


async def test_what_is_rolled_back_for_an_older_event_is_compensated() -> None:
    hotel, gate = Hotel(), asyncio.Event()

    async def handler(event: Any) -> AsyncIterator[Emit]:
        if event.stream == "old":
            await gate.wait()
        else:
            await event.compensate("cancel", {"room": event.stream})
            hotel.called.append(("book", event.stream))
        yield Emit("out", event.stream, event.stream)

    held = partition(hotel, handler, older=wait_and_roll_back(wait=0.05))
    held.log.append("old", 1)
    held.log.append("new", 2)
    held.start()
    await held.until(lambda: "cancel" in hotel.names)
    assert hotel.names == ["book", "cancel"]
    gate.set()
    await held.until(lambda: held.runner.core.position == 2)
    assert hotel.names == ["book", "cancel", "book"]
    assert held.out("out") == ["old", "new"]
    assert left(held) == 0
    await held.runner.stop(1)


async def test_after_a_crash_what_was_called_and_not_committed_is_compensated_first() -> None:
    hotel, gate = Hotel(), asyncio.Event()

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": orjson.loads(event.content)})
        hotel.called.append(("book", event.stream))
        await gate.wait()
        yield Emit("out", event.stream, 1)

    held = partition(hotel, handler)
    held.log.append("a", 101)
    held.start()
    await held.until(lambda: hotel.names == ["book"])
    await held.runner.stop(0)
    assert left(held) == 1
    gate.set()
    held.new_run()
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert hotel.called == [("book", "a"), ("cancel", 101, "t.work/in/0/0"), ("book", "a")]
    assert left(held) == 0
    await held.runner.stop(1)


async def test_what_is_parked_is_redriven_only_once_it_is_compensated() -> None:
    """Or the booking of the redrive would be cancelled by the same key."""
    hotel, gate = Hotel(), threading.Event()
    plain = hotel.cancel

    def cancel(arguments: Any, key: str) -> None:
        gate.wait(120)
        plain(arguments, key)

    hotel.cancel = cancel  # type: ignore[method-assign]
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": event.stream})
        hotel.called.append(("book", event.stream))
        if len(hotel.called) == 1:
            raise TimeoutError
        yield Emit("out", event.stream, 1)

    topology.view(
        "work", of=source, workers=4, handler=handler, error=park(),
        compensations={"cancel": hotel.cancel},
    )  # fmt: skip
    held = Partition(topology)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    held.log.append("a", {"n": 1})
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert hotel.names == ["book"]
    gate.set()
    await held.until(lambda: held.runner.core.position == 2)
    assert hotel.names == ["book", "cancel", "book"]
    await held.runner.stop(1)


async def test_a_compensation_that_outlives_its_run_is_not_called_beside_itself() -> None:
    hotel, gate, running, most = Hotel(), threading.Event(), [0], [0]

    def cancel(arguments: Any, key: str) -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        gate.wait(120)
        running[0] -= 1

    hotel.cancel = cancel  # type: ignore[method-assign]

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": event.stream})
        hotel.called.append(("book", event.stream))
        if len(hotel.called) == 1:
            raise TimeoutError
        yield Emit("out", event.stream, 1)

    held = partition(hotel, handler)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: running == [1])
    await held.runner.stop(0)
    held.new_run()
    held.start()
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert (running, hotel.names) == ([1], ["book"])
    gate.set()
    await held.until(lambda: held.runner.core.position == 1)
    assert (most, hotel.names, held.undoing) == ([1], ["book", "book"], {})
    await held.runner.stop(1)


async def test_a_name_that_is_not_declared_is_refused_with_those_that_are() -> None:
    said: list[str] = []

    async def handler(event: Any) -> AsyncIterator[Emit]:
        try:
            await event.compensate("refund", {})
        except ValueError as error:
            said.append(str(error))
        yield Emit("out", event.stream, 1)

    held = partition(Hotel(), handler)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert "'cancel', 'cancel_soon', 'by_lambda'" in said[0]
    await held.runner.stop(1)


def test_what_is_no_function_is_no_compensation() -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        yield Emit("out", event.stream, 1)

    wrong: Any = {"cancel": "cancel"}
    with pytest.raises(DeclarationError, match="name → a function"):
        Topology("t").parallel("work", topic="in", workers=2, handler=handler, compensations=wrong)


def test_outside_of_a_worker_nothing_is_rolled_back_and_no_connection_is_lent() -> None:
    shop, hotel = Topology("shop"), Hotel()
    source = shop.source("in", inspector=Inspector(stream="id", sequence="n"))
    said: list[str] = []

    @shop.view(
        "trips", of=source, workers=2, database="hotels", compensations={"cancel": hotel.cancel}
    )
    async def trips(event: Any) -> AsyncIterator[Emit]:
        await event.compensate("cancel", {"room": 1})
        try:
            event.connection  # noqa: B018
        except RuntimeError as error:
            said.append(str(error))
        yield Emit("out", event.stream, 1)

    driver = TopologyTestDriver(shop)
    driver.pipe("in", {"id": "a", "n": 1})
    assert driver.read_json("out") == [1]
    assert hotel.called == []
    assert "run it in a worker" in said[0]
