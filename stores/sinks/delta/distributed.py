"""The part of a Delta Lake read store that writes large batches, whose rows stay with Spark.

The driver sees what each part of a batch came to, and notes, as for any batch, what will be
written; each table is then written by one statement from the rows where they are.
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from stores.sinks.decoding import Mark, Stream
from stores.sinks.delta.batches import BatchPlan, DeltaBatches
from stores.sinks.delta.folding import (
    STAGED,
    STAGED_STREAMS,
    DeltaFold,
    DeltaPart,
    Merging,
    merged,
    staged_streams,
)
from stores.sinks.delta.journal import JournalEntry
from stores.sinks.delta.rows import UPSERT, MergePlan
from stores.sinks.delta.store import PROGRESS
from stores.sinks.distributed import NotDistributed, TasksFailed
from stores.sinks.records import Applied, Batch, OnDead, Position
from stores.sinks.schema import TableState

COME_AGAIN = 10_000
"""Streams of which records come again, up to which a batch is folded anew rather than here."""
_STREAMS = MergePlan(list(PROGRESS.columns), False, frozenset((UPSERT,)), {})


class Staged:
    """The rows that came of all parts of a batch, kept by Spark until they are written."""

    def __init__(self, frame: DataFrame, fold: DeltaFold) -> None:
        self._buckets = fold.buckets
        self._rows = frame.mapInArrow(lambda part: fold(part), from_arrow_schema(STAGED)).persist()

    def parts(self) -> list[DeltaPart]:
        """What the parts came to, in their order. Raises NotDistributed."""
        parts = self._rows.where("name IS NULL").orderBy("topic", "partition").select("rows")
        try:
            found: list[DeltaPart] = [pickle.loads(rows) for (rows,) in parts.collect()]
        except (PySparkException, Py4JJavaError) as error:
            raise TasksFailed(str(error)) from error
        seen = set[tuple[str, int]]()
        for part in found:
            if part.refused is not None:
                raise NotDistributed(part.refused)
            for at in ((position.topic, position.partition) for position in part.positions):
                if at in seen:
                    raise NotDistributed(
                        f"records of topic {at[0]!r} partition {at[1]} were folded by several tasks"
                    )
                seen.add(at)
        return found

    def rows(self, table: TableState, plan: MergePlan) -> DataFrame:
        """The rows of a table, one for each key."""
        merging = Merging(table, plan)
        found = self._rows.where(F.col("name") == table.name).repartition(self._buckets, "bucket")
        return found.mapInArrow(lambda rows: merging(rows), from_arrow_schema(merging.schema))

    def streams(self) -> DataFrame:
        """The rows of `_progress`, as `STAGED_STREAMS` has them."""
        found = self._rows.where(F.col("name") == PROGRESS.name)
        return found.mapInArrow(staged_streams, from_arrow_schema(STAGED_STREAMS))

    def forget(self) -> None:
        """Let Spark drop them."""
        self._rows.unpersist()


class DistributedBatches(DeltaBatches):
    """A `DeltaBatches` with large batches as well. Raises what Spark raises."""

    @property
    def _buckets(self) -> int:
        """Of keys: as many as tasks run at once."""
        return int(self._tables.spark.sparkContext.defaultParallelism)

    def _apply_frame(
        self, frame: DataFrame, batch: Batch | None, on_dead: OnDead | None
    ) -> Applied:
        with self._looked():
            self._expect(batch)
            self._save_marks()  # since tasks go by what the table says
            with self._folded(frame) as (staged, parts):
                applied = self._write_parts(staged, parts, batch, on_dead)
            self._saw(batch)
            return applied

    @contextmanager
    def _folded(self, frame: DataFrame) -> Iterator[tuple[Staged, list[DeltaPart]]]:
        """Fold a batch; once more where records of streams come again. Raises NotDistributed."""
        state, known = self._state, dict[Stream, Mark]()
        for _ in range(2):
            positions = {at: replace(position) for at, position in state.positions.items()}
            fold = DeltaFold(self._read_schema(), positions, state.ahead, known, self._buckets)
            staged = Staged(frame, fold)
            try:
                parts = staged.parts()
                known = self._behind(staged)
                if not known:
                    yield staged, parts
                    return
            finally:
                staged.forget()
        raise NotDistributed("streams moved while they were looked at")

    def _behind(self, staged: Staged) -> dict[Stream, Mark]:
        """The streams that the store has further than where they begin in a batch."""
        folder = self._folder(PROGRESS.name) if PROGRESS.name in self._own else None
        found = self._tables.behind(folder, staged.streams(), COME_AGAIN + 1)
        for _, _, stream, *_, times in found:
            if times > 1:
                raise NotDistributed(f"stream {stream!r} is in several partitions")
        if len(found) > COME_AGAIN:
            raise NotDistributed("records of many streams come again")
        return {
            (topic, view, stream): (epoch, sequence)
            for topic, view, stream, epoch, sequence, _ in found
        }

    def _write_parts(
        self, staged: Staged, parts: list[DeltaPart], batch: Batch | None, on_dead: OnDead | None
    ) -> Applied:
        applied, schema = Applied(), self._schema
        positions: dict[tuple[str, int], Position] = {}
        for part in parts:
            applied.add(part.applied)
            positions |= {(each.topic, each.partition): each for each in part.positions}
        names = dict.fromkeys(name for part in parts for name in part.plans)
        plans = {
            name: merged(schema[name], [part.plans[name] for part in parts if name in part.plans])
            for name in names
        }
        dead = self._to_bury((each for part in parts for each in part.dead), on_dead)
        moved = any(part.moved for part in parts)
        streams = None if moved else dict[Stream, Mark]()
        plan = BatchPlan(list(plans), bool(dead), streams, positions, applied)
        entry = self._begin(plan, batch)
        for name in names:
            self._write_staged(entry, schema[name], staged, plans[name])
        self._save_dead(entry, dead)
        if moved:
            self._save_streams(entry, staged)
        self._notes.check_last(entry)
        self._state = entry.after
        # What is known of streams is what the table says from now on.
        self._marks, self._has_all_marks = {}, None
        self._bury(dead)
        return applied

    def _write_staged(
        self, entry: JournalEntry, table: TableState, staged: Staged, plan: MergePlan
    ) -> None:
        folder = self._folder(table.name)
        self._tables.merge_rows(folder, table, staged.rows(table, plan), plan, entry.version)

    def _save_streams(self, entry: JournalEntry, staged: Staged) -> None:
        self._notes.check_last(entry)
        rows = staged.streams().where("v0 IS NOT NULL")
        folder = self._folder(PROGRESS.name)
        self._tables.merge_rows(folder, PROGRESS, rows, _STREAMS, entry.version)
