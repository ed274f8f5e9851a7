"""Whatever a handler raises or yields without end is a failure of that event, and of no other."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.topology.handled import failure, run
from topology import (
    DeclarationError,
    Emit,
    Event,
    Headers,
    Inspector,
    Malformed,
    Message,
    Record,
    Topology,
    TopologyTestDriver,
    Upsert,
    key,
    linked,
)
from topology.declaration.lanes import shown
from topology.engine.output import handling as handling_of
from topology.faust.worker.channel import Item
from topology.model import changes as changes_of


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class NotText(Exception):
    def __str__(self) -> Any:
        return 5


class Enormous(Exception):
    def __str__(self) -> str:
        return "x" * 5_000_000


def deep() -> None:
    deep()


def chained() -> None:
    try:
        raise Unprintable
    except Unprintable as error:
        raise ExceptionGroup("several", [error, Enormous()]) from error


RAISED: list[Any] = [
    asyncio.CancelledError(),
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(1),
    StopAsyncIteration(),
    MemoryError(),
    RecursionError(),
    BaseException("base"),
    BaseExceptionGroup("group", [SystemExit(1)]),
    Unprintable(),
    NotText(),
    Enormous(),
    ValueError("\ud800\x1b[31m"),
    deep,
    chained,
    sys.exit,
]


def raises(what: Any) -> None:
    if isinstance(what, BaseException):
        raise what
    what()


def plain(what: Any) -> Any:
    return lambda event: raises(what) if event.sequence == 2 else None


def generator(what: Any) -> Any:
    def handler(event: Event) -> Iterator[Any]:
        yield Upsert("t", {"id": event.sequence}, {})
        if event.sequence == 2:
            raises(what)

    return handler


def coroutine(what: Any) -> Any:
    async def handler(event: Event) -> None:
        await asyncio.sleep(0)
        if event.sequence == 2:
            raises(what)

    return handler


def agenerator(what: Any) -> Any:
    async def handler(event: Event) -> AsyncIterator[Any]:
        yield Upsert("t", {"id": event.sequence}, {})
        if event.sequence == 2:
            raises(what)

    return handler


def driver_of(handler: Any, **policies: Any) -> TopologyTestDriver:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    topology.view("v", of=orders, handler=handler, **policies)
    return TopologyTestDriver(topology)


def pipe(driver: TopologyTestDriver, *sequences: int) -> None:
    for sequence in sequences:
        driver.pipe("orders", {"id": "a", "n": sequence})


@pytest.mark.parametrize(
    "what", RAISED, ids=lambda what: getattr(what, "__name__", str(type(what)))
)
@pytest.mark.parametrize("kind", [plain, generator, coroutine, agenerator])
def test_whatever_a_handler_raises_fails_that_event_alone(kind: Any, what: Any) -> None:
    driver = driver_of(kind(what))
    pipe(driver, 1, 2, 3)
    counts = driver.counts("v")
    assert (counts.processed, counts.failed, driver.last("v", "a")) == (2, 1, 3)
    assert (2,) not in driver.table("t")
    (record,) = driver.read("shop.errors")
    assert len(record.value or b"") <= 1_000_000


async def test_a_handler_that_awaits_what_was_cancelled_does_not_hang_its_partition() -> None:
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()

    async def handler(event: Event) -> None:
        if event.sequence == 2:
            await gone

    driver = driver_of(handler)
    task = driver._runner.tasks["orders"]
    for sequence in (1, 2, 3):
        record = Record("x", 0, sequence, b"a", b'{"id":"a","n":%d}' % sequence, [], 0)
        unit, events = task.begin([record], 1000)
        await task.views["v"].arun(events, unit, None)
    assert (driver.counts("v").processed, driver.counts("v").failed) == (2, 1)


async def test_a_task_that_is_to_end_ends_in_a_handler_too() -> None:
    reached = asyncio.Event()

    async def handler(event: Event) -> None:
        reached.set()
        await asyncio.sleep(3600)

    driver = driver_of(handler)
    task = driver._runner.tasks["orders"]
    unit, events = task.begin([Record("x", 0, 0, b"a", b'{"id":"a","n":1}', [], 0)], 1000)
    running = asyncio.create_task(task.views["v"].arun(events, unit, None))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert driver.counts("v").failed == 0


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
async def test_work_that_fails_in_any_way_settles(error: BaseException) -> None:
    async def work() -> None:
        raise error

    item = Item(work)
    await item.run()
    with pytest.raises(RuntimeError, match=type(error).__name__):
        await item.done


async def test_work_whose_agent_is_cancelled_settles() -> None:
    item = Item(lambda: asyncio.sleep(3600))
    running = asyncio.create_task(item.run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert item.done.cancelled()


def endless(event: Event) -> Iterator[Any]:
    while True:
        yield Emit("log", None, b"x")


async def aendless(event: Event) -> AsyncIterator[Any]:
    while True:
        yield Emit("log", None, b"x")


async def returns_endless(event: Event) -> Any:
    return endless(event)


@pytest.mark.parametrize("handler", [endless, aendless, returns_endless, lambda e: endless(e)])
@pytest.mark.parametrize("policies", [{}, {"timeout": 60}, {"closes": "x", "retention": 1}])
def test_a_handler_that_yields_without_end_fails(
    handler: Any, policies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (changes_of, handling_of):
        monkeypatch.setattr(module, "ITEMS_LIMIT", 1000)
    driver = driver_of(handler, **policies)
    pipe(driver, 1)
    assert "more than 1000" in driver.read_json("shop.errors")[0]["error"]
    assert driver.read("log") == []


def test_what_an_event_yields_is_bounded_in_bytes_too() -> None:
    driver = run(lambda event: (Emit("log", None, b"x" * 900_000) for _ in range(100)))
    assert "bytes together" in failure(driver)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), KeyboardInterrupt()])
def test_an_inspector_or_a_lane_that_raises_anything_stops_nothing(error: BaseException) -> None:
    def inspect(message: Message) -> Any:
        raise error

    def lane(event: Event) -> Any:
        raise error

    topology = Topology("shop")
    mine = topology.source("mine", inspector=inspect)
    with pytest.raises(Malformed, match="inspector failed"):
        mine.inspect(Record("mine", 0, 0, None, b""))
    chain = topology.source("chain", inspector=Headers(key(), "n"), sequence=linked(previous=lane))
    with pytest.raises(Malformed, match="predecessor failed"):
        chain.inspect(Record("chain", 0, 0, b"a", b"", [("n", b"1")]))
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    seen: list[str | None] = []
    topology.view("v", of=orders, lane=lane, handler=lambda event: seen.append(event.lane))
    pipe(TopologyTestDriver(topology), 1)
    assert seen == [""]


MESSAGE = Record("orders", 0, 0, None, b"")


@pytest.mark.parametrize(
    "event",
    [
        Event("a", 1, None, {}, MESSAGE),
        shown(Event("a|b", 1, None, {}, MESSAGE)),
    ],
    ids=lambda event: type(event).__name__,
)
@pytest.mark.parametrize(
    "name", ["stream", "sequence", "kind", "content", "message", "arrived", "lane", "other"]
)
def test_an_event_cannot_be_changed(event: Event, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(event, name, None)
    with pytest.raises(AttributeError):
        delattr(event, name)
    assert (event.stream, event.sequence) == ("a", 1)


def test_a_handler_that_sets_an_attribute_fails_and_no_other_view_sees_it() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    seen: list[Any] = []

    @topology.view("first", of=orders)
    def first(event: Event) -> None:
        event.stream = None  # type: ignore[assignment, misc]

    topology.view("second", of=orders, handler=lambda event: seen.append(event.stream))
    driver = TopologyTestDriver(topology)
    pipe(driver, 1, 2)
    assert seen == ["a", "a"]
    assert driver.counts("first").failed == 2
    assert "event.stream cannot be set" in driver.read_json("shop.errors")[0]["error"]


@pytest.mark.parametrize("of", [["a", "b"], None, 5, {None: 1}, ("a",), {"a", "b"}])
def test_a_view_of_what_is_no_source_is_refused_by_name(of: Any) -> None:
    topology = Topology("shop")
    with pytest.raises(DeclarationError, match=r"view 'v': of="):
        topology.view("v", of=of, handler=lambda event: None)
