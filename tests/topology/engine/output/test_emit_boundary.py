"""What Kafka or a read store would refuse, or change in silence, fails its event before that."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from tests.topology.handled import driver_of, failure, order, run
from tests.topology.partition import INSPECTOR
from topology import (
    DeclarationError,
    Delete,
    Emit,
    Event,
    Inspector,
    Record,
    Topology,
    TopologyTestDriver,
    Upsert,
    advance,
)
from topology.declaration.emits import Emitting
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.handling import Handling
from topology.engine.output.live_cells import MemoryCells
from topology.testing import DeadRow

SIZE = 1_000_000


def deep(levels: int) -> Any:
    """A list in a list in a list, …"""
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    "emit",
    [
        Emit("log", "k" * (SIZE + 1), {}),
        Emit("log", b"k" * (SIZE + 1), None),
        Emit("log", "k" * 600_000, b"v" * 600_000),
        Emit("log", "k", b"v", headers=(("h", b"x" * (SIZE + 1)),)),
        Emit("log", "k", b"v", headers=(("h" * (SIZE + 1), b""),)),
        Emit("log", "k", b"v", headers=tuple(("h", b"x" * 1000) for _ in range(1001))),
    ],
    ids=range(6),
)
def test_keys_and_headers_count_towards_the_size_of_a_record(emit: Emit) -> None:
    assert "the limit is 1000000" in failure(run(lambda event: [emit]))


@pytest.mark.parametrize(
    ("emit", "reason"),
    [
        (Emit("log", "\ud800", {}), "the key"),
        (Emit("log", "k", {}, headers=(("\udfff", b""),)), "name of a header"),
        (Emit("\ud800", "k", {}), "topic"),
        (Emit("log\n", "k", {}), "topic"),
        (Emit("..", "k", {}), "topic"),
        (Emit("x" * 250, "k", {}), "topic"),
        (Emit("log", "k", {}, headers=((b"h", b""),)), "headers"),  # type: ignore[arg-type]
        (Emit("log", "k", {}, headers=iter([("h", b"")])), "headers"),  # type: ignore[arg-type]
        (Emit("log", "k", {}, headers={"h": b""}), "headers"),  # type: ignore[arg-type]
        (Emit("log", bytearray(b"k"), {}), "key"),  # type: ignore[arg-type]
        (Emit("log", 5, {}), "key"),  # type: ignore[arg-type]
    ],
    ids=range(11),
)
def test_what_kafka_would_refuse_is_refused_by_name(emit: Emit, reason: str) -> None:
    assert reason in failure(run(lambda event: [Emit("log", "k", {}), emit]))


@pytest.mark.parametrize(
    "topic",
    [
        "shop.board",
        "shop.board.commands",
        "shop.board.redeliver",
        "shop.orders.by-stream",
        "shop.malformed",
        "shop.unknown",
        "shop.late",
        "shop.errors",
        "shop.parked",
        "shop.dead",
        "shop.audit",
        "shop.dead-records",
        "shop-board-changelog",
        "other-group-board-changelog",
        "shop_board",
    ],
)
def test_the_topologys_own_topics_are_its_own(topic: str) -> None:
    assert "of the topology itself" in failure(run(lambda event: [Emit(topic, "k", {})]))


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__mine"])
def test_no_message_is_sent_to_a_topic_of_kafkas_own(topic: str) -> None:
    error = failure(run(lambda event: [Emit("log", "k", {}), Emit(topic, "k", {})]))
    assert "Kafka's own topics; name another topic" in error
    with pytest.raises(DeclarationError, match="Kafka's own topics; name another topic"):
        driver_of(lambda event: None, emits=["log", topic])


@pytest.mark.parametrize(
    "topic", ["shop.board", "shop_board", "shop.board.redeliver", "shop.late", "shop.dead-records"]
)
def test_a_view_cannot_declare_that_it_sends_to_the_topologys_own_topics(topic: str) -> None:
    with pytest.raises(DeclarationError, match=r"of the topology itself.*; name another topic"):
        driver_of(lambda event: None, emits=[topic])


def test_a_view_whose_output_another_one_sends_to_cannot_be_declared() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("stream", "sequence"))
    topology.view("board", of=orders, handler=lambda event: None, emits=["shop.money"])
    with pytest.raises(DeclarationError, match="which has another use; rename"):
        topology.view("money", of=orders, handler=lambda event: None)


@pytest.mark.parametrize("topic", ["orders", "shop.mine", "shop.board.mine", "payments-changelog"])
def test_other_topics_are_not_sources_included(topic: str) -> None:
    driver = run(lambda event: [Emit(topic, "k", {})])
    assert driver.counts("board").processed == 1
    assert len(driver.read(topic)) == (2 if topic == "orders" else 1)


def test_topics_without_number_taken_from_data_are_refused_with_the_remedy() -> None:
    driver = driver_of(lambda event: [Emit(f"to-{event.sequence}", "k", {})], topics=5)
    for sequence in range(1, 9):
        driver.pipe("orders", order(sequence))
    assert (driver.counts("board").processed, driver.counts("board").failed) == (5, 3)
    error = driver.read_json("shop.errors")[0]["error"]
    assert "'board' has named 5 topics" in error
    assert "emits=['to-6'" in error
    driver.pipe("orders", order(9, stream="b"))
    again = driver_of(
        lambda event: [Emit(f"to-{event.sequence}", "k", {})], emits=["to-1", "to-2"], topics=1
    )
    for sequence in range(1, 5):
        again.pipe("orders", order(sequence))
    assert (again.counts("board").processed, again.counts("board").failed) == (3, 1)


def test_a_hundred_topics_are_enough_unless_more_are_declared() -> None:
    emitting = Emitting("v")
    for number in range(100):
        emitting.admit(f"t{number}")
        emitting.name([f"t{number}"])
        emitting.admit(f"t{number}")
    with pytest.raises(TypeError, match="named 100 topics"):
        emitting.admit("t100")


def test_the_topics_of_an_event_that_failed_do_not_count() -> None:
    def handler(event: Event) -> Iterator[Emit]:
        for number in range(150 if event.sequence == 1 else 3):
            yield Emit(f"e{event.sequence}-{number}", "k", {})

    driver = run(handler, 2)
    assert (driver.counts("board").processed, driver.counts("board").failed) == (1, 1)
    assert len(driver.read("e2-2")) == 1


def test_two_names_that_kafka_takes_for_one_are_refused() -> None:
    driver = run(lambda event: [Emit("a.b" if event.sequence == 1 else "a_b", "k", {})], 2)
    assert "Kafka takes the two names for one" in failure(driver)


@pytest.mark.parametrize(
    "wrong",
    [
        {"emits": "payments"},
        {"emits": [None]},
        {"emits": ["a b"]},
        {"emits": 5},
        {"topics": -1},
        {"topics": True},
        {"topics": "9"},
    ],
    ids=str,
)
def test_a_wrong_declaration_of_topics_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match=r"view 'board': (emits|topics)"):
        driver_of(lambda event: None, **wrong)


@dataclass
class Price:
    amount: float


NAN, INFINITE = math.nan, math.inf
LOST: list[tuple[Any, str]] = [
    (Upsert("t", {"id": 1}, {"ok": None, "price": NAN}), "column 'price': nan"),
    (Upsert("t", {"id": 1}, {"price": -INFINITE}), "column 'price': -inf"),
    (Upsert("t", {"id": INFINITE}, {}), "column 'id': inf"),
    (Delete("t", {"id": NAN}), "column 'id': nan"),
    (Upsert("t", {"id": 1}, {"lines": [{"n": 1.5}, {"n": NAN}]}), "column 'lines'"),
    (Upsert("t", {"id": 1}, {"price": np.float32("nan")}), "column 'price': nan"),
    (Upsert("t", {"id": 1}, {"prices": np.array([1.0, np.inf])}), "column 'prices'"),
    (Upsert("t", {"id": 1}, {"price": Price(NAN)}), "column 'price'"),
    (Emit("log", "a", NAN), "Emit(topic='log'): the value is nan"),
    (Emit("log", "a", {"x": [None, NAN]}), "x[1] is nan"),
    (Emit("log", "a", (1.0, {"y": INFINITE})), "[1].y is inf"),
]


@pytest.mark.parametrize(("item", "where"), LOST, ids=lambda value: str(value)[:40])
def test_what_is_no_number_does_not_become_null_without_a_word(item: Any, where: str) -> None:
    driver = run(lambda event: [Upsert("t", {"id": 0}, {}), item])
    assert where in failure(driver)
    assert driver.table("t") == {}


def test_a_state_with_what_is_no_number_fails_its_event_and_stays_as_it_was() -> None:
    def handler(event: Event, state: dict[str, Any]) -> None:
        state["sum"] = {"n": event.sequence, "of": [None, NAN if event.sequence == 2 else 1.0]}

    driver = run(handler, 2)
    assert "the stream's state: sum.of[1] is nan" in failure(driver)
    assert driver.state("board", "a") == {"sum": {"n": 1, "of": [None, 1.0]}}


def test_none_and_texts_that_say_null_are_what_they_are() -> None:
    values = {"a": None, "b": "null", "c": [None, {"d": None}], "e": 1.5}
    driver = run(lambda event: [Upsert("t", {"id": 1}, values), Emit("log", "a", values)])
    assert driver.counts("board").processed == 1
    assert driver.read_json("shop.board")[0]["changes"][0]["values"] == values
    assert driver.read_json("log") == [values]


@pytest.mark.parametrize("part", ["key", "values"])
def test_a_column_that_is_null_is_named(part: str) -> None:
    given: dict[str, dict[Any, int]] = {"key": {"id": 1}, "values": {"n": 1}}
    given[part] = {"id": 1, None: 2}
    error = failure(run(lambda event: [Upsert("t", **given)]))
    assert "table 't': column None" in error


def test_views_with_the_same_topics_are_told_apart() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("stream", "sequence"))
    for name in ("one", "two"):
        handler = (lambda each: lambda event: [Emit(f"{each}-{event.sequence}", "k", {})])(name)
        topology.view(name, of=orders, handler=handler, topics=2)
    driver = TopologyTestDriver(topology)
    for sequence in (1, 2, 3):
        driver.pipe("orders", order(sequence))
    assert [driver.counts(name).failed for name in ("one", "two")] == [1, 1]
    copy = topology.with_inspectors({"orders": Inspector("stream", "sequence")})
    assert copy.views["one"].emitting is topology.views["one"].emitting


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            {"a": object()},
            "a cannot be written as JSON: Type is not JSON serializable: object; give t",
        ),
        (
            {1, 2},
            "the value cannot be written as JSON: Type is not JSON serializable: set; give a list",
        ),
        (2**65, "the value cannot be written as JSON: Integer exceeds 64-bit range; give a text"),
        (
            {"lines": [{"price": Decimal("9.5")}]},
            "lines[0].price cannot be written as JSON: Type is not JSON serializable: "
            "decimal.Decimal; give str(…) of it",
        ),
        ({"a": [1, b"x"]}, "a[1] cannot be written as JSON: Type is not JSON serializable: bytes"),
        ({"a": {("x", 1): 2}}, "a cannot be written as JSON: Dict key must a type serializable"),
        (
            {"a": deep(3000)},
            "a cannot be written as JSON: Recursion limit reached; keep it flatter",
        ),
        ({"a\x1b": 2**70}, r"a\x1b cannot be written as JSON: Integer exceeds"),
    ],
)
def test_a_message_that_cannot_be_written_says_where_why_and_what_to_give(
    value: Any, reason: str
) -> None:
    error = failure(run(lambda event: [Emit("log", "k", value)]))
    assert f"Emit(topic='log'): {reason}" in error


@pytest.mark.parametrize(
    "value", [{1: "a", "1": "b"}, [{"x": {1: "a", "1": "b"}}]], ids=["outer", "inner"]
)
def test_a_message_whose_keys_are_one_in_json_loses_no_value_without_a_word(value: Any) -> None:
    error = failure(run(lambda event: [Emit("log", "k", value)]))
    assert "Emit(topic='log'): the keys 1 and '1' are one in JSON; name each by a text" in error


def test_a_message_may_have_keys_that_are_no_texts() -> None:
    driver = run(lambda event: [Emit("log", "k", {1: "a", "b": {2: "c"}})])
    assert driver.read("log")[0].value == b'{"1":"a","b":{"2":"c"}}'


@pytest.mark.parametrize(
    ("value", "where", "remedy"),
    [
        (b"x", "total", "give a text, as Base64 is one"),
        ({1: 2}, "total", "name each value by a text"),
        (2**65, "total", "give a text"),
        ("\ud800", "total", "leave the surrogates out"),
        ([object()], "total[0]", "give texts"),
        (deep(3000), "total", "keep it flatter"),
        (10**5000, "total", "give a text"),
    ],
    ids=range(7),
)
def test_a_state_that_cannot_be_written_says_where_why_and_what_to_keep(
    value: Any, where: str, remedy: str
) -> None:
    def handler(event: Event, state: dict[str, Any]) -> None:
        state |= {"fine": 1, "total": value}

    error = failure(run(handler))
    assert f"the stream's state: {where} cannot be written as JSON: " in error
    assert f"; {remedy}" in error


def test_a_state_names_the_key_that_is_no_text() -> None:
    def handler(event: Event, state: dict[Any, Any]) -> None:
        state[5] = 1

    error = failure(run(handler))
    assert "the stream's state: the value cannot be written as JSON: Dict key must be str" in error
    assert "; name each value by a text, not by 5" in error


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (10**5000, "yield a Decimal where the column is of Decimal, or a text"),
        (2**64, "yield a Decimal where the column is of Decimal, or a text"),
        (deep(3000), "keep it flatter"),
        ({1, 2}, "give a list"),
        ([{"x": "\ud800"}], "leave the surrogates out"),
    ],
    ids=range(5),
)
def test_a_row_change_that_cannot_be_written_says_what_to_yield_and_the_driver_is_red(
    value: Any, remedy: str
) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    topology.view("board", of=orders, handler=lambda event: [Upsert("t", {"k": 1}, {"v": value})])
    with pytest.raises(DeadRow, match="table 't': column 'v': ") as red:
        TopologyTestDriver(topology).pipe("orders", order(1))
    assert f"; {remedy}" in str(red.value)


def test_headers_may_be_a_list() -> None:
    driver = run(lambda event: [Emit("log", "k", {}, headers=[("a", b"x")])])
    assert driver.read("log")[0].headers == (("a", b"x"),)


def test_what_kafka_refused_of_an_event_is_remembered_until_its_failure_is_committed() -> None:
    """Forgotten before, two of a unit were refused in turns, for ever."""
    emitting = Emitting("board")
    emitting.refused["a", 1] = "too large"
    assert emitting.refusal("a", 1) == "too large"
    assert emitting.refusal("a", 1) is None
    emitting.uncommitted()
    assert emitting.refusal("a", 1) == "too large"
    emitting.failing.clear()
    emitting.uncommitted()
    assert emitting.refusal("a", 1) is None


def test_an_event_whose_message_kafka_refuses_is_not_tried_row_by_row() -> None:
    """Tried again without its rows that fail, it would have sent the message again, for ever."""
    tried: list[int] = []

    def handler(event: Event, state: dict[str, Any], cells: Any) -> Iterator[Emit]:
        tried.append(event.sequence)
        yield Emit("out", event.stream, {})

    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    topology.view("board", of=orders, handler=handler, error=advance())
    view = replace(topology.views["board"], by_row=True)
    view.emitting.refused["a", 1] = "Kafka refuses it"
    unit = CommitUnit("orders", 0)
    handling = Handling(view, unit, lambda stream: None, stored=MemoryCells())
    handling.run([Event("a", 1, None, None, Record("orders", 0, 0, b"a", b"{}"))])
    assert (tried, handling.failed, unit.sent) == ([1], 1, [])
