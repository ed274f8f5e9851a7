"""A read store of Delta Lake tables in one folder, written by this process's Spark session.

Every table is a Delta table. A batch writes one after the other, which no transaction holds
together, so `stores.delta_journal` notes beforehand what it will write; when a batch was cut off,
the next one leaves out what a table has already.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from stores import delta_sides
from stores.columns import Kind
from stores.delta_journal import Entry, State, Switch
from stores.delta_merge import quoted
from stores.delta_notes import Taken
from stores.delta_store import DEAD, PROGRESS, DeltaStore
from stores.reduction import Mark, Reduction, RowChange, Rows, Stream
from stores.schema import Schema, TableState
from stores.sink import (
    OLD,
    Applied,
    Batch,
    Dead,
    DeclaredTable,
    OnDead,
    OutputRecord,
    Position,
    StoreError,
    check_batch,
)

ATTEMPTS = 5
"""To write a batch while others write, too."""
KEPT_MARKS = 1_000_000
"""Streams whose marks are kept in memory, so that Spark need not look them up for every batch."""

FEW_STREAMS = 50_000
"""Up to which `_progress` is written whole: that takes half as long as to find the rows in it."""

T = TypeVar("T")


class DeltaSink(DeltaStore):
    """A `Sink` into the folder at `folder`, on any file system that Spark knows.

    tables: declared tables, made at once. side: whose tables are written. spark: a session with
    Delta Lake, else this process's own. Raises StoreError.
    """

    def __init__(
        self,
        folder: str,
        tables: Iterable[DeclaredTable] = (),
        side: str | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(folder, side, spark)
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
        records = list(records)
        return self._written_by(lambda: self._apply(records, batch, on_dead))

    def _written_by(self, work: Callable[[], T]) -> T:
        """Do it, again where somebody else was quicker to write the next entry."""
        for _ in range(ATTEMPTS):
            with suppress(Taken), self._errors():
                return work()
        raise StoreError(f"read store {self.folder}: somebody else writes it all the time")

    def _apply(
        self, records: list[OutputRecord], batch: Batch | None, on_dead: OnDead | None
    ) -> Applied:
        with self._looked():
            if batch is not None:
                check_batch(batch, self._last_batch(batch.query))
            state = self._state
            positions = {at: replace(position) for at, position in state.positions.items()}
            reduction = Reduction(self._read_schema(), self, positions, ahead=state.ahead)
            reduction.fold(records)
            ahead = state.ahead.get(DEAD.name, {})
            dead = [d for d in reduction.dead if d.offset >= ahead.get((d.topic, d.partition), 0)]
            if dead and on_dead is not None:
                on_dead(dead)
            self._make_tables(reduction.schema)
            entry = self._begin(reduction, dead, batch)
            for name, rows in reduction.rows.items():
                self._write_rows(entry, reduction.schema.tables[name], rows)
                gone = sum(change.values is None for change in rows.values())
                reduction.applied.deletes += gone
                reduction.applied.upserts += len(rows) - gone
            self._save_dead(entry, dead)
            self._save_progress(entry, reduction)
            self._state = entry.after
            self._keep(reduction, dead)
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
            self._note([], self._state.at(positions))
            self._state = self._entry.after

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """See `Sink.rows`."""
        found = self._table(table)
        with self._errors():
            frame = self._tables.frame(self._folder(table)).orderBy(*map(quoted, found.key))
            names = [*found.key, *found.columns]
            for row in frame.select(*map(quoted, names)).toLocalIterator():
                yield {name: v for name, v in zip(names, row, strict=True) if v is not None}

    def count(self, table: str) -> int:
        """See `Sink.count`."""
        self._table(table)
        with self._errors():
            return self._tables.frame(self._folder(table)).count()

    def sides(self) -> list[str]:
        """See `Sink.sides`."""
        with self._errors():
            return delta_sides.names(self._files)

    def switch(self, side: str, topics: Iterable[str]) -> None:
        """See `Sink.switch`."""
        if self.side is not None:
            raise StoreError(f"side {self.side!r} is no place to switch to; use the live sink")
        if side not in self.sides() or side == OLD:
            raise StoreError(f"side {side!r} is not there to switch to")
        with DeltaSink(self.folder, (), side, self._tables.spark) as there:
            there._wait("the side", "let it go on before it is switched to")
            positions, tables = there.progress(), sorted(there._schema)
        switch = Switch(side, list(topics), tables)
        with self._errors(), self._looked():
            self._wait("the store", "let its materializer go on")
            version = self._entry.version + 1
            entry = delta_sides.prepared(self._tables, version, self._state, switch, positions)
            try:
                self._notes.write(entry)
            except Taken:
                raise StoreError(
                    f"read store {self.folder}: a batch came in between; switch again"
                ) from None
            delta_sides.carry_out(self._tables, self._files, self._notes, entry)
            self._look()

    def drop(self, side: str) -> None:
        """See `Sink.drop`."""
        with self._errors():
            delta_sides.drop(self._tables, self._files, side)

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What a reduction asks.

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """See `Stored.marks`."""
        streams = list(streams)
        if self._whole is None:
            self._whole = self._read_progress()
        unknown = [stream for stream in streams if stream not in self._marks]
        if len(self._marks) + len(unknown) > KEPT_MARKS:
            self._marks, unknown, self._whole = {}, streams, False
        self._marks.update(dict.fromkeys(unknown))
        if unknown and not self._whole:
            names = list(PROGRESS.key)
            wanted = pa.table(dict(zip(names, zip(*unknown, strict=True), strict=True)))
            for row in self._tables.matching(self._folder(PROGRESS.name), wanted).collect():
                self._marks[row["topic"], row["view"], row["stream"]] = row.epoch, row.sequence
        found = ((stream, self._marks[stream]) for stream in streams)
        return {stream: mark for stream, mark in found if mark is not None}

    def _read_progress(self) -> bool:
        """Look at all streams at once, if they are few; whether they are."""
        if PROGRESS.name not in self._own:
            return True
        frame = self._tables.frame(self._folder(PROGRESS.name))
        rows = frame.limit(FEW_STREAMS + 1).collect()
        if len(rows) > FEW_STREAMS:
            return False
        for row in rows:
            self._marks[row["topic"], row["view"], row["stream"]] = row.epoch, row.sequence
        return True

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """See `Stored.is_dead`."""
        known = self._dead
        if known is None:
            known = self._dead = set()
            if DEAD.name in self._own:
                at = self._tables.frame(self._folder(DEAD.name)).select(*DEAD.key)
                known.update((row[0], row[1], row[2]) for row in at.toLocalIterator())
        return (topic, partition, offset) in known

    def forgetting(self, topic: str) -> str:
        """See `Stored.forgetting`."""
        return f"delete the folder {self._files.path(self._notes.folder)}"

    # A batch, step by step.

    def _make_tables(self, schema: Schema) -> None:
        columns: dict[str, dict[str, Kind]] = {}
        for table, column in schema.added:
            if column is not None and table.exists:
                columns.setdefault(table.name, {})[column] = table.columns[column]
            elif column is None:
                self._tables.create(self._folder(table.name), table)
        for name, added in columns.items():
            self._tables.add_columns(self._folder(name), added)
        self._schema = {name: table.copied(name) for name, table in schema.tables.items()}

    def _begin(self, reduction: Reduction, dead: list[Dead], batch: Batch | None) -> Entry:
        """Note what is about to be written."""
        steps = [name for name, rows in reduction.rows.items() if rows]
        for table, needed in ((DEAD, bool(dead)), (PROGRESS, bool(reduction.moved))):
            if needed:
                steps.append(table.name)
                if table.name not in self._own:
                    self._tables.create(self._folder(table.name), table)
                    self._own.add(table.name)
        batches = {}
        if batch is not None:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            batches[batch.query] = (batch.number, at, reduction.applied.records)
        return self._note(steps, self._state.moved(reduction.positions, batches))

    def _write_rows(self, entry: Entry, table: TableState, rows: Rows) -> None:
        if rows:
            self._tables.merge(self._folder(table.name), table, rows, entry.version)

    def _save_dead(self, entry: Entry, dead: list[Dead]) -> None:
        values = (({"reason": d.reason, "value": d.value}, False) for d in dead)
        rows = {d[:3]: RowChange(*v) for d, v in zip(dead, values, strict=True)}
        self._write_rows(entry, DEAD, rows)

    def _save_progress(self, entry: Entry, reduction: Reduction) -> None:
        moved = {stream: reduction.marks[stream] for stream in reduction.moved}
        if moved and self._whole:
            known = {stream: mark for stream, mark in self._marks.items() if mark is not None}
            known |= moved
            if len(known) <= FEW_STREAMS:
                folder = self._folder(PROGRESS.name)
                self._tables.replace(folder, _progress(known), entry.version)
                return
            self._whole = False
        rows: Rows = {}
        for stream, (epoch, sequence) in moved.items():
            rows[stream] = RowChange({"sequence": sequence, "epoch": epoch}, False)
        self._write_rows(entry, PROGRESS, rows)

    def _note(self, steps: list[str], after: State) -> Entry:
        """Write the next entry. Raises Taken if somebody else has written one."""
        entry = Entry(self._entry.version + 1, steps, self._state, after)
        self._notes.write(entry)
        self._entry = entry
        return entry

    def _keep(self, reduction: Reduction, dead: list[Dead]) -> None:
        """Remember what was written."""
        for stream in reduction.moved:
            self._marks[stream] = reduction.marks[stream]
        if self._dead is not None:
            self._dead.update(d[:3] for d in dead)


def _progress(marks: Mapping[Stream, Mark]) -> pa.Table:
    """The rows of `_progress`."""
    columns = zip(*((*stream, *mark) for stream, mark in marks.items()), strict=True)
    names = (*PROGRESS.key, "epoch", "sequence")
    return pa.table(dict(zip(names, columns, strict=True)))
