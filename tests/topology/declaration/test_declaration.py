"""Declarations: a topology is values, and a mistake in one names the thing and the remedy."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.only_checked import only_checked
from topology import (
    CloudEvents,
    Debezium,
    DebeziumTransactions,
    DeclarationError,
    Event,
    Headers,
    Inspector,
    Source,
    Table,
    Topology,
    adaptive,
    ask,
    contiguous,
    decimal,
    earliest_seen,
    header,
    linked,
    monotonic,
    opened_by,
    rebuild_stream,
    redeliver,
    retry,
    skip,
    spill,
    wait,
)

INSPECTOR = Inspector(stream="id", sequence="n")


def handler(event: Event) -> None:
    """Has nothing to say."""


def shop() -> tuple[Topology, Source]:
    topology = Topology("shop")
    return topology, topology.source("orders", inspector=INSPECTOR)


def mistake(declare: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    with pytest.raises(DeclarationError) as error:
        declare(*arguments, **options)
    return str(error.value)


def test_a_view_is_declared_as_a_decorator_or_by_a_call() -> None:
    topology, orders = shop()

    @topology.view("one", of=orders)
    def one(event: Event) -> None:
        """Has nothing to say."""

    topology.view("two", of="orders", handler=handler)

    assert list(topology.views) == ["one", "two"]
    assert topology.views["one"].handler is one
    assert topology.views["two"].of is orders
    assert one.__name__ == "one"


def test_defaults_are_the_documented_ones() -> None:
    topology, orders = shop()
    topology.view("board", of=orders, handler=handler)
    view = topology.views["board"]

    assert (view.buffer, view.gap, view.full, view.accepts) == (64, wait(), spill(), None)
    assert orders.sequence == contiguous(start=1, step=1)
    assert (orders.name, orders.keyed, orders.unknown) == ("orders", False, "pass")


def test_names_of_topics_follow_from_the_topology_s() -> None:
    topology, orders = shop()
    topology.view("board", of=orders, handler=handler)
    keyed = topology.source("payments", inspector=INSPECTOR, keyed=True, name="paid")

    assert topology.views["board"].output == "shop.board"
    assert orders.by_stream == "shop.orders.by-stream"
    assert keyed.by_stream == "payments"
    side = topology.malformed_topic, topology.unknown_topic
    assert side == ("shop.malformed", "shop.unknown")
    assert (topology.late_topic, topology.errors_topic) == ("shop.late", "shop.errors")


def test_views_and_sources_cannot_be_changed_from_outside() -> None:
    topology, _ = shop()
    with pytest.raises(TypeError):
        topology.views["x"] = None  # type: ignore[index]
    with pytest.raises(TypeError):
        topology.sources["x"] = None  # type: ignore[index]


@pytest.mark.parametrize("name", ["", "1st", "a b", "a/b", "ä", "a\n", "-a", "x" * 101, None, 5])
def test_a_bad_name_is_named(name: Any) -> None:
    topology, orders = shop()
    for what, text in (
        ("topology", mistake(Topology, name)),
        ("view", mistake(topology.view, name, of=orders, handler=handler)),
        ("source", mistake(topology.source, "other", inspector=INSPECTOR, name=name or "")),
    ):
        assert what in text
        assert "starts with a letter" in text


def test_two_views_of_one_name() -> None:
    topology, orders = shop()
    topology.view("board", of=orders, handler=handler)
    text = mistake(topology.view, "board", of=orders, handler=handler)
    assert "'board' exists twice" in text
    assert "own name" in text


def test_two_views_of_one_name_also_where_the_handlers_come_later() -> None:
    topology, orders = shop()

    def declare_both() -> None:
        first = topology.view("board", of=orders)
        second = topology.view("board", of=orders)
        first(handler)
        second(lambda event: [])

    assert "'board' exists twice" in mistake(declare_both)


def test_a_view_of_an_unknown_source() -> None:
    text = mistake(shop()[0].view, "board", of="payments", handler=handler)
    assert "view 'board'" in text
    assert "'payments'" in text
    assert "'orders'" in text
    assert ".source(…) first" in text


def test_a_view_of_another_topology_s_source() -> None:
    text = mistake(shop()[0].view, "board", of=shop()[1], handler=handler)
    assert "'orders' is not one of topology 'shop'" in text


@pytest.mark.parametrize("buffer", [0, -1, 1.5, "64", True, None])
def test_a_ring_without_a_slot(buffer: Any) -> None:
    topology, orders = shop()
    text = mistake(topology.view, "board", of=orders, handler=handler, buffer=buffer)
    assert f"view 'board': buffer={buffer!r}" in text
    assert "at least 1 slot" in text


def test_accepts_as_one_text() -> None:
    topology, orders = shop()
    text = mistake(topology.view, "board", of=orders, handler=handler, accepts="OUT")
    assert "accepts='OUT'" in text
    assert "{'OUT'}" in text


@pytest.mark.parametrize("accepts", [5, [5], b"OUT", [b"OUT"], {("OUT",)}])
def test_accepts_that_no_kind_can_ever_equal(accepts: Any) -> None:
    """A kind is always text: the view would silently pass everything by."""
    topology, orders = shop()
    text = mistake(topology.view, "board", of=orders, handler=handler, accepts=accepts)
    assert "view 'board'" in text
    assert "accepts" in text


@pytest.mark.parametrize(
    ("policy", "value", "remedy"),
    [
        ("gap", 15, "skip(after=…)"),
        ("gap", 0, "skip(after=…)"),
        ("gap", spill(), "wait()"),
        ("full", "spill", "spill()"),
        ("error", skip(1), "advance()"),
    ],
)
def test_a_policy_that_is_none_of_the_choices(policy: str, value: Any, remedy: str) -> None:
    topology, orders = shop()
    text = mistake(topology.view, "board", of=orders, handler=handler, **{policy: value})
    assert f"view 'board': {policy}={value!r}" in text
    assert remedy in text


def test_a_table_of_two_views() -> None:
    topology, orders = shop()
    table = Table("rows", key={"id": int}, columns={})
    topology.view("one", of=orders, handler=handler, tables=[table])
    text = mistake(topology.view, "two", of=orders, handler=handler, tables=[table])
    assert "view 'two': table 'rows' belongs to view 'one'" in text


@pytest.mark.parametrize("tables", [Table("rows", {"id": int}, {}), ["rows"], "rows", 5])
def test_tables_that_are_no_tables(tables: Any) -> None:
    topology, orders = shop()
    text = mistake(topology.view, "board", of=orders, handler=handler, tables=tables)
    assert "view 'board'" in text
    assert "tables" in text


@pytest.mark.parametrize(
    "name",
    ["late", "errors", "parked", "dead", "audit", "malformed", "unknown", "orders.by-stream"],
)
def test_a_view_whose_output_would_be_one_of_the_topology_s_own_topics(name: str) -> None:
    topology, orders = shop()
    text = mistake(topology.view, name, of=orders, handler=handler)
    assert f"view {name!r}" in text
    assert f"shop.{name}" in text


def test_a_view_whose_output_would_be_a_source_s_topic() -> None:
    """It would read what it writes, for ever."""
    topology = Topology("flights")
    movements = topology.source("flights.movements", inspector=INSPECTOR)
    text = mistake(topology.view, "movements", of=movements, handler=handler)
    assert "flights.movements" in text


ODD: list[Any] = [
    5, 1.5, float("nan"), float("inf"), -1, True, b"x", "", {}, [], [None], [[1]], object(), int,
    2**70, lambda: None,
]  # fmt: skip
"""Values that most arguments do not take; those that one does take are left out for it."""

NUMBERS = [5, 1.5]
FINE: dict[str, list[Any]] = {
    "buffer": [5], "retention": NUMBERS, "timeout": NUMBERS, "topics": [5, 2**70], "lane": [int],
    "emits": [{}, []], "tables": ["", {}, []], "partitions": [5], "keyed": [True],
    "start": [5, -1], "step": [5], "jump": [5], "settle": NUMBERS, "after": NUMBERS,
    "every": NUMBERS, "at_least": NUMBERS, "delay": NUMBERS, "limit": [5, 1.5], "times": [5],
    "backoff": NUMBERS, "columns": [{}], "precision": [5], "scale": [],  "by_table": [True],
    "previous": [int], "inspectors": [{}],
}  # fmt: skip


def view(**options: Any) -> None:
    topology, orders = shop()
    topology.view(**{"name": "b", "of": orders, "handler": handler, **options})


def source(**options: Any) -> None:
    Topology("shop").source(**{"topic": "orders", "inspector": INSPECTOR, **options})


DECLARED: list[tuple[Callable[..., Any], dict[str, Any], list[str]]] = [
    (
        view, {},
        ["accepts", "buffer", "gap", "full", "late", "error", "tables", "start", "closes",
         "reopen", "lane", "timeout", "emits", "topics", "of", "name", "handler"],
    ),
    (view, {"closes": "End"}, ["retention"]),
    (source, {}, ["topic", "inspector", "sequence", "name", "keyed", "partitions", "unknown"]),
    (Topology, {}, ["name"]),
    (Topology("shop").with_inspectors, {}, ["inspectors"]),
    (contiguous, {}, ["step", "jump"]),
    (linked, {}, ["previous"]),
    (monotonic, {}, ["settle"]),
    (skip, {}, ["after"]),
    (adaptive, {}, ["wrong_skip"]),
    (ask, {"source": "orders"}, ["source", "after", "every"]),
    (redeliver, {}, ["delay"]),
    (rebuild_stream, {}, ["limit"]),
    (retry, {"times": 1, "backoff": 1}, ["times", "backoff", "then"]),
    (earliest_seen, {}, ["after"]),
    (opened_by, {}, ["kinds"]),
    (Table, {"name": "t", "key": {"k": int}, "columns": {}}, ["name", "key", "columns"]),
    (decimal, {"precision": 5, "scale": 2}, ["precision"]),
    (header, {}, ["name"]),
    (Inspector, {"stream": "id", "sequence": "n"},
     ["stream", "sequence", "kind", "sequence_type", "stream_type"]),
    (CloudEvents, {"stream": "id"}, ["stream", "sequence", "kind", "datacontenttype"]),
    (Headers, {"stream": "id", "sequence": "n"}, ["stream", "sequence", "kind", "body"]),
    (Debezium, {}, ["version", "sequence"]),
    (DebeziumTransactions, {}, ["by_table"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("declare", "base", "argument"),
    [(declare, base, name) for declare, base, names in DECLARED for name in names],
    ids=[f"{call.__name__}-{name}" for call, _, names in DECLARED for name in names],
)
def test_no_argument_of_a_wrong_type_is_taken_or_ends_in_anything_but_a_declaration_error(
    declare: Callable[..., Any], base: dict[str, Any], argument: str
) -> None:
    fine = FINE.get(argument, [])
    if declare is rebuild_stream:
        fine = [5]
    if declare is opened_by:
        given: Callable[[Any], Any] = opened_by
    else:

        def given(value: Any) -> Any:
            return declare(**{**base, argument: value})

    # 1 is True, and 5 is 5.0.
    odd = [v for v in ODD if not any(v.__class__ is f.__class__ and v == f for f in fine)]
    for value in odd:
        with pytest.raises(DeclarationError):
            given(value)


def test_a_wrong_argument_is_named_with_its_remedy() -> None:
    topology, orders = shop()
    board: dict[str, Any] = {"name": "b", "of": orders, "handler": handler}
    views: list[tuple[dict[str, Any], str]] = [
        ({"closes": 5, "retention": 1}, "view 'b': closes=5: name the kinds as texts"),
        ({"tables": Table("t", {"k": int}, {})}, "give a list of Table(name"),
        ({"accepts": set()}, "it would handle nothing; name its kinds, or leave accepts out"),
        ({"accepts": [[1]]}, "give the kinds as texts"),
        ({"lane": lambda: 1}, "cannot be called with one event"),
        ({"buffer": 2**70}, "1000000 at most"),
    ]
    for options, words in views:
        assert words in mistake(topology.view, **board, **options)
    sources: list[tuple[dict[str, Any], str]] = [
        ({"topic": 5}, "source(topic=5): name a topic, or a list of topics"),
        ({"topic": ["a", "a"]}, "name each topic once"),
        ({"topic": "a", "keyed": "no"}, "keyed='no'; use True or False"),
    ]
    for options, words in sources:
        assert words in mistake(topology.source, inspector=INSPECTOR, **options)


def test_a_handler_s_annotations_may_name_what_only_a_type_checker_imports() -> None:
    shop = Topology("shop")
    orders = shop.source("orders", inspector=INSPECTOR)
    shop.view("board", of=orders, handler=only_checked("event: Missing, state: a.Missing"))
    assert shop.views["board"].stateful
