"""TopologyTestDriver: what a user tests a topology with."""

import asyncio
import functools
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

import topology as package
from tests.topology.handled import driver_of, order
from tests.topology.partition import INSPECTOR, board
from topology import Delete, Emit, Event, Topology, TopologyTestDriver, Upsert, skip, spill
from topology.sequencer.sequencer import Ordering


def test_the_driver_is_exported() -> None:
    assert package.TopologyTestDriver is TopologyTestDriver
    assert "TopologyTestDriver" in package.__all__
    for name in package.__all__:
        assert getattr(package, name)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(package, "Nothing")  # noqa: B009


def test_piped_values_may_be_bytes_json_or_null() -> None:
    driver = driver_of(board)
    for value in (order(1), b'{"stream": "a", "sequence": 2, "kind": "k"}', None):
        driver.pipe("orders", value)
    assert driver.last("board", "a") == 2
    assert len(driver.read("shop.malformed")) == 1


def test_key_headers_and_timestamp_reach_the_handler() -> None:
    events: list[Event] = []
    driver = driver_of(events.append)
    driver.pipe("orders", order(1), key="ü", headers=[("h", b"1")], timestamp=77)

    message = events[0].message
    assert (message.topic, message.key, message.timestamp) == ("orders", "ü".encode(), 77)
    assert list(message.headers) == [("h", b"1")]


def test_without_a_timestamp_a_message_arrives_now() -> None:
    events: list[Event] = []
    driver = driver_of(events.append)
    driver.advance(2.5)
    driver.pipe("orders", order(1))
    assert events[0].arrived == driver.now == 1_000_000_002_500


def test_a_topic_is_read_from_where_it_was_read_to() -> None:
    driver = driver_of(board)
    driver.pipe("orders", order(1))
    assert [value["sequence"] for value in driver.read_json("shop.board")] == [1]
    assert driver.read("shop.board") == []
    driver.pipe("orders", order(2))
    (record,) = driver.read("shop.board")
    assert (record.topic, record.offset) == ("shop.board", 1)
    assert driver.read("nothing") == []


def test_a_table_is_what_the_row_changes_make_of_it() -> None:
    def handler(event: Event) -> list[Upsert | Delete]:
        if event.kind == "Cancelled":
            return [Delete("t", {"id": event.stream}), Delete("t", {"id": "other"})]
        return [Upsert("t", {"id": event.stream}, {f"c{event.sequence}": event.sequence})]

    driver = driver_of(handler)
    driver.pipe("orders", order(1))
    driver.pipe("orders", order(2))
    driver.pipe("orders", order(1, stream="b"))
    assert driver.table("t") == {
        ("a",): {"id": "a", "c1": 1, "c2": 2},
        ("b",): {"id": "b", "c1": 1},
    }
    driver.pipe("orders", order(3, kind="Cancelled"))
    assert driver.table("t") == {("b",): {"id": "b", "c1": 1}}
    assert driver.table("nothing") == {}


def test_the_columns_of_a_key_may_be_written_in_any_order() -> None:
    def handler(event: Event) -> list[Upsert]:
        both = {"x": 1, "y": 2} if event.sequence % 2 else {"y": 2, "x": 1}
        return [Upsert("t", both, {"n": event.sequence})]

    driver = driver_of(handler)
    driver.pipe("orders", order(1))
    driver.pipe("orders", order(2))
    assert list(driver.table("t").values()) == [{"x": 1, "y": 2, "n": 2}]


def test_changing_a_table_that_was_looked_at_changes_nothing() -> None:
    driver = driver_of(board)
    driver.pipe("orders", order(1))
    driver.table("board")[("a",)]["last"] = 99
    driver.table("board").clear()
    assert driver.table("board")[("a",)]["last"] == 1


def test_buffers_and_view_state_can_be_looked_at() -> None:
    driver = driver_of(board, buffer=4, full=spill())
    for sequence in (1, 3, 5, 9):
        driver.pipe("orders", order(sequence))
    assert driver.last("board", "a") == 1
    assert driver.buffer("board", "a") == {3: 3, 1: 5}
    assert driver.waiting("board", "a") == [3, 5, 9]
    assert driver.counts("board").waiting == 3
    assert (driver.last("board", "new"), driver.buffer("board", "new")) == (0, {})


def test_the_clock_moves_only_when_told_to() -> None:
    driver = driver_of(board, gap=skip(after=5))
    driver.pipe("orders", order(2))
    driver.advance(4.999)
    assert driver.last("board", "a") == 0
    driver.advance(0.001)
    assert driver.last("board", "a") == 2
    assert driver.counts("board").skipped == 1


def test_a_restart_keeps_what_was_durable() -> None:
    driver = driver_of(board, gap=skip(after=5))
    for sequence in (1, 3, 4):
        driver.pipe("orders", order(sequence))
    before = driver.counts("board"), driver.buffer("board", "a"), driver.state("board", "a")
    driver.restart()
    after = driver.counts("board"), driver.buffer("board", "a"), driver.state("board", "a")
    assert after == before
    driver.advance(5)
    assert driver.last("board", "a") == 4


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_drain_of_several_steps_is_over_when_pipe_returns(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def quiet(event: Event) -> None:
        return None

    monkeypatch.setattr("topology.declaration.view.Ordering", functools.partial(Ordering, drain=2))
    driver = driver_of(board if kind == "plain" else quiet, buffer=3, full=spill())
    for sequence in range(10, 0, -1):
        driver.pipe("orders", order(sequence))

    assert driver.last("board", "a") == 10
    assert driver.counts("board").processed == 10


def test_what_the_topology_does_not_have_is_named_with_what_it_has() -> None:
    driver = driver_of(board)
    with pytest.raises(KeyError, match=r"'payments' is no source of 'shop'.*'orders'"):
        driver.pipe("payments", {})
    for look in (driver.counts, lambda name: driver.last(name, "a")):
        with pytest.raises(KeyError, match=r"'bord' is not in 'shop'.*'board'"):
            look("bord")


@pytest.mark.parametrize("keyed", [False, True])
def test_several_sources_and_views_run_in_one_driver(keyed: bool) -> None:
    topology = Topology("shop")

    def view_of(name: str) -> Any:
        return lambda event: [Upsert(name, {"id": event.stream}, {"n": event.sequence})]

    for name in ("orders", "payments"):
        source = topology.source(name, inspector=INSPECTOR, keyed=keyed)
        for view in ("one", "two"):
            topology.view(f"{name}_{view}", of=source, handler=view_of(f"{name}_{view}"))
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", order(1), key="a")
    driver.pipe("payments", order(1, stream="b"), key="b")

    for view in ("one", "two"):
        assert driver.table(f"orders_{view}") == {("a",): {"id": "a", "n": 1}}
        assert driver.table(f"payments_{view}") == {("b",): {"id": "b", "n": 1}}


def test_a_batch_is_handled_as_its_messages_one_by_one_and_over_more_than_one_unit() -> None:
    messages = [("a", order(n)) for n in (3, 1, 2, *range(5, 1_200))]
    one, many = driver_of(board), driver_of(board)
    for key, value in messages:
        one.pipe("orders", value, key=key)
    many.pipe_batch("orders", messages)
    for driver in (one, many):
        driver.pipe("orders", order(4))
    assert many.last("board", "a") == one.last("board", "a") == 1_199
    assert many.table("board") == one.table("board")
    with pytest.raises(KeyError, match="no source"):
        many.pipe_batch("nowhere", messages)


def test_counts_that_were_taken_do_not_change() -> None:
    driver = driver_of(board)
    before = driver.counts("board")
    driver.pipe("orders", order(1))
    assert (before.processed, driver.counts("board").processed) == (0, 1)
    before.processed = 99
    assert driver.audit().sound


def test_a_driver_knows_nothing_of_the_topics_that_handlers_named_in_another() -> None:
    def handler(event: Event) -> Any:
        yield Emit(f"tenant-{event.stream}", event.stream, {"n": event.sequence})

    topology = driver_of(handler).topology
    for test in range(3):
        driver = TopologyTestDriver(topology)
        for each in range(40):
            driver.pipe("orders", order(1, stream=f"{test}-{each}"))
        assert driver.counts("board").failed == 0
        assert driver.audit(contents=True).sound


TENANT = ContextVar("TENANT", default="none")


class Client:
    """What a handler calls, of the loop in which it is first used."""

    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []
        self.tenants: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def handler(self, event: Event) -> None:
        self.loops.append(asyncio.get_running_loop())
        self.tenants.append(TENANT.get())
        self.tasks.append(asyncio.create_task(asyncio.sleep(0)))

    def check(self) -> None:
        driver = driver_of(self.handler)
        TENANT.set("shop")
        for sequence in (1, 2):
            driver.pipe("orders", order(sequence))
        assert driver.counts("board").failed == 0
        assert len(set(self.loops)) == 1
        assert self.tenants == ["shop", "shop"]
        assert not self.tasks[0].cancelled()


def test_async_handlers_have_one_loop_in_the_test_s_own_thread_and_context() -> None:
    client = Client()
    client.check()
    with sqlite3.connect(":memory:") as store:  # of this thread, as SQLite wants it

        async def handler(event: Event) -> None:
            store.execute("SELECT 1")

        driver = driver_of(handler)
        driver.pipe("orders", order(1))
        assert driver.counts("board").failed == 0
    again = Client()
    again.check()
    assert again.loops == client.loops


async def test_async_handlers_have_one_loop_in_a_test_that_has_one_itself() -> None:
    client = Client()
    client.check()
    assert client.loops[0] is not asyncio.get_running_loop()


async def test_a_handler_may_drive_another_topology() -> None:
    async def first(event: Event) -> None:
        second.pipe("orders", order(event.sequence))

    second = driver_of(Client().handler)
    driver = driver_of(first)
    driver.pipe("orders", order(1))
    assert (driver.counts("board").failed, second.counts("board").processed) == (0, 1)


def test_drivers_may_run_side_by_side() -> None:
    async def handler(event: Event) -> None:
        await asyncio.sleep(0.01)

    def run(number: int) -> int:
        driver = driver_of(handler)
        for sequence in range(1, 6):
            driver.pipe("orders", order(sequence))
        return driver.counts("board").processed

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [5] * 4
