"""A test is red where the row would be dead in the read store."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.topology.partition import INSPECTOR
from topology import (
    Delete,
    Event,
    Table,
    Topology,
    TopologyTestDriver,
    Upsert,
    park,
    redeliver,
    retry,
    skip,
)
from topology.testing import DeadRow

T = Table(
    "t",
    key={"id": int, "part": str},
    columns={
        **{"n": int, "text": str, "price": Decimal, "at": datetime, "day": date, "raw": bytes},
        **{"doc": dict, "tags": list, "x": float},
    },
)
KEY = {"id": 1, "part": "a"}
ORDER = {"stream": "a", "sequence": 1, "kind": "k"}


def driver_of(*changes: Upsert | Delete, error: Any = None, **options: Any) -> TopologyTestDriver:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    more = {} if error is None else {"error": error}
    topology.view("board", of=orders, handler=lambda event: changes, tables=[T], **more)
    return TopologyTestDriver(topology, **options)


def upsert(key: Any = KEY, table: str = "t", **values: Any) -> Upsert:
    return Upsert(table, key, values)


DEAD: list[tuple[Upsert | Delete, str]] = [
    (upsert(n=2**63), "more than 64 bits"),
    (upsert(n=-(2**63) - 1), "64"),
    (upsert(n=2**70), "64-bit"),
    (upsert(n=10**5000), "column 'n': int of 16610 bits"),
    (upsert(n="1"), "'1' is no int"),
    (upsert(n=datetime(2026, 1, 1, tzinfo=UTC)), "is no int"),
    (upsert(text="a\0b"), "NUL"),
    (upsert(text="\ud800"), "surrogates"),
    (upsert(price=1.5), "a float is not exact"),
    (upsert(price=Decimal("1e30")), "more than 20 digits before the point"),
    (upsert(price=Decimal("1e-30")), "more than 18 digits after the point"),
    (upsert(price=Decimal("NaN")), "no number"),
    (upsert(at=datetime(2026, 1, 1)), "no time zone"),
    (upsert(at="yesterday"), "no datetime"),
    (upsert(at=date(2026, 1, 1)), "no datetime"),
    (upsert(day=datetime(2026, 1, 1, tzinfo=UTC)), "no date"),
    (upsert(raw="no base64"), "no bytes"),
    (upsert(doc=[1]), "no dict"),
    (upsert(doc={"a": "\0"}), "NUL"),
    (upsert(tags={"a": 1}), "no list"),
    (upsert(x=float("nan")), "no number"),
    (upsert(x=float("inf")), "no number"),
    (upsert(x="1"), "no float"),
    (upsert(x=2**53 + 1), "more than 53 bits; declare the column as int"),
    (upsert(doc={"a": [float("nan")]}), "no number"),
    (upsert({"id": 1}), "primary key is (id, part)"),
    (upsert({"id": 1, "part": "a", "n": 5}), "primary key is (id, part)"),
    (upsert({"id": 1, "part": None}), "primary key is (id, part)"),
    (upsert({"id": "x", "part": "a"}), "'x' is no int"),
    (upsert({"id": 1, "part": "k" * 3_000}), "a key of 3008 bytes"),
    (Delete("t", {"id": "x", "part": "a"}), "'x' is no int"),
    (Delete("t", {"part": "a"}), "primary key is"),
    (upsert(part="b"), "values change the key column 'part'"),
    (upsert(Text="x"), "one name"),
    (Upsert("t", KEY, {"c" * 64: 1}), "63 bytes"),
    (upsert(table="T"), "'t' already"),
    (upsert(table="_t"), "the store's own"),
    (upsert(table="t" * 64), "63 bytes"),
    (upsert(key={"id": [1]}, table="other"), "key value"),
    (upsert(xmin=1), "column 'xmin': every table of the store has one so called"),
    (upsert({"ctid": 1}, table="other"), "column 'ctid'"),
    (upsert(table="pg_class"), "names that start with pg_ are the database's own"),
    (upsert({f"k{n}": n for n in range(33)}, table="other"), "a key of 33 columns"),
]


@pytest.mark.parametrize(("change", "reason"), DEAD)
def test_a_row_that_would_be_dead_makes_the_test_red(change: Any, reason: str) -> None:
    with pytest.raises(DeadRow) as error:
        driver_of(change).pipe("orders", ORDER)
    assert reason in str(error.value)


@pytest.mark.parametrize(("change", "reason"), DEAD)
def test_without_strict_it_is_set_aside_as_a_sink_does(change: Any, reason: str) -> None:
    driver = driver_of(upsert(n=1), change, strict=False)
    driver.pipe("orders", ORDER)
    assert driver.table("t") == {}
    if dead := driver.dead_records:  # the others are failures of the handler
        ((topic, partition, offset, why, value),) = dead
        assert (topic, partition, offset) == ("shop.board", 0, 0)
        assert reason in why
        assert value == driver.read("shop.board")[0].value
    else:
        assert driver.counts("board").failed == 1
        assert reason in driver.read_json("shop.errors")[0]["error"]


def test_the_table_has_the_values_of_the_declared_types() -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    values = {
        **{"n": 5.0, "text": 7, "price": Decimal("1.50"), "at": at, "day": at.date()},
        **{"raw": b"\0", "doc": {"a": [1]}, "tags": ["x"], "x": 1, "later": {"b": 2}},
    }
    driver = driver_of(Upsert("t", {"part": "a", "id": 1.0}, values))
    driver.pipe("orders", ORDER)
    assert driver.table("t") == {
        (1, "a"): {**KEY, **values, "n": 5, "text": "7", "later": '{"b":2}'}
    }
    assert driver.dead_records == []


@pytest.mark.parametrize(
    ("store", "dead"), [("any", 5), ("sqlite", 0), ("postgresql", 4), ("delta", 1)]
)
def test_the_rules_are_those_of_the_store_that_is_named(store: Any, dead: int) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    changes = [
        upsert(text="a\0"),
        upsert({"id": 1, "part": "k" * 3_000}),
        upsert(table="new", inferred=2**53 + 1),
        upsert(xmin=1),
        upsert(table="pg_user"),
    ]

    def handler(event: Event) -> list[Upsert]:
        return [changes[event.sequence - 1]]

    topology.view("board", of=orders, handler=handler, tables=[T])
    driver = TopologyTestDriver(topology, store=store, strict=False)
    for sequence in range(1, 1 + len(changes)):
        driver.pipe("orders", {**ORDER, "sequence": sequence})
    assert len(driver.dead_records) == dead
    with pytest.raises(ValueError, match="sqlite, postgresql, delta"):
        TopologyTestDriver(topology, store="mysql")  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [park(), retry(3, backoff=1)])
@pytest.mark.parametrize("bad", [upsert(x=float("nan")), upsert(at=datetime(2026, 1, 1))])
def test_a_refused_value_is_red_whatever_the_error_policy_is(bad: Upsert, error: Any) -> None:
    with pytest.raises(DeadRow, match="view 'board' stream 'a' sequence 1: table 't': column"):
        driver_of(bad, error=error).pipe("orders", ORDER)


def test_it_is_told_once_and_also_of_what_time_brings() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    handler: Callable[[Event], list[Upsert]] = lambda event: [upsert(n="no int")]  # noqa: E731
    topology.view("board", of=orders, handler=handler, tables=[T], gap=skip(after=5))
    driver = TopologyTestDriver(topology)
    driver.pipe("orders", {**ORDER, "sequence": 2})
    driver.pipe("orders", {**ORDER, "sequence": 3})
    with pytest.raises(DeadRow, match=r"shop.board offset 0: .*no int.*\(and 1 more\)"):
        driver.advance(5)
    driver.advance(5)
    assert [dead.offset for dead in driver.dead_records] == [0, 1]


def test_a_row_of_a_copy_of_a_record_is_not_applied_again() -> None:
    driver = driver_of(upsert(n=1))
    driver.pipe("orders", ORDER)
    driver.pipe("orders", ORDER)
    assert driver.table("t") == {(1, "a"): {**KEY, "n": 1}}


def test_a_row_that_redriving_brings_about_is_told_at_once() -> None:
    def handler(event: Event) -> list[Upsert]:
        return [upsert(n="three" if event.sequence == 3 else 1)]

    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    full = redeliver(delay=1, limit=2)
    topology.view("board", of=orders, handler=handler, tables=[T], buffer=2, full=full)
    driver = TopologyTestDriver(topology)
    for sequence in (2, 3, 1):
        driver.pipe("orders", ORDER | {"sequence": sequence})
        driver.advance(1000)
    assert (driver.counts("board").dead, driver.last("board", "a")) == (1, 2)
    with pytest.raises(DeadRow, match="'three' is no int"):
        driver.redrive_dead("board")
