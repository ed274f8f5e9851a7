"""A read store of Delta Lake tables in one folder, written by this process's Spark session.

Every table is a Delta table. A batch writes one after the other, which no transaction holds
together, so `stores.sinks.delta.journal` notes beforehand what it will write; when a batch was cut
off, the next one leaves out what a table has already.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from typing import Any, Self, TypeVar

from pyspark.sql import DataFrame, SparkSession

from stores.sinks.dead_limit import DeadCount, Removal, StoredDead
from stores.sinks.delta import shadow_tables
from stores.sinks.delta.batches import BatchPlan
from stores.sinks.delta.distributed import DistributedBatches
from stores.sinks.delta.journal import JournalEntry, Switch
from stores.sinks.delta.merge import quoted, selected
from stores.sinks.delta.numbered_files import VersionConflict
from stores.sinks.delta.rows import read_cell
from stores.sinks.distributed import NotDistributed
from stores.sinks.errors import DataRefused, NotYet, StoreError
from stores.sinks.halving import Refusals, apply_with_refused
from stores.sinks.records import (
    Applied,
    Batch,
    OnDead,
    OutputRecord,
    Position,
    check_at,
)
from stores.sinks.reduction import Reduction
from stores.sinks.replacement import fold_replacement
from stores.sinks.row_changes import gc_paused
from stores.sinks.shadows import OLD, check_live
from stores.sinks.sink import DeclaredTable

ATTEMPTS = 5
"""To write a batch while others write, too."""

T = TypeVar("T")


class DeltaSink(DistributedBatches):
    """A `Sink` into the folder at `folder`, on any file system that Spark knows.

    tables: declared tables, made at once. shadow: whose tables are written. spark: a session with
    Delta Lake, else this process's own. Raises StoreError.
    """

    def __init__(
        self,
        folder: str,
        tables: Iterable[DeclaredTable] = (),
        shadow: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(folder, shadow, spark)
        with self._errors():
            schema = self._read_schema()
            for table in tables:
                schema.declare(table)
            self._make_tables(schema)

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """See `Sink.apply`."""
        with gc_paused():
            return apply_with_refused(
                lambda *given: self._written_by(lambda: self._apply(*given)),
                list(records), batch, on_dead,
            )  # fmt: skip

    def apply_frame(
        self, frame: DataFrame, batch: Batch | None = None, on_dead: OnDead | None = None
    ) -> Applied:
        """See `FrameSink.apply_frame`."""
        try:
            return self._written_by(lambda: self._apply_frame(frame, batch, on_dead))
        except DataRefused as refused:
            raise NotDistributed(str(refused)) from refused

    def _written_by(self, work: Callable[[], T]) -> T:
        """Do it, again where somebody else was quicker to write the next entry."""
        for _ in range(ATTEMPTS):
            with suppress(VersionConflict), self._errors():
                return work()
        raise StoreError(f"read store {self.folder}: somebody else writes it all the time")

    def _apply(
        self,
        records: list[OutputRecord],
        batch: Batch | None,
        on_dead: OnDead | None,
        refused: Refusals,
    ) -> Applied:
        with self._looked():
            self._expect(batch)
            state = self._state
            self._look_ahead()
            positions = {at: replace(position) for at, position in state.positions.items()}
            reduction = Reduction(self._read_schema(), self, positions, refused, state.ahead)
            reduction.fold(records)
            dead = self._to_bury(reduction.dead, on_dead)
            self._make_tables(reduction.schema)
            entry = self._begin(BatchPlan.of(reduction, dead), batch)
            self._write(entry, reduction, dead)
            self._saw(batch)
        return reduction.applied

    def replace_streams(self, records: Iterable[OutputRecord], at: Iterable[Position]) -> Applied:
        """See `Sink.replace_streams`. Who opens the store next completes one that is cut off."""
        in_order, at = sorted(records, key=itemgetter(0, 1, 2)), list(at)
        return self._written_by(lambda: self._replace_streams(in_order, at))

    def _replace_streams(self, records: list[OutputRecord], at: list[Position]) -> Applied:
        with self._looked():
            self._wait("the store", "let its materializer go on")
            state = self._state
            check_at(at, state.positions)
            topics = {position.topic for position in at}
            if any(topic in topics for ends in state.ahead.values() for topic, _ in ends):
                raise NotYet(
                    f"read store {self.folder}: a batch of it was cut off, so that its tables are "
                    "not equally far; let its materializer go on"
                )
            reduction = fold_replacement(self._read_schema(), records)
            self._make_tables(reduction.schema)
            entry = self._begin(BatchPlan.of(reduction), None, records)
            with self._giving_up(entry):
                self._write(entry, reduction, [])
        return reduction.applied

    def last_batch(self, query: str) -> int | None:
        """See `Sink.last_batch`."""
        with self._errors(), self._looked():
            return self._last_batch(query)

    def progress(self) -> list[Position]:
        """See `Sink.progress`."""
        with self._errors(), self._looked():
            return [position for _, position in sorted(self._state.positions.items())]

    def seek(self, positions: Iterable[Position]) -> None:
        """See `Sink.seek`."""
        positions = list(positions)
        self._written_by(lambda: self._seek(positions))

    def _seek(self, positions: list[Position]) -> None:
        with self._looked():
            self._note(
                JournalEntry(self._entry.version + 1, [], self._state, self._state.at(positions))
            )
            self._state = self._entry.after

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """See `Sink.rows`."""
        found = self._table(table)
        with self._errors():
            frame = self._tables.frame(self._folder(table)).orderBy(*map(quoted, found.key))
            kinds = {**found.key, **found.columns}
            for row in frame.selectExpr(*map(selected, kinds, kinds.values())).toLocalIterator():
                pairs = zip(kinds.items(), row, strict=True)
                yield {name: read_cell(v, kind) for (name, kind), v in pairs if v is not None}

    def count(self, table: str) -> int:
        """See `Sink.count`."""
        self._table(table)
        with self._errors():
            return self._tables.frame(self._folder(table)).count()

    def shadows(self) -> list[str]:
        """See `Sink.shadows`."""
        with self._errors():
            return shadow_tables.names(self._files)

    def switch(self, shadow: str, topics: Iterable[str]) -> None:
        """See `Sink.switch`."""
        check_live(self.shadow)
        if shadow not in self.shadows() or shadow == OLD:
            raise StoreError(f"shadow tables {shadow!r} are not there to switch to")
        with DeltaSink(self.folder, (), shadow, self._tables.spark) as there:
            there._wait("the shadow", "let it go on before it is switched to")
            there._written_by(there._save_noted)
            positions, tables = there.progress(), sorted(there._schema)
        switch = Switch(shadow, list(topics), tables)
        self._written_by(self._save_noted)
        with self._errors(), self._looked():
            self._wait("the store", "let its materializer go on")
            if self._state.marks:  # which only the journal has, and the shadow's have to overrule
                raise NotYet(f"read store {self.folder}: a batch came in between; switch again")
            version = self._entry.version + 1
            entry = shadow_tables.prepared(self._tables, version, self._state, switch, positions)
            try:
                self._notes.write(entry)
            except VersionConflict:
                raise NotYet(
                    f"read store {self.folder}: a batch came in between; switch again"
                ) from None
            self._carry_out(entry)
            self._look()

    def drop(self, shadow: str) -> None:
        """See `Sink.drop`."""
        with self._errors():
            shadow_tables.drop(self._tables, self._files, shadow)

    def dead_counts(self) -> list[DeadCount]:
        """See `Sink.dead_counts`."""
        with self._errors():
            return self._dead_rows.counts()

    def last_dead(self, limit: int) -> list[StoredDead]:
        """See `Sink.last_dead`."""
        with self._errors():
            return self._dead_rows.last(limit)

    def remove_dead(
        self, topic: str | None = None, before: int | None = None, *, dry_run: bool = False,
        by: str = "", why: str = "",
    ) -> int:  # fmt: skip
        """See `Sink.remove_dead`."""
        with self._errors():
            places = self._dead_rows.chosen(topic, before)
            if not dry_run:
                self._remove(places)
                if places:
                    removal = Removal(int(time.time()), by, why, topic, len(places))
                    self._dead_rows.record(removal)
        return len(places)

    def removals(self, limit: int) -> list[Removal]:
        """See `Sink.removals`."""
        with self._errors():
            return self._dead_rows.removals(limit)

    def close(self) -> None:
        """Let what goes on in the background end; nothing is open."""
        self._tables.wait()

    def _save_noted(self) -> None:
        with self._looked():
            self._wait("the store", "let its materializer go on")  # or its batch would be lost
            self._save_marks()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
