"""A view's time limit: a handler that takes longer has failed its event."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest

from tests.topology.handled import driver_of, failure, order
from topology import (
    DeclarationError,
    Emit,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    park,
    retry,
)
from topology.declaration.view import View
from topology.engine.stream_task import StreamTask
from topology.faust.worker.watch import Blocked, Watchdog
from topology.model.event import Record
from topology.testing.driver.storage import DriverStorage


def plain(event: Event) -> list[Any]:
    return [Emit("log", "k", {})]


def lazy(event: Event) -> Iterator[Any]:
    yield Emit("log", "k", {})


async def awaited(event: Event) -> list[Any]:
    return [Emit("log", "k", {})]


async def alazy(event: Event) -> AsyncIterator[Any]:
    yield Emit("log", "k", {})


HANDLERS = [plain, lazy, awaited, alazy]


@pytest.mark.parametrize("handler", HANDLERS)
def test_longer_than_the_limit_is_a_failure_like_any_other(handler: Any) -> None:
    driver = driver_of(handler, timeout=5)
    driver.pipe("orders", order(1))
    with driver.slow(5):
        driver.pipe("orders", order(2))
    with driver.slow(5.5):
        driver.pipe("orders", order(3))
    driver.pipe("orders", order(4))
    assert "took 5.5 s for the event; its limit is 5 s" in failure(driver)
    assert driver.counts("board").processed == 3
    assert len(driver.read("log")) == 3


@pytest.mark.parametrize("handler", HANDLERS)
def test_the_error_policy_decides_what_becomes_of_it(handler: Any) -> None:
    driver = driver_of(handler, timeout=5, error=retry(1, 10, then=park()))
    with driver.slow(6):
        driver.pipe("orders", order(1))
    assert driver.waiting("board", "a") == [1]
    driver.advance(10)
    assert driver.counts("board").processed == 1
    with driver.slow(6):
        driver.pipe("orders", order(2))
        driver.advance(10)
    assert driver.counts("board").parked == 1


def test_a_view_without_a_limit_is_not_measured() -> None:
    driver = driver_of(plain)
    with driver.slow(1e9):
        driver.pipe("orders", order(1))
    assert driver.counts("board").processed == 1


def test_an_async_handler_is_cancelled() -> None:
    ended: list[str] = []

    async def handler(event: Event) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    driver = driver_of(handler, timeout=0.01)
    driver.pipe("orders", order(1))
    assert ended == ["cancelled"]
    assert "cancelled after its limit of 0.01 s" in failure(driver)


def test_an_async_handler_that_goes_on_all_the_same_has_failed() -> None:
    async def handler(event: Event) -> list[Any]:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return [Emit("log", "k", {})]
        return []

    driver = driver_of(handler, timeout=0.01)
    driver.pipe("orders", order(1))
    assert "limit" in failure(driver)
    assert driver.read("log") == []


def test_a_time_out_of_the_handlers_own_is_its_own_error() -> None:
    async def handler(event: Event) -> None:
        raise TimeoutError("the mail server")

    driver = driver_of(handler, timeout=60)
    driver.pipe("orders", order(1))
    assert failure(driver) == "TimeoutError: the mail server"


@pytest.mark.parametrize("timeout", [0, -1, True, "5", 1e9, float("nan"), float("inf")])
def test_a_limit_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(DeclarationError, match=r"view 'board': timeout="):
        driver_of(plain, timeout=timeout)


@pytest.mark.parametrize("policies", [{"timeout": 0.001}, {}])
def test_a_handler_that_blocks_is_told_of_by_name_while_it_does(
    policies: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Blocked] = []
    twice, back = threading.Event(), threading.Event()

    def tell(view: View, blocked: Blocked) -> None:
        if blocked.sequence != 2:
            return  # on a slow machine the others take long, too
        told.append(blocked)
        if blocked.name == "unblocked":
            back.set()
        elif len(told) > 1:
            twice.set()

    def sleeps_in_here(event: Event) -> None:
        if event.sequence == 2:
            assert twice.wait(60)
            # A clock that is set meanwhile makes it neither longer nor shorter.
            monkeypatch.setattr("time.time", lambda: 0.0)

    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"), keyed=True)
    topology.view("board", of=orders, handler=sleeps_in_here, **policies)
    task = StreamTask(topology, orders, 0, DriverStorage(topology).stores)
    watchdog = Watchdog("here/1", tell, period=0.001, long=0.002)
    watchdog.start()
    try:
        for n in (1, 2, 3):
            task.process([Record("orders", 0, n, b"a", b'{"id":"a","n":%d}' % n)], 0)
        assert back.wait(60)
    finally:
        watchdog.stop()
    first, second, last = told[0], told[1], told[-1]
    assert (first.view, first.stream, first.sequence, first.name) == ("board", "a", 2, "blocked")
    assert "sleeps_in_here" in first.stack
    assert second.seconds >= 2 * first.seconds
    assert (last.name, last.sequence, last.who) == ("unblocked", 2, "here/1")
    assert last.seconds >= second.seconds
    key, value, headers = first.record()
    assert (key, headers) == (b"a", [("view", b"board")])
    assert orjson.loads(value)["timeout"] == policies.get("timeout")


def test_lanes_and_closing_views_have_limits_too() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n", "kind"))

    def handler(event: Event, state: dict[str, Any]) -> None:
        state["n"] = event.sequence

    topology.view(
        "v", of=orders, handler=handler, lane="lane", closes="end", retention=1, timeout=5
    )
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", {"id": "a", "n": 1, "kind": "x", "lane": "l"})
    with driver.slow(6):
        driver.pipe("orders", {"id": "a", "n": 2, "kind": "end", "lane": "l"})
    assert (driver.counts("v").processed, driver.counts("v").failed) == (1, 1)
    assert driver.state("v", "a|l") == {}
