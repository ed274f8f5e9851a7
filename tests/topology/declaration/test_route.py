"""Routing as a stage of a topology: declared, described, and run by the test driver."""

from collections.abc import Iterator
from typing import Any

import pytest

from topology import Emit, Event, Inspector, Topology, TopologyTestDriver
from topology.model.errors import DeclarationError
from topology.model.origin_headers import REASON
from topology.routing import Endpoint, JsonKeys, RoutedSource, Rule, RuleSet, Transformation, when


def rules(*topics: str, **more: Any) -> RuleSet:
    return RuleSet(
        3,
        sources=[RoutedSource(each, ("late", "all"), module="flight") for each in topics],
        rules=[
            Rule("late", when=(when("delay", at_least=60),), to=("late", "alarms")),
            Rule("all", when=(when("delay", exists=True),), to=("archive",)),
        ],
        destinations={"late": None, "alarms": None, "archive": None},
        modules={"flight": JsonKeys({"delay": "delay"})},
        **more,
    )


def test_each_message_goes_to_its_destinations_and_names_the_version() -> None:
    shop = Topology("shop")
    shop.route("flights", rules=rules("in"), to={"archive": "everything"})
    driver = TopologyTestDriver(shop)
    driver.pipe("in", {"delay": 70}, key="A", headers=[("trace", b"1")])
    driver.pipe("in", {"delay": 5})
    driver.pipe("in", {"other": 5})
    driver.pipe("in", b"not JSON")
    late, (alarm,) = driver.read("late"), driver.read("alarms")
    assert [each.value for each in late] == [b'{"delay":70}']
    assert alarm.key == b"A"
    assert dict(alarm.headers)["sequitur-rules"] == b"3"
    assert dict(alarm.headers)["trace"] == b"1"
    assert [each.value for each in driver.read("everything")] == [b'{"delay":70}', b'{"delay":5}']
    (malformed,) = driver.read("shop.malformed")
    assert malformed.value == b"not JSON"
    assert b"JSON" in dict(malformed.headers)[REASON]


def test_what_is_put_in_order_is_routed_in_order() -> None:
    shop = Topology("shop")
    orders = shop.source("orders", inspector=Inspector("order", "n"))

    @shop.view("ordered", of=orders, emits=["in-order"])
    def ordered(event: Event) -> Iterator[Emit]:
        yield Emit("in-order", event.stream, event.message.value)

    shop.route("flights", rules=rules("in-order"))
    driver = TopologyTestDriver(shop)
    for number in (3, 1, 2):
        driver.pipe("orders", {"order": "A", "n": number, "delay": 60 + number})
    assert [each["n"] for each in driver.read_json("late")] == [1, 2, 3]


def test_an_endpoint_gets_its_format() -> None:
    csv = Transformation("csv", "json", "csv", lambda content, _: b"csv")
    found = RuleSet(
        1,
        sources=[RoutedSource("in", ("all",))],
        rules=[Rule("all", to=("table",))],
        destinations={"table": "csv"},
        transformations=[csv],
    )
    assert found.formats.endpoints == {"table": Endpoint("table", "table", "csv")}
    shop = Topology("shop")
    shop.route("tables", rules=found)
    driver = TopologyTestDriver(shop)
    driver.pipe("in", {"a": 1})
    assert [each.value for each in driver.read("table")] == [b"csv"]


def test_it_is_described_and_drawn() -> None:
    shop = Topology("shop")
    shop.route("flights", rules=rules("in", "more"))
    described = shop.describe()
    assert "Route flights: in, more (4 partitions), rules 3 as declared" in str(described)
    assert "Rule late → late, alarms" in str(described)
    assert described.as_dict()["routes"][0]["to"]["late"] == "late"
    assert '-- "late" -->' in described.mermaid()
    copied = shop.with_inspectors({}).first_stages()
    assert list(copied.routes) == ["flights"]


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda s: s.route("r", rules="rules.toml"), "give a RuleSet"),
        (lambda s: s.route("r", rules=rules("in"), to={"lat": "x"}), "did you mean 'late'"),
        (lambda s: s.route("r", rules=rules("in"), to={"late": "in"}), "that has no end"),
        (lambda s: s.route("r", rules=rules("orders")), "belongs to source 'orders'"),
        (lambda s: s.route("r", rules=rules("shop.v")), "output of one of the topology's own"),
        (lambda s: s.route("r", rules=rules("in"), to={"late": "shop.late"}), "name another"),
        (lambda s: s.route("v", rules=rules("in")), "exists twice"),
        (lambda s: [s.route(n, rules=rules("in")) for n in "ab"], "is read or written by route"),
        (
            lambda s: [
                s.route("r", rules=rules("in")),
                s.source("late", inspector=Inspector("a", "n")),
            ],
            "is read or written by route",
        ),
        (lambda s: s.route("r", rules=rules("in"), to={"late": "shop.r.control"}), "its topic"),
        (lambda s: s.route("r", rules=rules("shop.r.control")), "its topic 'shop.r.control'"),
        (lambda s: s.route("r", rules=rules("in"), trail_function=lambda: {}), "one trail"),
        (lambda s: s.route("r", rules=rules("in"), reload=lambda: None), "reload=.*2 arguments"),
    ],
)
def test_what_does_not_fit_is_refused(declare: Any, reason: str) -> None:
    shop = Topology("shop")
    orders = shop.source("orders", inspector=Inspector("order", "n"))
    shop.view("v", of=orders, handler=lambda event: None)
    with pytest.raises(DeclarationError, match=reason):
        declare(shop)


def view(shop: Topology, name: str, **more: Any) -> None:
    shop.view(name, of="orders", handler=lambda event: None, **more)


def source(shop: Topology, topic: str, name: str) -> None:
    shop.source(topic, name=name, inspector=Inspector("order", "n"))


def trails(shop: Topology) -> None:
    shop.route("r", rules=rules("in"), trails="topic", reload=lambda load, before: rules("in"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda s: s.route("r", rules=rules("in")), lambda s: view(s, "r.control")),
        (trails, lambda s: view(s, "r.trails")),
        (
            lambda s: s.route("r", rules=rules("in")),
            lambda s: view(s, "v", emits=["shop.r_control"]),
        ),
        (trails, lambda s: view(s, "v", emits=["shop.r.trails"])),
        (lambda s: s.route("r", rules=rules("in")), lambda s: source(s, "shop.r.control", "x")),
        (
            lambda s: s.route("r", rules=rules("in")),
            lambda s: s.route(
                "q",
                rules=rules("other"),
                to={
                    "late": "shop.r.control",
                    "alarms": "b",
                    "archive": "c",
                },
            ),
        ),
        (
            lambda s: source(s, "bills", "x"),
            lambda s: view(s, "v", emits=["shop.x.by-stream"]),
        ),
        (lambda s: source(s, "bills", "x"), lambda s: source(s, "shop.x_by-stream", "y")),
    ],
)
def test_the_order_of_declaration_does_not_matter_for_what_is_refused(one: Any, other: Any) -> None:
    for first, second in ((one, other), (other, one)):
        shop = Topology("shop")
        shop.source("orders", inspector=Inspector("order", "n"))
        first(shop)
        with pytest.raises(DeclarationError, match=r"shop\.(r|x).(control|trails|by-stream)"):
            second(shop)
