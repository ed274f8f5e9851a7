"""Tables and columns, declared or inferred."""

import pytest

from stores.sinks import StoreError
from stores.sinks.contract.example_records import (
    ODD_COLUMNS,
    ORDERS,
    TOPIC,
    delete,
    order,
    upsert,
    value,
)
from stores.sinks.contract.store import StoreUnderTest
from topology.model.table import Table


class TablesContract(StoreUnderTest):
    def test_declared_tables_are_there_before_any_record(self) -> None:
        with self.open([ORDERS]):
            pass
        assert self.rows("orders") == {}
        with self.open([ORDERS]) as sink:
            assert sink.apply([order(0, 1, state="new")]).applied == 1

    def test_a_column_that_is_declared_later_is_added(self) -> None:
        self.apply(order(0, 1, state="new"))
        wider = Table("orders", ORDERS.key, {**ORDERS.columns, "note": str})
        with self.open([wider]) as sink:
            sink.apply([order(1, 2, note="x")])
        assert self.rows("orders") == {(1,): {"state": "new", "note": "x"}}

    @pytest.mark.parametrize(
        "other",
        [
            Table("orders", {"number": int}, {}),
            Table("orders", {"id": str}, {}),
            Table("orders", {"id": int, "line": int}, {}),
            Table("orders", ORDERS.key, {"state": int}),
            Table("orders", ORDERS.key, {"STATE": str}),
            Table("ORDERS", ORDERS.key, {}),
        ],
    )
    def test_a_declaration_that_contradicts_the_store_is_refused(self, other: Table) -> None:
        with self.open([ORDERS]):
            pass
        with pytest.raises(StoreError, match=r"(?i)orders"):
            self.open([other])

    def test_a_column_that_comes_later_is_added(self) -> None:
        self.apply(order(0, 1, state="new", extra=None))
        self.apply(order(1, 2, extra=5), order(2, 3, more="text"))
        assert self.rows("orders") == {(1,): {"state": "new", "extra": 5, "more": "text"}}

    def test_undeclared_tables_are_inferred(self) -> None:
        with self.open() as sink:
            row = {"region": "north", "day": 3}
            sink.apply(
                [
                    (TOPIC, 0, 0, value("a", 1, upsert("sales", row, sum=1, nested={"x": [1]}))),
                    (TOPIC, 0, 1, value("a", 2, upsert("sales", row, sum=2.5, good=True))),
                ]
            )
        found = self.rows("sales")
        assert list(found) in ([("north", 3)], [(3, "north")])
        assert list(found.values()) == [{"sum": 2.5, "nested": '{"x":[1]}', "good": True}]

    def test_values_are_fitted_to_the_declared_types(self) -> None:
        table = Table("t", {"k": str}, {"i": int, "f": float, "s": str, "b": bool})
        with self.open([table]) as sink:
            sink.apply(
                [(TOPIC, 0, 0, value("a", 1, upsert("t", {"k": 5}, i=5.0, f=1, s={"a": 1}, b=1)))]
            )
        assert self.rows("t") == {("5",): {"i": 5, "f": 1.0, "s": '{"a":1}', "b": True}}

    def test_key_values_of_other_types_are_the_same_row(self) -> None:
        with self.open([ORDERS]) as sink:
            rows = [upsert("orders", {"id": 1}, state="a"), upsert("orders", {"id": 1.0}, total=2)]
            sink.apply([(TOPIC, 0, 0, value("a", 1, *rows))])
        assert self.rows("orders") == {(1,): {"state": "a", "total": 2.0}}

    def test_the_key_may_be_repeated_in_the_values(self) -> None:
        done = self.apply(order(0, 1, id=1, state="new"))
        assert done.applied == 1
        assert self.rows("orders") == {(1,): {"state": "new"}}

    def test_odd_names_are_only_names(self) -> None:
        self.apply(order(0, 1, state="new"))
        tables = [upsert(name, {name: 1}, **{"other": 1}) for name in self.odd_tables]
        columns = upsert("odd", {"id": 1}, **dict.fromkeys(ODD_COLUMNS, "v"))
        done = self.apply((TOPIC, 0, 1, value("a", 2, *tables, columns)))
        assert (done.applied, done.dead) == (1, 0)
        for name in self.odd_tables:
            assert self.rows(name) == {(1,): {"other": 1}}
        assert self.rows("odd") == {(1,): dict.fromkeys(ODD_COLUMNS, "v")}
        gone = [delete(name, {name: 1}) for name in self.odd_tables]
        again = upsert("odd", {"id": 1}, **{ODD_COLUMNS[0]: "w", "later; one": 1})
        self.apply((TOPIC, 0, 2, value("a", 3, *gone, again)))
        for name in self.odd_tables:
            assert self.rows(name) == {}
        expected = {**dict.fromkeys(ODD_COLUMNS, "v"), ODD_COLUMNS[0]: "w", "later; one": 1}
        assert self.rows("odd") == {(1,): expected}
        assert self.rows("orders") == {(1,): {"state": "new"}}
