"""A Delta Lake read store for tests, and what it has to do besides what every store has to do."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from stores.delta_sink import DeltaSink
from stores.delta_tables import folder_name
from stores.sink import Batch, DeclaredTable, Position, StoreError
from stores.sinks import open_sink
from tests.contracts.sink import ORDERS, TOPIC, Rows, delete, order, upsert, value
from tests.contracts.sink.store import Store
from topology.table import Table


class DeltaStore(Store):
    steps: ClassVar[Sequence[str]] = (
        "_make_tables",
        "_begin",
        "_write_rows",
        "_save_dead",
        "_save_progress",
    )
    atomic = False
    examples = 2
    spark: SparkSession
    tmp: Path
    folder: Path
    turn: int

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, spark: SparkSession) -> None:
        self.spark, self.tmp, self.turn = spark, tmp_path, 0
        self.forget()

    def open(self, tables: Iterable[DeclaredTable] = (), side: str | None = None) -> DeltaSink:
        return DeltaSink(str(self.folder), tables, side, self.spark)

    def forget(self) -> None:
        self.turn += 1
        self.folder = self.tmp / f"read store {self.turn}"

    def rows(self, table: str) -> Rows:
        frame = self.read(folder_name(table))
        found: Rows = {}
        for row in frame.collect() if frame is not None else ():
            values = dict(zip(frame.columns, row, strict=True))
            comments = {field.name: field.metadata.get("comment", "") for field in frame.schema}
            keys = sorted((c, n) for n, c in comments.items() if c.startswith("primary key"))
            at = tuple(values.pop(name) for _, name in keys)
            found[at] = {name: value for name, value in values.items() if value is not None}
        return found

    def dead(self) -> list[tuple[str, int, int, str, bytes | None]]:
        frame = self.read("_dead")
        if frame is None:
            return []
        rows = frame.orderBy("topic", "partition", "offset").collect()
        return [(*row[:4], None if row.value is None else bytes(row.value)) for row in rows]

    def read(self, folder: str) -> Any:
        if not (self.folder / folder / "_delta_log").exists():
            return None
        return self.spark.read.format("delta").load(str(self.folder / folder))

    def cut_a_switch_off(self, commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Cut a switch off behind so many commits, and see that it is carried out."""
        monkeypatch.setattr("stores.delta_store.PATIENCE", 0.0)
        self.apply(order(0, 1, state="live"), (TOPIC, 0, 1, b"dead"))
        with self.open([ORDERS], "next") as side:
            side.apply([order(0, 1, state="side"), (TOPIC, 0, 1, b"dead")])
        with self.open([ORDERS]) as live, monkeypatch.context() as patch:
            done = _Cut(commits)
            for name in ("copy", "run"):
                patch.setattr(live._tables, name, done.around(getattr(live._tables, name)))
            with pytest.raises(_Crash):
                live.switch("next", [TOPIC])
        with self.open([ORDERS]) as live:
            assert live.sides() == ["old"]
            assert list(live.rows("orders")) == [{"id": 1, "state": "side"}]
            assert live.apply([order(0, 1), order(2, 2, total=1.0)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "side", "total": 1.0}}
        assert [row.state for row in self.read("orders__old").collect()] == ["live"]


class DeltaOwn(DeltaStore):
    def test_column_types(self) -> None:
        with self.open([ORDERS]) as sink:
            row = upsert("inferred", {"id": "x"}, n=1, b=False, t="", j=[])
            sink.apply([(TOPIC, 0, 0, value("a", 1, row))])
        assert dict(self.read("orders").dtypes) == {
            "id": "bigint",
            "state": "string",
            "total": "double",
            "paid": "boolean",
        }
        inferred = {"id": "string", "n": "double", "b": "boolean", "t": "string", "j": "string"}
        assert dict(self.read("inferred").dtypes) == inferred

    def test_an_integer_that_an_inferred_column_would_round_is_dead(self) -> None:
        big = 2**53 + 1
        with self.open([Table("t", {"id": int}, {"n": int})]) as sink:
            records = [
                (TOPIC, 0, 0, value("a", 1, upsert("t", {"id": 1}, n=big))),
                (TOPIC, 0, 1, value("a", 2, upsert("t", {"id": 1}, inferred=1))),
                (TOPIC, 0, 2, value("a", 3, upsert("t", {"id": 1}, inferred=big))),
            ]
            assert sink.apply(records).dead == 1
            assert list(sink.rows("t")) == [{"id": 1, "n": big, "inferred": 1.0}]

    def test_progress_can_be_queried(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 4), order(1, 9)], Batch("q", 0))
        assert [tuple(row) for row in self.read("_progress").collect()] == [
            (TOPIC, "orders", "a", 9, 0)
        ]

    def test_progress_of_many_streams_is_kept_as_that_of_few(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is written whole while streams are few is merged into when they are more."""

        def of(stream: str, offset: int, sequence: int) -> Any:
            return TOPIC, 0, offset, value(stream, sequence, upsert("t", {"s": stream}, n=sequence))

        monkeypatch.setattr("stores.delta_batches.FEW_STREAMS", 2)
        for at, stream in enumerate("abcd"):
            self.apply(of(stream, 2 * at, 1), of("a", 2 * at + 1, at + 2))
        done = self.apply(of("a", 8, 5), of("b", 9, 1), of("c", 10, 2))
        assert (done.duplicates, done.applied) == (2, 1)
        rows = self.read("_progress").select("stream", "sequence", "epoch").collect()
        assert sorted(map(tuple, rows)) == [("a", 5, 0), ("b", 1, 0), ("c", 2, 0), ("d", 1, 0)]

    def test_a_table_is_written_once_a_batch(self) -> None:
        with self.open([ORDERS]) as sink:
            for at in range(3):
                sink.apply([order(at, at, state=f"s{at}")])
            sink.apply([order(2, 2, state="s2")])
        commits = list((self.folder / "orders" / "_delta_log").glob("*.json"))
        assert len(commits) == 1 + 3

    def test_a_journal_that_was_deleted_loses_no_batch(self) -> None:
        self.apply(order(0, 1, state="new"))
        self.apply(order(1, 2, state="paid"))
        with self.open([ORDERS]) as sink:
            assert "_journal" in sink.forgetting(TOPIC)
        for file in (self.folder / "_journal").iterdir():
            file.unlink()
        done = self.apply(order(0, 1), order(1, 2), order(2, 3, state="sent"))
        assert (done.duplicates, done.applied) == (2, 1)
        assert self.rows("orders") == {(1,): {"state": "sent"}}

    def test_a_journal_that_is_damaged_is_told(self) -> None:
        self.apply(order(0, 1))
        newest = max(p for p in (self.folder / "_journal").iterdir() if p.suffix == ".json")
        newest.unlink()
        newest.write_text("{")
        with pytest.raises(StoreError, match="no entry of its journal"):
            self.open([ORDERS])

    def test_a_table_that_was_half_made_is_made(self) -> None:
        for table in ("orders", "_progress", "_dead"):
            log = self.folder / table / "_delta_log"
            (log / "_staged_commits").mkdir(parents=True)
            (log / f".{0:020}.json.1.tmp").write_text("{")
        self.apply(order(0, 1, state="new"), (TOPIC, 0, 1, b"dead"))
        assert self.rows("orders") == {(1,): {"state": "new"}}
        assert len(self.dead()) == 1

    def test_two_sinks_take_turns(self) -> None:
        with self.open([ORDERS]) as one, self.open([ORDERS]) as other:
            one.apply([order(0, 1, state="new", extra=1)])
            assert other.apply([order(0, 1, state="new", extra=1)]).replayed == 1
            assert other.apply([order(1, 2, extra=2)]).applied == 1
            assert one.apply([order(1, 2, extra=2), order(2, 3, more=3)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "new", "extra": 2, "more": 3}}

    @pytest.mark.parametrize("commits", range(4))
    def test_a_switch_that_was_cut_off_is_carried_out(
        self, commits: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cut_a_switch_off(commits, monkeypatch)

    def test_two_may_carry_a_switch_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stores.delta_store.PATIENCE", 0.0)
        with self.open([ORDERS], "next") as side:
            side.apply([order(0, 1, state="side")])
        with self.open([ORDERS]) as live, monkeypatch.context() as patch:
            drop = live._tables.drop

            def quicker(name: str) -> None:
                patch.setattr(live._tables, "drop", drop)
                self.open().close()
                drop(name)

            patch.setattr(live._tables, "drop", quicker)
            live.switch("next", [TOPIC])
            assert live.sides() == ["old"]
            assert live.apply([order(0, 1), order(1, 2, total=1.0)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "side", "total": 1.0}}

    def test_a_batch_in_hand_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("stores.delta_store.PATIENCE", 0.3)
        with self.open([ORDERS], "next") as side:
            side.apply([order(0, 1)])
        with self.open([ORDERS]) as live, monkeypatch.context() as patch:
            patch.setattr(live, "_save_progress", _Cut(0).around(live._save_progress))
            with pytest.raises(_Crash):
                live.apply([order(0, 1)])
        with self.open() as other, pytest.raises(StoreError, match="is in a batch"):
            other.switch("next", [TOPIC])

    def test_columns_of_other_types_take_what_can_be_cast(self) -> None:
        self.apply(order(0, 1, state="new"))
        self.spark.sql(
            f"ALTER TABLE delta.`{self.folder}/orders` ADD COLUMNS (day DATE, n DECIMAL(9, 2))"
        )
        self.apply(order(1, 2, day="2013-01-01", n=2.5))
        ((day, n),) = self.read("orders").select("day", "n").collect()
        assert (str(day), str(n)) == ("2013-01-01", "2.50")

    def test_it_is_opened_by_its_url(self) -> None:
        # Spark's JVM goes by the working directory that it was started in.
        relative = os.path.relpath(self.tmp / "relative")
        for url, folder in (
            (f"delta:///{self.tmp}/absolute", self.tmp / "absolute"),
            (f"delta:///{relative}", self.tmp / "relative"),
            (f"delta:file://{self.tmp}/other", self.tmp / "other"),
        ):
            with open_sink(url, [ORDERS]) as sink:
                assert isinstance(sink, DeltaSink)
                assert (folder / "orders" / "_delta_log").is_dir()

    def test_rows_of_all_kinds_of_changes_in_one_batch(self) -> None:
        def change(offset: int, *changes: Any) -> Any:
            return TOPIC, 0, offset, value("a", offset, *changes)

        first = [upsert("orders", {"id": n}, state="old", total=n / 2) for n in range(5)]
        self.apply(change(0, *first))
        anew = delete("orders", {"id": 2}), upsert("orders", {"id": 2}, paid=True)
        self.apply(
            change(
                1,
                delete("orders", {"id": 0}),
                upsert("orders", {"id": 1}, paid=True),
                *anew,
                upsert("orders", {"id": 3}, state=None, added="x"),
                upsert("orders", {"id": 9}, state="new"),
                delete("orders", {"id": 77}),
            )
        )
        assert self.rows("orders") == {
            (1,): {"state": "old", "total": 0.5, "paid": True},
            (2,): {"paid": True},
            (3,): {"total": 1.5, "added": "x"},
            (4,): {"state": "old", "total": 2.0},
            (9,): {"state": "new"},
        }

    def test_positions_that_are_sought_are_kept(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 1)], Batch("q", 0))
            sink.seek([Position(TOPIC, 3, 9)])
        with self.open([ORDERS]) as sink:
            assert sink.progress() == [Position(TOPIC, 3, 9)]
            assert sink.last_batch("q") == 0


class _Crash(Exception):
    pass


class _Cut:
    """Lets some calls be done, and ends behind the next one."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def around(self, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if self.left == 0:
                raise _Crash
            self.left -= 1
            return function(*arguments)

        return call
