"""A writer whose batch was taken for cut off, though it is at work, loses no record."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stores.sinks import Batch, NotYet, OutputRecord, Position
from stores.sinks.contract import ORDERS, TOPIC, upsert, value
from stores.sinks.dead_limit import DeadCount
from stores.sinks.delta import batches
from stores.sinks.delta.files import HadoopFiles
from stores.sinks.delta.numbered_files import KEPT, NumberedFiles, VersionConflict
from stores.sinks.delta.sink import DeltaSink
from stores.sinks.distributed import NotDistributed
from tests.stores.sinks.delta.distributed import framed
from tests.stores.sinks.delta.tested_store import DeltaStore

pytestmark = pytest.mark.integration

Apply = Callable[[DeltaSink, list[OutputRecord]], Any]


def record(offset: int) -> OutputRecord:
    """The first record of a stream, which has one row."""
    row = upsert("orders", {"id": offset}, state="there")
    return TOPIC, 0, offset, value(f"s{offset}", 1, row)


def by_driver(sink: DeltaSink, records: list[OutputRecord]) -> Any:
    return sink.apply(records, Batch("q", 0))


def by_tasks(sink: DeltaSink, records: list[OutputRecord]) -> Any:
    try:
        return sink.apply_frame(framed(sink._tables.spark, records), Batch("q", 0))
    except NotDistributed:  # since records come again
        return by_driver(sink, records)


class TestTwoWriters(DeltaStore):
    @pytest.mark.parametrize(
        ("apply", "step", "noted"),
        [
            (by_driver, "_write_rows", 20),
            (by_driver, "_write_rows", 2),  # so that the first one writes `_progress`
            (by_tasks, "_write_staged", 20),
        ],
    )
    def test_a_batch_that_was_taken_for_cut_off_is_applied_to_what_is_there(
        self, apply: Apply, step: str, noted: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(batches, "NOTED_BATCHES", noted)
        self.apply(record(0))
        with self.open([ORDERS]) as one, self.open([ORDERS]) as other:
            self._before(one, step, lambda: other.apply([record(1)]))
            done = apply(one, [record(1), record(2), record(3)])
            assert (done.replayed, done.applied, done.duplicates) == (1, 2, 0)
            assert one.last_batch("q") == 0
            assert other.progress() == one.progress() == [Position(TOPIC, 0, 4, applied=4)]
        assert sorted(self.rows("orders")) == [(0,), (1,), (2,), (3,)]

    def test_a_batch_that_was_whole_is_not_applied_again(self) -> None:
        with self.open([ORDERS]) as one, self.open([ORDERS]) as other:
            self._behind(one, "_save_progress", lambda: other.apply([record(1)]))
            done = one.apply([record(0)], Batch("q", 0))
            assert (done.replayed, done.applied) == (1, 0)
            assert one.apply([record(2)], Batch("q", 1)).applied == 1
        assert sorted(self.rows("orders")) == [(0,), (1,), (2,)]

    def test_a_batch_that_went_on_meanwhile_is_not_taken_for_cut_off(self) -> None:
        with self.open([ORDERS]) as one, self.open([ORDERS]) as other:
            write, replayed = one._write_rows, []

            def looked_at(*arguments: Any) -> None:
                setattr(one, "_write_rows", write)  # noqa: B010
                self._behind(other, "_make_tables", lambda: write(*arguments))
                replayed.append(other.apply([record(0)]).replayed)

            setattr(one, "_write_rows", looked_at)  # noqa: B010
            one.apply([record(0), record(1)], Batch("q", 0))
            assert (replayed, one.last_batch("q")) == ([1], 0)
        assert sorted(self.rows("orders")) == [(0,), (1,)]

    def test_a_batch_before_a_switch_does_not_take_the_shadow_s_marks_back(self) -> None:
        def after(sequence: int, offset: int) -> OutputRecord:
            row = upsert("orders", {"id": 1}, state=f"s{sequence}")
            return TOPIC, 0, offset, value("a", sequence, row)

        with self.open([ORDERS]) as live, self.open([ORDERS]) as other:
            live.apply([after(1, 0)])
            with self.open([ORDERS], "next") as shadow:
                shadow.apply([after(sequence, sequence - 1) for sequence in range(1, 5)])
            self._behind(live, "_save_noted", lambda: other.apply([after(2, 1)]))
            with pytest.raises(NotYet, match="in between"):
                live.switch("next", [TOPIC])
            live.switch("next", [TOPIC])
            assert live.apply([after(3, 2), after(4, 3), after(5, 4)]).duplicates == 2
        assert self.rows("orders") == {(1,): {"state": "s5"}}

    def test_two_who_remove_dead_records_at_once_lose_none(self) -> None:
        self.apply(*((topic, 0, 0, b"dead") for topic in "abcd"))
        with self.open([ORDERS]) as one, self.open([ORDERS]) as other:
            for step, mine, theirs in (("spans", "a", "b"), ("removals", "c", "d")):
                self._behind(one._dead_rows, step, partial(other.remove_dead, theirs))
                assert one.remove_dead(mine) == 1
            assert one.dead_counts() == [DeadCount(topic, 0, 0, 1) for topic in "abcd"]
            assert sorted(str(each.topic) for each in one.removals(9)) == list("abcd")

    def _before(self, sink: DeltaSink, step: str, work: Callable[[], Any]) -> None:
        """Let another writer work before a step is done for the first time."""
        do = getattr(sink, step)

        def overtaken(*arguments: Any) -> Any:
            setattr(sink, step, do)
            work()
            return do(*arguments)

        setattr(sink, step, overtaken)

    def _behind(self, sink: object, step: str, work: Callable[[], Any]) -> None:
        """Let another writer work behind a step that is done for the first time."""
        do = getattr(sink, step)

        def overtaken(*arguments: Any) -> Any:
            setattr(sink, step, do)
            done = do(*arguments)
            work()
            return done

        setattr(sink, step, overtaken)


def test_a_number_that_was_deleted_is_not_taken_again(spark: SparkSession, tmp_path: Path) -> None:
    files = NumberedFiles(HadoopFiles(spark, str(tmp_path)), "numbered")
    for version in range(KEPT + 2):
        files.add(version, b"")
    with pytest.raises(VersionConflict):
        files.add(1, b"")
    assert files.versions() == list(range(2, KEPT + 2))
