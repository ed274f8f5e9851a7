"""Failing handlers: logged with all detail, passed, and nothing of the event is left behind."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest

from tests.topology.deliveries import Arrival, records
from tests.topology.handled import driver_of, order, run
from tests.topology.partition import Partition, shop
from topology import Emit, Event, Message, Record, Topology, Upsert

State = dict[str, Any]


def midway(event: Event, state: State) -> Iterator[Upsert | Emit]:
    state["n"] = state.get("n", 0) + 1
    yield Upsert("t", {"id": event.stream}, {"n": state["n"]})
    yield Emit("log", event.stream, {"n": state["n"]})
    state.setdefault("seen", []).append(event.sequence)
    if event.sequence % 2 == 0:
        raise ValueError("even")
    yield Emit("log", "other", {"n": state["n"]})


async def async_midway(event: Event, state: State) -> AsyncIterator[Upsert | Emit]:
    for item in midway(event, state):
        yield item


@pytest.mark.parametrize("handler", [midway, async_midway])
def test_a_handler_that_fails_midway_leaves_nothing_of_its_event(handler: Any) -> None:
    driver = run(handler, count=4)

    assert [value["sequence"] for value in driver.read_json("shop.board")] == [1, 3]
    assert [value["n"] for value in driver.read_json("log")] == [1, 1, 2, 2]
    assert driver.state("board", "a") == {"n": 2, "seen": [1, 3]}
    assert (driver.counts("board").processed, driver.counts("board").failed) == (2, 2)
    assert driver.last("board", "a") == 4


def test_state_is_rolled_back_also_within_a_batch() -> None:
    partition = Partition(shop(handler=midway))
    partition.feed(records(Arrival("a", index, 0) for index in range(5)))

    assert partition.view().state.stream_state("a") == b'{"n":3,"seen":[1,3,5]}'
    partition.crash()
    assert partition.view().state.stream_state("a") == b'{"n":3,"seen":[1,3,5]}'


def test_a_stream_whose_first_event_fails_has_no_state() -> None:
    def handler(event: Event, state: State) -> None:
        state["n"] = 1
        raise ValueError("no")

    driver = run(handler)
    assert driver.state("board", "a") == {}
    assert driver.last("board", "a") == 1


def test_the_error_log_has_all_detail() -> None:
    def unlucky(event: Event) -> None:
        raise LookupError("no such flight: Zürich")

    driver = driver_of(unlucky)
    driver.pipe("orders", order(2), key="k")
    driver.pipe("orders", order(1), key="k")
    record, _ = driver.read("shop.errors")
    report = orjson.loads(record.value or b"")

    assert (record.key, list(record.headers)) == (b"a", [("view", b"board")])
    assert report["view"] == "board"
    assert (report["stream"], report["sequence"], report["kind"]) == ("a", 1, "Placed")
    assert report["position"] == {"topic": "orders", "partition": 0, "offset": 1}
    assert report["error"] == "LookupError: no such flight: Zürich"
    assert "in unlucky" in report["traceback"]
    assert report["done"] == "advance"
    assert report["value"] == '{"stream":"a","sequence":1,"kind":"Placed"}'


def test_a_failure_is_reported_for_the_process_s_log() -> None:
    def unlucky(event: Event) -> None:
        raise LookupError("no such flight")

    partition = Partition(shop(handler=unlucky))
    partition.feed(records([Arrival("a", 0, 0)]))

    (report,) = partition.reports
    for part in ("view board", "stream a", "sequence 1", "orders/0 offset 0", "no such flight"):
        assert part in report


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [
        RecursionError("deep"),
        StopIteration("done"),
        AssertionError(),
        Exception("\ud800\0"),
        _Mute(),
        ExceptionGroup("both", [ValueError("one"), TypeError("two")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_is_logged_and_passed(error: Exception) -> None:
    def handler(event: Event) -> None:
        raise error

    driver = run(handler, count=2)
    assert driver.counts("board").failed == 2
    assert type(error).__name__ in driver.read_json("shop.errors")[0]["error"]


def test_a_report_is_never_larger_than_a_record_may_be() -> None:
    def handler(event: Event) -> None:
        raise ValueError("😀" * 300_000)

    driver = driver_of(handler)
    driver.pipe("orders", order(1, note="😀" * 200_000))
    (record,) = driver.read("shop.errors")
    assert len(record.value or b"") <= 1_000_000


def test_a_body_that_is_no_text_is_logged_as_far_as_it_is() -> None:
    def inspect(message: Message) -> Any:
        return message.key, 1, "placed", message.value

    def failing(event: Event) -> None:
        raise ValueError("no")

    topology = Topology("shop")
    orders = topology.source("orders", inspector=inspect, keyed=True)
    topology.view("board", of=orders, handler=failing)
    partition = Partition(topology)
    partition.feed([Record("orders", 0, 0, b"a", b"\xff\x00ok")])

    (report,) = partition.values("shop.errors")
    assert "ok" in report["value"]


def test_a_null_body_that_an_inspector_takes_may_fail_too() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=lambda m: (m.key, 1, None, None), keyed=True)
    topology.view("board", of=orders, handler=lambda event: event.content["x"])
    partition = Partition(topology)
    partition.feed([Record("orders", 0, 0, b"a", None)])

    (report,) = partition.values("shop.errors")
    assert report["value"] is None
