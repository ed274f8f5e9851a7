"""A Delta Lake read store for tests, and what it has to do besides what every store has to do."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from stores.sinks import Batch, DeclaredTable, Position, StoreError, open_sink
from stores.sinks.contract import ORDERS, TOPIC, Rows, delete, order, upsert, value
from stores.sinks.contract.store import StoreUnderTest
from stores.sinks.delta.catalog import folder_name
from stores.sinks.delta.sink import DeltaSink
from tests.stores.sinks.delta.table_log import actions, plain_rows
from topology.model.table import Table


class DeltaStore(StoreUnderTest):
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

    def open(self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> DeltaSink:
        return DeltaSink(str(self.folder), tables, shadow, self.spark)

    def forget(self) -> None:
        self.turn += 1
        self.folder = self.tmp / f"read store {self.turn}"

    def rows(self, table: str) -> Rows:
        folder = self.folder / folder_name(table)
        if not any(folder.glob("_delta_log/*.json")):
            return {}
        there, comments = plain_rows(folder) or self.rows_by_spark(table)
        keys = sorted((c, n) for n, c in comments.items() if c.startswith("primary key"))
        found: Rows = {}
        for values in there:
            at = tuple(values.pop(name) for _, name in keys)
            assert at not in found, f"row {at} is there twice"
            found[at] = {name: value for name, value in values.items() if value is not None}
        return found

    def rows_by_spark(self, table: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """See `plain_rows`."""
        frame = self.read(folder_name(table))
        rows = [dict(zip(frame.columns, row, strict=True)) for row in frame.collect()]
        return rows, {field.name: field.metadata.get("comment", "") for field in frame.schema}

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

    def write_progress(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let `_progress` be written by every batch, rather than noted in the journal."""
        monkeypatch.setattr("stores.sinks.delta.batches.NOTED_MARKS", 0)

    def cut_a_switch_off(self, commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Cut a switch off behind so many commits, and see that it is carried out."""
        self.write_progress(monkeypatch)
        monkeypatch.setattr("stores.sinks.delta.store.PATIENCE", 0.0)
        self.apply(order(0, 1, state="live"), (TOPIC, 0, 1, b"dead"))
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1, state="shadow"), (TOPIC, 0, 1, b"dead")])
        with self.open([ORDERS]) as live, monkeypatch.context() as patch:
            done = _Cut(commits)
            for name in ("copy", "run"):
                patch.setattr(live._tables, name, done.around(getattr(live._tables, name)))
            with pytest.raises(_Crash):
                live.switch("next", [TOPIC])
        with self.open([ORDERS]) as live:
            assert live.shadows() == ["old"]
            assert list(live.rows("orders")) == [{"id": 1, "state": "shadow"}]
            assert live.apply([order(0, 1), order(2, 2, total=1.0)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "shadow", "total": 1.0}}
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

    @pytest.mark.parametrize(("name", "bound"), [("NOTED_MARKS", 1), ("NOTED_BATCHES", 3)])
    def test_progress_is_noted_until_there_is_enough_of_it(
        self, name: str, bound: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(f"stores.sinks.delta.batches.{name}", bound)
        for at in range(2):
            self.apply(order(at, 9 + at))
            assert self.read("_progress") is None
        assert self.apply(order(2, 9)).duplicates == 1  # of entry 3
        self.apply((TOPIC, 0, 3, value("b", 1, upsert("orders", {"id": 2}))))
        rows = self.read("_progress").select("stream", "sequence", "epoch").collect()
        there = [("a", 10, 0), ("b", 1, 0)]
        assert sorted(map(tuple, rows)) == (there if name == "NOTED_MARKS" else there[:1])
        assert self.apply(order(4, 10), order(5, 11)).applied == 1

    def test_marks_that_only_the_journal_had_are_kept_by_who_comes_next(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def of(stream: str, offset: int, sequence: int) -> Any:
            row = upsert("orders", {"id": ord(stream)}, total=float(sequence))
            return TOPIC, 0, offset, value(stream, sequence, row)

        monkeypatch.setattr("stores.sinks.delta.batches.NOTED_BATCHES", 3)
        history = [of("a", at, at + 1) for at in range(3)]
        self.apply(*history)
        with self.open([ORDERS]) as sink:
            sink.apply([of("b", 3, 1)])
            sink.apply([of("b", 4, 2)])  # entry 3
            assert sink.apply([of("a", 5, 2)]).duplicates == 1
            sink.apply([of("b", 6, 3)])
            sink.apply([of("b", 7, 4)])  # entry 6
        rows = self.read("_progress").select("stream", "sequence", "epoch").collect()
        assert sorted(map(tuple, rows)) == [("a", 3, 0), ("b", 4, 0)]
        assert self.apply(*history).replayed == 3
        assert self.rows("orders") == {(97,): {"total": 3.0}, (98,): {"total": 4.0}}

    def test_a_batch_that_changes_no_row_counts(self) -> None:
        self.apply(order(0, 1))
        self.apply((TOPIC, 0, 1, value("a", 2, delete("orders", {"id": 77}))))
        with self.open([ORDERS]) as sink:
            assert sink.progress() == [Position(TOPIC, 0, 2, applied=2)]
            assert sink.apply([order(2, 2)]).duplicates == 1

    def test_progress_of_many_streams_is_kept_as_that_of_few(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is written whole while streams are few is merged into when they are more."""

        def of(stream: str, offset: int, sequence: int) -> Any:
            return TOPIC, 0, offset, value(stream, sequence, upsert("t", {"s": stream}, n=sequence))

        self.write_progress(monkeypatch)
        monkeypatch.setattr("stores.sinks.delta.batches.FEW_STREAMS", 2)
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

    def test_a_journal_that_was_deleted_loses_no_batch(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            self.write_progress(patch)
            self.apply(order(0, 1, state="new"))
        self.apply(order(1, 2, state="paid"))
        with self.open([ORDERS]) as sink:
            assert "_journal" in sink.forgetting(TOPIC)
        for file in (self.folder / "_journal").iterdir():
            file.unlink()
        done = self.apply(order(0, 1), order(1, 2), order(2, 3, state="sent"))
        # What only the journal knew to be there is applied again, and comes to the same.
        assert (done.duplicates, done.applied) == (1, 2)
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
        monkeypatch.setattr("stores.sinks.delta.store.PATIENCE", 0.0)
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1, state="shadow")])
        with self.open([ORDERS]) as live, monkeypatch.context() as patch:
            drop = live._tables.drop

            def quicker(name: str) -> None:
                patch.setattr(live._tables, "drop", drop)
                self.open().close()
                drop(name)

            patch.setattr(live._tables, "drop", quicker)
            live.switch("next", [TOPIC])
            assert live.shadows() == ["old"]
            assert live.apply([order(0, 1), order(1, 2, total=1.0)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "shadow", "total": 1.0}}

    def test_a_batch_in_hand_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.write_progress(monkeypatch)
        monkeypatch.setattr("stores.sinks.delta.store.PATIENCE", 0.3)
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1)])
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

    def test_rows_that_are_new_are_inserted_and_others_merged(self) -> None:
        def batch(sink: DeltaSink, at: int, *numbers: int) -> None:
            rows = [upsert("orders", {"id": n}, state=f"{at}") for n in numbers]
            assert sink.apply([(TOPIC, 0, at, value("a", at, *rows))]).upserts == len(numbers)

        with self.open([ORDERS]) as sink:
            batch(sink, 0, 1, 2, 3)
            batch(sink, 1, 5, 7)
            batch(sink, 2, 6, 7, 8)  # one is there, between the others
            batch(sink, 3, 9)
        with self.open([ORDERS]) as sink:  # which does not know the table
            batch(sink, 4, 10)
            batch(sink, 5, 11)
        states = {number: row["state"] for (number,), row in self.rows("orders").items()}
        assert states == {
            **{1: "0", 2: "0", 3: "0", 5: "1"},
            **{6: "2", 7: "2", 8: "2", 9: "3", 10: "4", 11: "5"},
        }
        assert self.written("orders") == ["WRITE", "WRITE", "MERGE", "MERGE", "MERGE", "WRITE"]

    def test_rows_that_somebody_else_added_meanwhile_are_not_added_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with self.open([ORDERS]) as sink, monkeypatch.context() as patch:
            run = sink._tables.run

            def later(*arguments: Any) -> Any:
                patch.setattr(sink._tables, "run", run)
                self.spark.sql(
                    f"INSERT INTO delta.`{self.folder}/orders` (id, state) VALUES (1, 'theirs')"
                )
                return run(*arguments)

            patch.setattr(sink._tables, "run", later)
            sink.apply([order(0, 1, state="ours")])
        assert self.rows("orders") == {(1,): {"state": "ours"}}
        assert self.written("orders") == ["WRITE", "MERGE"]

    def test_a_batch_that_was_cut_off_behind_inserts_is_not_inserted_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def record(offset: int) -> Any:
            both = [upsert(table, {"n": offset}, at=offset) for table in ("one", "other")]
            return TOPIC, 0, offset, value("a", offset, *both)

        self.write_progress(monkeypatch)
        for cut, steps in enumerate(("run", "run", "replace")):
            with self.open() as sink, monkeypatch.context() as patch:
                crash = _Cut(cut if steps == "run" else 0)
                patch.setattr(sink._tables, steps, crash.around(getattr(sink._tables, steps)))
                with pytest.raises(_Crash):
                    sink.apply([record(3 * cut), record(3 * cut + 1)])
            self.apply(record(3 * cut))
            self.apply(record(3 * cut + 1), record(3 * cut + 2))
            expected = {(n,): {"at": n} for n in range(3 * cut + 3)}
            assert (self.rows("one"), self.rows("other")) == (expected, expected)

    def test_rows_are_found_by_any_keys(self) -> None:
        texts = ["it's", "back\\slash", 'quo"te', "", "%s ? :x", "ümläut 表", "x" * 300, "\0"]
        numbers = [0, -(2**63), 2**63 - 1, 7]
        floats = [0.0, -1.5, 1e300, 5e-324]
        table = Table("t", {"text": str, "n": int, "x": float, "b": bool}, {"at": int})
        keys = [
            {"text": text, "n": numbers[at % 4], "x": floats[at % 4], "b": at % 2 == 0}
            for at, text in enumerate(texts)
        ]
        for at, chosen in enumerate((keys[:6], keys, keys[5:])):
            with self.open([table]) as sink:
                rows = [upsert("t", key, at=at) for key in chosen]
                sink.apply([(TOPIC, 0, at, value("a", at, *rows))])
        expected = {tuple(key.values()): {"at": 2 if key in keys[5:] else 1} for key in keys}
        assert self.rows("t") == expected

    def written(self, table: str) -> list[str]:
        """By which statements a table was written, in order."""
        log = actions(self.folder / table)
        done = [action["operation"] for name, action in log if name == "commitInfo"]
        return [operation for operation in done if not operation.startswith(("CREATE", "ADD"))]

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
