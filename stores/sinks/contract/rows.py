"""What upserts and deletes make of rows."""

import pytest

from stores.sinks.contract.example_records import TOPIC, delete, order, upsert, value
from stores.sinks.contract.store import StoreUnderTest


class RowsContract(StoreUnderTest):
    def test_an_upsert_inserts_and_then_merges(self) -> None:
        self.apply(order(0, 1, state="new", total=2.5))
        self.apply(order(1, 2, state="paid", paid=True))
        assert self.rows("orders") == {(1,): {"state": "paid", "total": 2.5, "paid": True}}

    def test_changes_of_one_row_in_one_batch_are_merged(self) -> None:
        done = self.apply(order(0, 1, state="new", total=2.5), order(1, 2, state="paid"))
        assert self.rows("orders") == {(1,): {"state": "paid", "total": 2.5}}
        assert (done.records, done.applied, done.upserts) == (2, 2, 1)

    @pytest.mark.parametrize("names", [["excluded", "t", "s", "o", "p", "row"], ["Excluded"]])
    def test_an_upsert_is_of_its_own_row_whatever_the_table_is_called(
        self, names: list[str]
    ) -> None:
        for at, ids in enumerate((range(60), range(3), range(60))):
            changes = [upsert(name, {"id": id}, n=at) for name in names for id in ids]
            assert self.apply((TOPIC, 0, at, value("a", at + 1, *changes))).dead == 0
            for name in names:
                assert {self.rows(name)[id,]["n"] for id in ids} == {at}

    def test_null_sets_a_column_to_null(self) -> None:
        self.apply(order(0, 1, state="new", total=1.0), order(1, 2, total=None))
        self.apply(order(2, 3, state=None))
        assert self.rows("orders") == {(1,): {}}

    def test_an_upsert_without_values_makes_the_row(self) -> None:
        self.apply(order(0, 1))
        self.apply(order(1, 2))
        assert self.rows("orders") == {(1,): {}}

    def test_a_delete_deletes_and_a_missing_row_is_no_error(self) -> None:
        self.apply(order(0, 1, state="new"))
        gone = delete("orders", {"id": 1}), delete("orders", {"id": 99})
        done = self.apply((TOPIC, 0, 1, value("a", 2, *gone)))
        assert self.rows("orders") == {}
        assert (done.applied, done.upserts, done.deletes) == (1, 0, 2)

    @pytest.mark.parametrize("together", [True, False])
    def test_a_row_after_its_delete_starts_anew(self, together: bool) -> None:
        records = [
            order(0, 1, state="new", total=1.0),
            (TOPIC, 0, 1, value("a", 2, delete("orders", {"id": 1}))),
            order(2, 3, paid=False),
            order(3, 4, state="again"),
        ]
        for batch in [records] if together else [[record] for record in records]:
            self.apply(*batch)
        assert self.rows("orders") == {(1,): {"paid": False, "state": "again"}}

    def test_changes_of_one_record_apply_in_their_order(self) -> None:
        key = {"id": 1}
        changes = upsert("orders", key, state="x"), delete("orders", key), upsert("orders", key)
        self.apply((TOPIC, 0, 0, value("a", 1, *changes)))
        assert self.rows("orders") == {(1,): {}}

    def test_records_are_taken_in_offset_order(self) -> None:
        done = self.apply(order(2, 3, state="last"), order(0, 1, state="new"), order(1, 2))
        assert done.applied == 3
        assert self.rows("orders") == {(1,): {"state": "last"}}

    def test_two_streams_of_one_partition_share_a_row_in_offset_order(self) -> None:
        row = {"id": 1}
        self.apply(
            (TOPIC, 0, 0, value("a", 100, upsert("orders", row, state="a", total=1.0))),
            (TOPIC, 0, 1, value("b", 1, upsert("orders", row, state="b"))),
        )
        assert self.rows("orders") == {(1,): {"state": "b", "total": 1.0}}
