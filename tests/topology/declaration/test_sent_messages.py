"""The verbs on what a view sends: declared, described, and run in the view's own commit unit."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.examples import some
from topology import Emit, Event, Inspector, State, Topology, TopologyTestDriver, Upsert, park
from topology.model.errors import DeclarationError
from topology.routing import JsonKeys, RoutedSource, Rule, RuleSet, Transformation, when


def upper(content: bytes, _: Any) -> bytes:
    return content.upper()


def semicolons(content: bytes, _: Any) -> bytes:
    return b";".join(str(each).encode() for each in orjson.loads(content).values())


def fails(content: bytes, _: Any) -> bytes:
    raise ValueError("no such page")


CSV = Transformation("to-csv", "json", "csv", semicolons)
LOUD = Transformation("loud", "csv", "csv", upper)


def rules(*topics: str, **more: Any) -> RuleSet:
    return RuleSet(
        3,
        sources=[RoutedSource(each, ("large", "all"), module="order") for each in topics],
        rules=[
            Rule("large", when=(when("amount", over=100),), to=("large", "checked")),
            Rule("all", when=(when("amount", over=10),), to=("archive",)),
        ],
        destinations={"large": "csv", "checked": None, "archive": None},
        modules={"order": JsonKeys({"amount": "amount"})},
        transformations=[CSV],
        **more,
    )


def shop() -> tuple[Topology, Any]:
    made = Topology("shop")
    return made, made.source("orders", inspector=Inspector("order", "n"))


@settings(max_examples=some(40))
@given(st.permutations(range(1, 8)), st.booleans())
def test_whatever_the_order_of_arrival_each_destination_has_its_messages_in_sequence(
    arrived: list[int], restart: bool
) -> None:
    topology, orders = shop()
    topology.view("sizes", of=orders).route(rules("orders")).to({"archive": "everything"})
    driver = TopologyTestDriver(topology)
    amounts = {n: random.Random(n).choice([5, 50, 500]) for n in arrived}
    for at, n in enumerate(arrived):
        if restart and at == 3:
            driver.restart()
        driver.pipe("orders", {"order": "A", "n": n, "amount": amounts[n]}, headers=[("t", b"1")])
    for topic, least in (("everything", 10), ("checked", 100)):
        found = driver.read(topic)
        expected = [n for n in sorted(arrived) if amounts[n] > least]
        assert [orjson.loads(each.value or b"")["n"] for each in found] == expected
        assert all(each.key == b"A" for each in found)
        assert all(dict(each.headers)["sequitur-rules"] == b"3" for each in found)
        assert all(dict(each.headers)["t"] == b"1" for each in found)
    large = [each.value for each in driver.read("large")]
    assert large == [b"A;%d;500" % n for n in sorted(arrived) if amounts[n] > 100]
    assert driver.counts("sizes").unrouted == sum(each == 5 for each in amounts.values())


def test_what_a_handler_sends_is_routed_in_the_unit_of_its_rows_and_not_written() -> None:
    topology, orders = shop()

    sizes = topology.view("sizes", of=orders, emits=["in-order", "mail"])

    @sizes
    def totals(event: Event, state: State) -> Iterator[Upsert | Emit]:
        state["paid"] = paid = state.get("paid", 0) + event.content["amount"]
        yield Upsert("totals", {"order": event.stream}, {"paid": paid})
        yield Emit("in-order", event.stream, {"amount": paid})
        yield Emit("mail", event.stream, {"paid": paid})

    sizes.route(rules("in-order")).to()
    sizes.sent_to("mail").transform(CSV, LOUD).to("letters")
    driver = TopologyTestDriver(topology)
    for n, amount in ((2, 90), (1, 50)):
        driver.pipe("orders", {"order": "a", "n": n, "amount": amount})
    assert driver.read_json("archive") == [{"amount": 50}, {"amount": 140}]
    assert [each.value for each in driver.read("letters")] == [b"50", b"140"]
    assert driver.read("in-order") == driver.read("mail") == []
    assert driver.table("totals") == {("a",): {"order": "a", "paid": 140}}


def test_a_message_that_fails_is_its_events_failure_with_the_trail() -> None:
    topology, orders = shop()
    broken = Transformation("page", "json", "xml", fails)
    topology.view("sizes", of=orders, error=park()).route(
        RuleSet(
            1,
            sources=[RoutedSource("orders", ("all",))],
            rules=[Rule("all", when=(when("amount", over=100),), to=("pages",))],
            destinations={"pages": "xml"},
            transformations=[broken],
        )
    ).to()
    driver = TopologyTestDriver(topology)
    for n, amount in ((1, 5), (2, 500), (3, 7)):
        driver.pipe("orders", {"order": "a", "n": n, "amount": amount})
    counts = driver.counts("sizes")
    assert (counts.processed, counts.parked, counts.unrouted) == (1, 2, 1)
    (error,) = driver.read_json("shop.errors")
    assert "transformation 'page' failed: ValueError: no such page" in error["error"]


def test_each_path_has_the_message_as_it_was_sent() -> None:
    topology, orders = shop()
    view = topology.view("sizes", of=orders)
    view.transform(
        Transformation("same", "json", "json", lambda body, _: body.replace(b"500", b"501"))
    ).route(rules("orders")).to()
    view.sent_to("orders").to("copies")
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", {"order": "a", "n": 1, "amount": 500})
    (copy,) = driver.read("copies")
    assert orjson.loads(copy.value or b"")["amount"] == 500


def test_it_is_described_drawn_and_travels() -> None:
    topology, orders = shop()
    topology.view("sizes", of=orders).route(rules("orders")).to()
    topology.view("csv", of=orders).transform(CSV, LOUD).to("orders-csv")
    described = topology.describe()
    assert "Messages of view sizes sent to orders (4 partitions), rules 3 as declared" in str(
        described
    )
    assert "Messages of view csv that it sends (4 partitions), transform to-csv" in str(described)
    assert "Rule large → large, checked" in str(described)
    drawn = described.mermaid()
    assert '-- "large" --> t_checked[/"checked"/]' in drawn
    assert "v_sizes --> " in drawn
    assert '"csv<br/>to-csv<br/>loud"' in drawn
    sent = cloudpickle.dumps(topology.with_inspectors({}))  # type: ignore[no-untyped-call]
    copied = cloudpickle.loads(sent)
    assert str(copied.describe()) == str(described)


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda v: v.route("rules.toml"), "give a RuleSet"),
        (lambda v: v.route(rules("orders")).route(rules("orders")), "twice"),
        (lambda v: v.route(rules("in")).to(), "source's topics are orders"),
        (lambda v: v.route(rules("orders")).to("one"), "give {destination: topic}"),
        (lambda v: v.route(rules("orders")).to({"larg": "x"}), "did you mean 'large'"),
        (lambda v: v.route(rules("orders")).to({"large": "shop.late"}), "alone may write"),
        (lambda v: v.route(rules("orders")).transform(LOUD).to(), "but gets 'json' for"),
        (lambda v: v.route(rules("orders")).transform("to-cvs"), "one of to-csv"),
        (lambda v: v.transform(CSV).route(rules("orders")), "but the rules read 'json'"),
        (lambda v: v.transform(LOUD, Transformation("j", "json", "x", upper)), "but gets 'csv'"),
        (lambda v: v.transform("to-csv"), "give a Transformation"),
        (lambda v: v.transform(CSV).sent_to("orders"), "before the other verbs"),
        (lambda v: v.sent_to("x").route(rules("orders")), "do not read that topic"),
        (lambda v: v.transform(CSV).to(), "need route"),
    ],
)
def test_what_does_not_fit_is_refused(declare: Callable[[Any], Any], reason: str) -> None:
    topology, orders = shop()
    with pytest.raises(DeclarationError, match=reason):
        declare(topology.view("v", of=orders))
