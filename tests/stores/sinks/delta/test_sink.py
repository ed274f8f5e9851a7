"""The Delta Lake read store keeps what is most its own of the contract of sinks.

A batch takes Spark a second or two, so the whole contract is in `whole_delta_sink.py`, which is run
by its name: python -m pytest tests/stores/sinks/delta/whole_contract.py
"""

from typing import Any

import pytest

from stores.sinks.contract import TOPIC, delete, upsert, value
from stores.sinks.contract.crashes import CrashingStore
from stores.sinks.contract.dead import DeadContract
from stores.sinks.contract.epochs import EpochsContract
from stores.sinks.contract.example_records import ODD_NAMES
from stores.sinks.contract.kept_dead import KeptDeadContract
from stores.sinks.contract.once import OnceContract
from stores.sinks.contract.shadow_tables import ShadowTablesContract
from stores.sinks.contract.tables import TablesContract
from stores.sinks.contract.types import TypesContract
from stores.sinks.delta.catalog import folder_name, table_name
from tests.stores.sinks.compared import ComparedContract
from tests.stores.sinks.delta.table_log import plain_rows
from tests.stores.sinks.delta.tested_store import DeltaOwn, DeltaStore

pytestmark = pytest.mark.integration


class TestDeltaSink(DeltaStore, CrashingStore):
    steps = ("_save_progress",)
    cut_off_at = ("_write_rows",)
    odd_tables = ("../up",)
    _fill = ShadowTablesContract._fill

    test_a_duplicate_at_a_later_offset_is_fenced = (
        OnceContract.test_a_duplicate_at_a_later_offset_is_fenced
    )
    test_a_batch_that_was_cut_off = (
        OnceContract.test_a_batch_that_was_cut_off_may_come_again_in_other_batches
    )
    test_an_empty_batch_is_recorded = OnceContract.test_an_empty_batch_is_recorded
    test_one_that_wakes_up_behind_its_successor = (
        OnceContract.test_one_that_wakes_up_behind_its_successor_holds_it_up_in_nothing
    )
    test_one_of_two_that_go_on_with_a_checkpoint = (
        OnceContract.test_one_of_two_that_go_on_with_a_checkpoint_is_told_of_the_other
    )
    test_a_higher_epoch_is_applied = (
        EpochsContract.test_a_higher_epoch_is_applied_whatever_its_sequence
    )
    test_a_column_that_comes_later_is_added = TablesContract.test_a_column_that_comes_later_is_added
    test_odd_names_are_only_names = TablesContract.test_odd_names_are_only_names
    test_undeclared_tables_are_inferred = TablesContract.test_undeclared_tables_are_inferred
    test_bad_records_are_kept = (
        DeadContract.test_bad_records_are_kept_with_the_reason_and_the_others_are_applied
    )
    test_a_switch = (
        ShadowTablesContract.test_after_a_switch_the_live_tables_go_on_and_take_nothing_twice
    )
    test_a_stream_that_is_behind_is_told = ShadowTablesContract.test_a_stream_that_is_behind_is_told

    test_every_value_comes_back = TypesContract.test_every_value_of_every_type_comes_back_as_it_was
    test_rows_of_every_type_are_compared = ComparedContract.test_rows_of_every_type_are_compared
    test_a_value_that_does_not_fit = (
        TypesContract.test_a_value_that_does_not_fit_is_dead_with_the_reason
    )

    test_dead_records_do_not_grow = KeptDeadContract.test_dead_records_do_not_grow_for_ever
    test_a_record_that_was_dead_is_known_again = (
        KeptDeadContract.test_a_record_that_was_dead_is_known_again_though_it_is_not_kept
    )

    test_many_streams = DeltaOwn.test_progress_of_many_streams_is_kept_as_that_of_few
    test_rows_of_all_kinds = DeltaOwn.test_rows_of_all_kinds_of_changes_in_one_batch
    test_a_journal_that_was_deleted = DeltaOwn.test_a_journal_that_was_deleted_loses_no_batch

    test_new_rows_and_others = DeltaOwn.test_rows_that_are_new_are_inserted_and_others_merged
    test_rows_of_somebody_else = (
        DeltaOwn.test_rows_that_somebody_else_added_meanwhile_are_not_added_again
    )
    written = DeltaOwn.written

    test_progress_is_noted = DeltaOwn.test_progress_is_noted_until_there_is_enough_of_it
    test_a_batch_that_changes_no_row = DeltaOwn.test_a_batch_that_changes_no_row_counts
    test_marks_that_only_the_journal_had = (
        DeltaOwn.test_marks_that_only_the_journal_had_are_kept_by_who_comes_next
    )

    def test_spark_says_the_same_of_a_table_as_its_log(self) -> None:
        """By which the other tests read rows."""
        odd = dict.fromkeys(ODD_NAMES, "v")
        rows = [upsert("odd", {"id": number}, **odd) for number in range(3)]
        self.apply((TOPIC, 0, 0, value("a", 1, *rows)))
        change = upsert("odd", {"id": 1}, later=1), delete("odd", {"id": 2})
        self.apply((TOPIC, 0, 1, value("a", 2, *change)))
        assert (found := plain_rows(self.folder / "odd")) is not None
        there, comments = self.rows_by_spark("odd")
        assert found[1] == comments
        assert sorted(map(_given, found[0])) == sorted(map(_given, there))
        assert self.rows("odd") == {(0,): odd, (1,): {**odd, "later": 1}}

    def test_a_crash_before_the_last_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.write_progress(monkeypatch)
        self.crash_at_any_step("before", monkeypatch)

    def test_a_crash_behind_rows_whose_progress_is_noted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(type(self), "steps", ("_begin", "_save_dead"))
        self.crash_at_any_step("after", monkeypatch)

    def test_a_switch_that_was_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # The live table is kept as the old one already, and is to stay that one.
        self.cut_a_switch_off(1, monkeypatch)


def _given(row: dict[str, Any]) -> str:
    return repr(sorted((name, value) for name, value in row.items() if value is not None))


@pytest.mark.parametrize("name", [*ODD_NAMES, "a___b", "_x_", "@20", "\x01", "____"])
def test_a_folder_s_name_is_plain_and_tells_the_table_s(name: str) -> None:
    folder = folder_name(name)
    assert folder.replace("@", "").replace("_", "").isalnum()
    assert "__" not in folder
    assert table_name(folder) == name
