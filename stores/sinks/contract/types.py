"""Every type of a column, through everything that is done with rows."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores.sinks import Sink, StoreError
from stores.sinks.contract.example_records import TOPIC
from stores.sinks.contract.store import StoreUnderTest
from stores.sinks.contract.values import (
    BAD,
    COLUMNS,
    EDGES,
    KEYS,
    STRATEGIES,
    TYPED,
    edge_rows,
    raw_record,
    record_of,
    sets,
)
from topology.model.changes import Delete, Upsert
from topology.model.table import Table

KEYED = [Table(f"by_{name}", {name: COLUMNS[name]}, {"n": int}) for name in KEYS]


def exactly(found: Any, expected: Any) -> None:
    """The same values of the same types; numbers that handlers yield as int may be decimals."""
    assert found == expected
    for one, other in zip(found, expected, strict=True):
        for column in one:
            pair = (type(one[column]), type(other[column]))
            assert pair[0] is pair[1] or pair == (Decimal, int), column


class TypesContract(StoreUnderTest):
    def test_every_value_of_every_type_comes_back_as_it_was(self) -> None:
        rows = edge_rows()
        with self.open([TYPED]) as sink:
            done = sink.apply([record_of(at, each) for at, each in enumerate(sets(rows))])
            assert (done.applied, done.reason) == (len(rows), None)
            exactly(list(sink.rows("typed")), rows)
        with self.open() as sink:  # which only knows what the store says of its types
            exactly(list(sink.rows("typed")), rows)
            assert sink.count("typed") == len(rows)

    def test_rows_of_every_type_are_updated_nulled_and_deleted(self) -> None:
        first, second = (edge_rows()[at] for at in (0, 1))
        with self.open([TYPED]) as sink:
            sink.apply([record_of(0, *sets([first]))])
        with self.open() as sink:
            sink.apply([record_of(1, *sets([{**second, "id": 0}]))])
            exactly(list(sink.rows("typed")), [{**second, "id": 0}])
            sink.apply([record_of(2, *sets([{**dict.fromkeys(EDGES), "id": 0}]))])
            assert list(sink.rows("typed")) == [{"id": 0}]
            sink.apply([record_of(3, Delete("typed", {"id": 0}))])
            assert list(sink.rows("typed")) == []

    def test_a_value_that_does_not_fit_is_dead_with_the_reason(self) -> None:
        records = [raw_record(at, column, value) for at, (column, value, _) in enumerate(BAD)]
        with self.open([TYPED]) as sink:
            done = sink.apply(records)
            assert (done.applied, done.dead) == (0, len(BAD))
            assert list(sink.rows("typed")) == []
        for row, (column, _, reason) in zip(sorted(self.dead()), BAD, strict=True):
            assert f"table 'typed': column {column!r}: " in row[3]
            assert reason in row[3]

    def test_what_others_write_in_another_way_is_the_same_value(self) -> None:
        ways: list[tuple[str, list[Any]]] = [
            ("exact", ["12.3", "12.300", "1.23e1", "0012.3"]),
            ("money", ["5", 5, "5.00"]),
            ("at", ["2026-01-01T00:00:00Z", "2026-01-01 02:00+02:00", "2026-01-01t00:00:00.000z"]),
            ("raw", ["AAE=", "\\x0001"]),
            ("real", [2**53, 2.0**53]),
            ("real", [-(2**60), -(2.0**60)]),
        ]
        with self.open([TYPED]) as sink:
            at = 0
            for column, values in ways:
                records = [raw_record(at + n, column, value) for n, value in enumerate(values)]
                assert sink.apply(records).dead == 0
                found = list(sink.rows("typed"))[at:]
                assert len({row[column] for row in found}) == 1
                at += len(values)

    @pytest.mark.parametrize("good", [1, 1_000])
    def test_an_int_that_no_float_holds_is_dead(self, good: int) -> None:
        changes = [Upsert("reals", {"k": 2 * n}, {"x": n}) for n in range(good)]
        changes += [Upsert("reals", {"k": 2**53}, {"x": 2**60})]
        dead = [Upsert("reals", {"k": 2**53 + 1}, {}), Upsert("reals", {"k": 1}, {"x": 2**62 + 1})]
        records = [record_of(at, change) for at, change in enumerate(changes + dead)]
        with self.open([Table("reals", {"k": float}, {"x": float})]) as sink:
            assert sink.apply(records).dead == len(dead)
            assert list(sink.rows("reals"))[good:] == [{"k": 2.0**53, "x": 2.0**60}]
        for row, column in zip(sorted(self.dead()), "kx", strict=True):
            assert f"column {column!r}: " in row[3]
            assert "more than 53 bits" in row[3]

    def test_rows_of_every_key_come_in_order_and_are_found_again(self) -> None:
        edges = {name: [v for v in EDGES[name] if len(str(v)) < 1_000] for name in KEYS}
        with self.open(KEYED) as sink:
            self._rows_of_keys(sink, edges, 0)

    def _rows_of_keys(self, sink: Sink, keys: dict[str, list[Any]], offset: int) -> None:
        changes = [
            Upsert(f"by_{name}", {name: value}, {"n": 1})
            for name, values in keys.items()
            for value in values
        ]
        assert sink.apply([record_of(offset, *changes)]).dead == 0
        for change in changes:
            change.values = {"n": 2}
        gone = [Delete(each.table, each.key) for each in changes[::2]]
        sink.apply([record_of(offset + 1, *changes), record_of(offset + 2, *gone)])
        for name, values in keys.items():
            expected = set(values) - {
                value for each in gone if each.table == f"by_{name}" for value in each.key.values()
            }
            found = list(sink.rows(f"by_{name}"))
            assert [row[name] for row in found] == sorted(expected)
            assert {row["n"] for row in found} <= {2}

    def test_any_values_come_back_as_they_were(self) -> None:
        tried = settings(
            max_examples=self.examples,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        columns = {name: st.none() | values for name, values in STRATEGIES.items()}
        rows = st.lists(st.fixed_dictionaries(columns), min_size=1, max_size=4)
        keys = st.fixed_dictionaries({n: st.lists(STRATEGIES[n], max_size=4) for n in KEYS})
        tried(given(rows, keys)(self._any_values))()

    def _any_values(self, rows: list[dict[str, Any]], keys: dict[str, list[Any]]) -> None:
        self.forget()
        numbered = [{"id": at, **row} for at, row in enumerate(rows)]
        with self.open([TYPED, *KEYED]) as sink:
            assert sink.apply([record_of(0, *sets(numbered))]).dead == 0
            there = [{c: v for c, v in row.items() if v is not None} for row in numbered]
            exactly(list(sink.rows("typed")), there)
            self._rows_of_keys(sink, {n: list(set(v)) for n, v in keys.items()}, 1)

    def test_a_rebuilt_shadow_is_switched_to(self) -> None:
        rows = edge_rows()
        records = [record_of(at, each) for at, each in enumerate(sets(rows))]
        with self.open([TYPED]) as live, self.open([TYPED], "next") as shadow:
            live.apply(records)
            shadow.apply(records)
            assert list(live.rows("typed")) == list(shadow.rows("typed"))
            other = sets([{**rows[0], "at": EDGES["at"][1], "doc": {"b": 1}}])
            shadow.apply([record_of(len(records), *other)])
            live.switch("next", [TOPIC])
        with self.open([TYPED]) as live:
            assert list(live.rows("typed"))[1:] == rows[1:]
            assert next(live.rows("typed"))["doc"] == {"b": 1}
            more = sets([{**rows[1], "id": 99}])
            live.apply([record_of(len(records) + 1, *more)])
            exactly(list(live.rows("typed"))[-1:], [{**rows[1], "id": 99}])

    def test_columns_of_every_type_are_added_later(self) -> None:
        row = edge_rows()[1]
        with self.open([Table("typed", {"id": int}, {"text": str})]) as sink:
            sink.apply([record_of(0, *sets([{"id": 1, "text": "x"}]))])
        with self.open([TYPED]) as sink:
            sink.apply([record_of(1, *sets([row]))])
            exactly(list(sink.rows("typed")), [row])

    @pytest.mark.parametrize(
        ("column", "other"),
        [("at", str), ("money", Decimal), ("doc", list), ("raw", str), ("day", datetime)],
    )
    def test_a_column_does_not_become_another_type(self, column: str, other: Any) -> None:
        self.open([TYPED]).close()
        with pytest.raises(StoreError, match="in the store with column"):
            self.open([Table("typed", {"id": int}, {column: other})])
