"""What breaks the rules of a Delta table that was made by hand is dead, and the rest goes on."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stores.sinks import Batch, OutputRecord, Position, StoreError
from stores.sinks.contract import ORDERS, TOPIC, upsert, value
from stores.sinks.delta.tables import DeltaTables
from tests.stores.sinks.delta.distributed import DistributedDeltaStore
from tests.stores.sinks.delta.table_log import actions
from tests.stores.sinks.delta.tested_store import DeltaStore

pytestmark = pytest.mark.integration

COLUMNS = "n INT, day DATE, price DECIMAL(4, 2), code VARCHAR(3), must BIGINT NOT NULL"


def record(offset: int, **values: Any) -> OutputRecord:
    """A record of a row in a plain table, and of one in a table with rules."""
    rows = [upsert("orders", {"id": offset}), upsert("ruled", {"id": offset}, must=1, **values)]
    return TOPIC, 0, offset, value("a", offset, *rows)


def anew(sequence: int, must: int) -> OutputRecord:
    """The stream of those records made anew, up to a sequence."""
    rows = [upsert("orders", {"id": 0}, state="anew"), upsert("ruled", {"id": 0}, must=must)]
    return TOPIC, 0, 0, value("a", sequence, *rows)


@pytest.fixture(scope="module")
def ruled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with tables that have rules, to be copied: it takes seconds to make."""
    folder = tmp_path_factory.mktemp("ruled")
    for name, columns in (("ruled", COLUMNS), ("counts", "n INT")):
        spark.sql(
            f"CREATE TABLE delta.`{folder}/{name}` "
            f"(id BIGINT COMMENT 'primary key 1', {columns}) USING delta"
        )
    few = "CONSTRAINT few CHECK (must IS NULL OR must < 10)"
    spark.sql(f"ALTER TABLE delta.`{folder}/ruled` ADD {few}")
    return folder


class RuledStore(DeltaStore):
    @pytest.fixture(autouse=True)
    def _ruled(self, _folder: None, ruled: Path) -> None:
        shutil.copytree(ruled, self.folder)


class TestRefused(RuledStore):
    def test_no_table_has_a_record_twice_or_misses_one(self) -> None:
        told: list[Any] = []
        with self.open([ORDERS]) as sink:
            records = [record(0, n=0), record(1, n=2**40), record(2, n=2), record(3, n=3)]
            done = sink.apply(records, Batch("q", 0), told.extend)
            assert (done.records, done.applied, done.dead) == (4, 3, 1)
            assert sink.last_batch("q") == 0
            assert sink.progress() == [Position(TOPIC, 0, 4, applied=3, dead=1)]
            assert [dead.offset for dead in told] == [1]
            assert sink.apply([record(4, n=4)], Batch("q", 1)).applied == 1
        ((*at, reason, _),) = self.dead()
        assert at == [TOPIC, 0, 1]
        assert "overflow" in reason
        assert self.rows("ruled") == {(n,): {"n": n, "must": 1} for n in (0, 2, 3, 4)}
        # Which was written before the other one refused the batch.
        assert sorted(self.rows("orders")) == [(n,) for n in range(5)]
        log = actions(self.folder / "orders")
        written = [action for name, action in log if name == "commitInfo"]
        assert len(written) == 1 + 2

    def test_a_value_is_refused_by_any_rule(self) -> None:
        bad: list[dict[str, Any]] = [
            {"n": 2**40},
            {"day": "no day"},
            {"price": 1000.5},
            {"code": "long"},
        ]
        bad += [{"must": 99}, {"must": None}]
        rows = [upsert("ruled", {"id": 1}, **{"must": 1, **values}) for values in bad]
        rows.append(upsert("counts", {"id": 1}, n=2**40))
        with self.open() as sink:
            sink._tables._merges["counts"] = 0  # so that it is an INSERT, of which a task says so
            for at, row in enumerate(rows):
                assert sink.apply([(TOPIC, 0, at, value("a", at, row))]).dead == 1
        reasons = [reason.partition("[")[2].partition("]")[0] for *_, reason, _ in self.dead()]
        assert reasons == [
            "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
            "CAST_INVALID_INPUT",
            "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
            "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
            "CAST_OVERFLOW_IN_TABLE_INSERT",
        ]
        assert self.rows("ruled") == self.rows("counts") == {}

    def test_a_nested_column_has_nulls_and_any_other_value_is_refused(self) -> None:
        self.spark.sql(
            f"CREATE TABLE delta.`{self.folder}/nested` (id BIGINT COMMENT 'primary key 1', "
            "n INT, tags ARRAY<STRING>, pair STRUCT<a: INT>, sum DECIMAL(9, 2)) USING delta"
        )
        self.spark.sql(
            f"CREATE TABLE delta.`{self.folder}/keyed` "
            "(ids ARRAY<INT> COMMENT 'primary key 1', n INT) USING delta"
        )
        gone = {"op": "delete", "table": "nested", "key": {"id": 1}}
        changes = [
            [upsert("nested", {"id": 1}, n=1, tags=None)],
            [upsert("nested", {"id": 1}, n=2, tags=["a"])],
            [upsert("nested", {"id": 1}, pair={"a": 1})],
            [upsert("keyed", {"ids": [1]}, n=1)],
            [gone, upsert("nested", {"id": 1}, n=3, sum=1.5)],
        ]
        with self.open() as sink:
            for n, each in enumerate(changes):
                assert sink.apply([(TOPIC, 0, n, value("a", n, *each))]).dead == (0 < n < 4)
        tags, pair, keyed = (reason for *_, reason, _ in self.dead())
        assert "column 'tags' is of a type that takes no row change: array<string>" in tags
        assert "'pair'" in pair
        assert "[DATATYPE_MISMATCH" in keyed
        assert "\n" not in keyed
        (row,) = self.spark.sql(f"SELECT * FROM delta.`{self.folder}/nested`").collect()
        assert (row.id, row.n, row.tags, row.pair, str(row["sum"])) == (1, 3, None, None, "1.50")


class TestRefusedReplacement(RuledStore):
    def test_it_is_given_up_and_the_store_goes_on(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([record(0, n=0), record(1, n=1)])
            with pytest.raises(StoreError, match=r"(?s)few.*rows are in 'orders', .* in 'ruled'"):
                sink.replace_streams([anew(1, 99)], [Position(TOPIC, 0, 2)])
            assert sink.apply([record(2, n=2)]).applied == 1
        assert self.rows("orders") == {(0,): {"state": "anew"}, (1,): {}, (2,): {}}
        assert self.rows("ruled") == {(n,): {"n": n, "must": 1} for n in range(3)}
        with self.open([ORDERS]) as sink:
            sink.replace_streams([anew(2, 9)], [Position(TOPIC, 0, 3)])
            assert sink.apply([record(2, n=7), record(3, n=3)]).applied == 1
        assert self.rows("ruled")[0,] == {"n": 0, "must": 9}

    def test_one_that_was_cut_off_keeps_nobody_from_the_store(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def crash(*_: Any) -> None:
            raise InterruptedError

        monkeypatch.setattr("stores.sinks.delta.store.PATIENCE", 0.0)
        with self.open([ORDERS]) as sink, monkeypatch.context() as patch:
            sink.apply([record(0, n=0)])
            patch.setattr(sink, "_write_rows", crash)
            with pytest.raises(InterruptedError):
                sink.replace_streams([anew(0, 99)], [Position(TOPIC, 0, 1)])
        with self.open([ORDERS]) as sink:
            assert sink.apply([record(1, n=1)]).applied == 1
        (said,) = [each.getMessage() for each in caplog.records if each.name == "read store"]
        assert "run the rebuild again" in said
        assert self.rows("ruled") == {(n,): {"n": n, "must": 1} for n in range(2)}


class TestRefusedSwitch(RuledStore):
    def _filled(self, shadow: str | None, offset: int, must: int) -> None:
        with self.open([ORDERS], shadow) as sink:
            row = upsert("ruled", {"id": 1}, must=must)
            assert sink.apply([(TOPIC, 0, offset, value("a", offset, row))]).applied == 1

    def test_it_is_not_begun(self) -> None:
        # Which the shadow's rows have no column of.
        rule = "CONSTRAINT no_n CHECK (n IS NULL)"
        self.spark.sql(f"ALTER TABLE delta.`{self.folder}/ruled` ADD {rule}")
        self._filled(None, 0, 1)
        self._filled("next", 0, 99)
        with self.open([ORDERS]) as live:
            with pytest.raises(StoreError, match=r"'ruled': .* 'next' break .* few .*must < 10"):
                live.switch("next", [TOPIC])
            assert live.shadows() == ["next"]
            self._filled("next", 1, 9)
            live.switch("next", [TOPIC])
            assert live.shadows() == ["old"]
        assert self.rows("ruled") == {(1,): {"must": 9}}

    def test_one_that_is_cut_off_by_a_rule_is_completed_once_that_is_gone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.sinks.delta.store.PATIENCE", 0.0)
        monkeypatch.setattr(DeltaTables, "broken_check", lambda *_: None)  # it came meanwhile
        self._filled(None, 0, 1)
        self._filled("next", 0, 99)
        said = "(?s)few.*drop the constraint"
        with self.open([ORDERS]) as live, pytest.raises(StoreError, match=said):
            live.switch("next", [TOPIC])
        with pytest.raises(StoreError, match=said):
            self.open([ORDERS])
        self.spark.sql(f"ALTER TABLE delta.`{self.folder}/ruled` DROP CONSTRAINT few")
        with self.open([ORDERS]) as live:
            assert live.shadows() == ["old"]
        assert self.rows("ruled") == {(1,): {"must": 99}}


class TestRefusedByTasks(DistributedDeltaStore, RuledStore):
    def test_a_large_batch_is_left_to_the_driver(self) -> None:
        with self.open([ORDERS]) as sink:
            assert sink.apply([record(0, n=0), record(1, n=2**40)]).dead == 1
            ((reason),) = sink.reasons
            assert "overflow" in reason
        assert self.rows("ruled") == {(0,): {"n": 0, "must": 1}}
