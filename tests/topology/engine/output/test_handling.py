"""Handlers: what they yield becomes records, what they keep in the state stays."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson
import pytest

from tests.topology.deliveries import Arrival, batches, records
from tests.topology.handled import driver_of, order, run
from tests.topology.partition import Partition, shop
from topology import Delete, Emit, Event, Upsert

State = dict[str, Any]


def test_row_changes_of_an_event_are_one_record_in_the_documented_form() -> None:
    def handler(event: Event) -> Iterator[Upsert | Delete]:
        yield Upsert("flights", key={"id": 5}, values={"origin": "JFK", "minutes": 2.5})
        yield Delete("waiting", key={"id": 5, "leg": 0})

    driver = run(handler)
    driver.read("orders")
    (record,) = driver.read("shop.board")

    assert record.key == b"a"
    assert record.timestamp == driver.now
    assert list(record.headers) == [("view", b"board"), ("sequence", b"1")]
    assert orjson.loads(record.value or b"") == {
        "view": "board",
        "stream": "a",
        "sequence": 1,
        "changes": [
            {
                "op": "upsert",
                "table": "flights",
                "key": {"id": 5},
                "values": {"origin": "JFK", "minutes": 2.5},
            },
            {"op": "delete", "table": "waiting", "key": {"id": 5, "leg": 0}},
        ],
    }


def test_an_emitted_message_is_written_as_it_is_or_as_json() -> None:
    def handler(event: Event) -> Iterator[Emit]:
        yield Emit("log", event.stream, {"sequence": event.sequence})
        yield Emit("log", b"\xff", b"\x00raw", headers=(("trace", b"1"),))
        yield Emit("log", None, None)

    driver = run(handler)

    json, raw, null = driver.read("log")
    assert (json.key, json.value, list(json.headers)) == (b"a", b'{"sequence":1}', [])
    assert (raw.key, raw.value, list(raw.headers)) == (b"\xff", b"\x00raw", [("trace", b"1")])
    assert (null.key, null.value) == (None, None)
    assert driver.read("shop.board") == []


@pytest.mark.parametrize("result", [None, [], (), iter(())])
def test_a_handler_may_have_nothing_to_say(result: Any) -> None:
    driver = run(lambda event: result, count=2)
    assert driver.counts("board").processed == 2
    assert driver.read("shop.board") == []


def test_a_handler_may_return_a_list() -> None:
    driver = run(lambda event: [Upsert("t", {"id": 1}, {"n": event.sequence})], count=2)
    assert driver.table("t") == {(1,): {"id": 1, "n": 2}}


async def generating(event: Event, state: State) -> AsyncIterator[Upsert]:
    state["n"] = state.get("n", 0) + 1
    yield Upsert("t", {"id": event.stream}, {"n": state["n"]})


async def returning(event: Event, state: State) -> list[Upsert]:
    return [upsert async for upsert in generating(event, state)]


async def silent(event: Event) -> None:
    return None


@pytest.mark.parametrize("handler", [generating, returning])
def test_async_handlers_do_the_same(handler: Any) -> None:
    driver = run(handler, count=3)
    assert driver.table("t") == {("a",): {"id": "a", "n": 3}}
    assert driver.state("board", "a") == {"n": 3}
    assert driver.counts("board").processed == 3


def test_an_async_handler_may_return_nothing() -> None:
    assert run(silent).counts("board").processed == 1


async def test_an_async_handler_runs_under_the_driver_inside_a_running_loop() -> None:
    assert run(generating).table("t") == {("a",): {"id": "a", "n": 1}}


def test_a_handler_may_be_an_object_s_method_or_the_object() -> None:
    class Board:
        def __call__(self, event: Event) -> list[Upsert]:
            return self.method(event)

        def method(self, event: Event) -> list[Upsert]:
            return [Upsert("t", {"id": 1}, {"n": event.sequence})]

    for handler in (Board(), Board().method):
        assert run(handler).table("t") == {(1,): {"id": 1, "n": 1}}


def test_state_belongs_to_a_stream_and_survives_a_restart() -> None:
    def handler(event: Event, state: State) -> None:
        state.setdefault("seen", []).append(event.sequence)

    driver = driver_of(handler)
    for sequence, stream in ((1, "a"), (1, "b"), (2, "a")):
        driver.pipe("orders", order(sequence, stream))
    driver.restart()
    driver.pipe("orders", order(3))

    assert driver.state("board", "a") == {"seen": [1, 2, 3]}
    assert driver.state("board", "b") == {"seen": [1]}
    assert driver.state("board", "c") == {}


def test_events_that_are_not_accepted_keep_the_state() -> None:
    def handler(event: Event, state: State) -> None:
        state["last"] = event.sequence

    driver = driver_of(handler, accepts=["Placed"])
    driver.pipe("orders", order(1))
    driver.pipe("orders", order(2, kind="Other"))
    driver.restart()

    assert driver.state("board", "a") == {"last": 1}
    assert driver.last("board", "a") == 2


@pytest.mark.parametrize(
    "value", [(1, 2), datetime(2013, 1, 1, tzinfo=UTC), UUID(int=5), {1: 2}, float("nan")], ids=repr
)
def test_state_reads_the_same_wherever_batches_are_cut(value: Any) -> None:
    """A tuple comes back as a list: it must do so for the next event too, or be refused."""

    def handler(event: Event, state: State) -> Iterator[Upsert]:
        yield Upsert("t", {"id": 1}, {"found": repr(state.get("value"))})
        state["value"] = value

    cut, whole = Partition(shop(handler=handler)), Partition(shop(handler=handler))
    messages = records(Arrival("a", index, 0) for index in range(3))
    for batch in batches(messages, [1]):
        cut.feed(batch)
    whole.feed(messages)

    assert whole.values("shop.board") == cut.values("shop.board")
    assert whole.durable() == cut.durable()


def test_events_of_one_batch_see_the_state_that_the_one_before_left() -> None:
    def handler(event: Event, state: State) -> Iterator[Upsert]:
        state["sum"] = state.get("sum", 0) + event.sequence
        yield Upsert("t", {"id": event.sequence}, {"sum": state["sum"]})

    partition = Partition(shop(handler=handler))
    partition.feed(records(Arrival("a", index, 0) for index in (0, 2, 1)))

    sums = [value["changes"][0]["values"]["sum"] for value in partition.values("shop.board")]
    assert sums == [1, 3, 6]
