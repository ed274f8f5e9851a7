"""A read store of Delta Lake tables in one folder, written by this process's Spark session.

Every table is a Delta table. A batch writes one after the other, which no transaction holds
together, so `stores.delta_journal` notes beforehand what it will write; when a batch was cut off,
the next one leaves out what a table has already.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stores import delta_sides, own_tables
from stores.columns import Kind
from stores.delta_files import Files
from stores.delta_journal import Entry, State, Switch
from stores.delta_merge import quoted
from stores.delta_notes import Notes, Taken
from stores.delta_tables import Tables, folder_name, state, table_name
from stores.own_tables import on_side
from stores.reduction import Mark, Reduction, RowChange, Rows, Stream
from stores.schema import Limits, Schema, TableState
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
    checked_side,
)

PROGRESS = TableState(
    "_progress",
    {"topic": str, "view": str, "stream": str},
    {"sequence": int, "epoch": int},
)
DEAD = TableState(
    "_dead", {"topic": str, "partition": int, "offset": int}, {"reason": str, "value": bytes}
)
PATIENCE = 60.0
"""Seconds to wait for somebody else's batch or switch to end."""
ATTEMPTS = 5
"""To write a batch while others write, too."""
KEPT_MARKS = 1_000_000
"""Streams whose marks are kept in memory, so that Spark need not look them up for every batch."""
_REMEDY = (
    "give spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
)


class DeltaSink:
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
        self.folder = folder
        self.side = checked_side(side)
        spark = spark or SparkSession._instantiatedSession
        if spark is None:
            raise StoreError(f"read store {folder}: there is no Spark session to write it with")
        if "DeltaSparkSessionExtension" not in (spark.conf.get("spark.sql.extensions", "") or ""):
            raise StoreError(f"read store {folder}: the Spark session has no Delta Lake; {_REMEDY}")
        with self._errors():
            self._files = Files(spark, folder)
            self._tables = Tables(spark, self._files)
            self._notes = Notes(self._files, on_side("_journal", self.side))
            self._look()
            if self.side is not None and not self._notes.versions():
                self._notes.write(self._entry)
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
        for _ in range(ATTEMPTS):
            with suppress(Taken), self._errors():
                return self._apply(records, batch, on_dead)
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
        with self._errors(), self._looked():
            self._note([], self._state.at(list(positions)))
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
        unknown = [stream for stream in streams if stream not in self._marks]
        if len(self._marks) + len(unknown) > KEPT_MARKS:
            self._marks, unknown = {}, streams
        self._marks.update(dict.fromkeys(unknown))
        if unknown and PROGRESS.name in self._own:
            names = list(PROGRESS.key)
            wanted = pa.table(dict(zip(names, zip(*unknown, strict=True), strict=True)))
            for row in self._tables.matching(self._folder(PROGRESS.name), wanted).collect():
                self._marks[row["topic"], row["view"], row["stream"]] = row.epoch, row.sequence
        found = ((stream, self._marks[stream]) for stream in streams)
        return {stream: mark for stream, mark in found if mark is not None}

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """See `Stored.is_dead`."""
        if self._dead is None:
            self._dead = set()
            if DEAD.name in self._own:
                at = self._tables.frame(self._folder(DEAD.name)).select(*DEAD.key)
                self._dead.update((row[0], row[1], row[2]) for row in at.toLocalIterator())
        return (topic, partition, offset) in self._dead

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
        rows: Rows = {}
        for stream in reduction.moved:
            epoch, sequence = reduction.marks[stream]
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

    # Looking.

    @contextmanager
    def _looked(self) -> Iterator[None]:
        """What is known of the store is as it is, unless what is done with it fails."""
        if self._stale or self._notes.versions()[-1:] != [self._entry.version]:
            self._look()
        self._stale = True
        yield
        self._stale = False

    def _look(self) -> None:
        """Read how far the store is, and carry a switch that was cut off to its end."""
        folders = self._tables.names()
        end = on_side("", self.side)
        self._own = {t.name for t in (PROGRESS, DEAD) if self._folder(t.name) in folders}
        self._marks: dict[Stream, Mark | None] = {}
        self._dead: set[tuple[str, int, int]] | None = None
        self._schema = {}
        newest = -1
        for folder in folders:
            base, bars, _ = folder.rpartition("__")
            mine = folder.endswith(end) if end else not bars
            found = self._tables.look(folder) if mine else None
            if found is not None:
                newest = max(newest, found.version)
                if not folder.startswith("_"):
                    name = table_name(base or folder)
                    self._schema[name] = state(name, found.schema)
        versions = self._notes.versions()
        # A journal that was deleted does not begin below what the tables have.
        self._entry = self._notes.read(versions[-1]) if versions else Entry(newest + 1)
        if self._entry.switch is not None:
            self._switched(self._entry)
            self._look()
            return
        self._state = self._entry.state(self._written)
        self._stale = False

    def _switched(self, entry: Entry) -> None:
        """Let whoever switches end, or do it in its place."""
        until = time.monotonic() + PATIENCE
        while self._notes.versions()[-1:] == [entry.version]:
            if time.monotonic() > until:
                delta_sides.carry_out(self._tables, self._files, self._notes, entry)
            time.sleep(0.2)

    def _written(self, step: str) -> bool:
        found = self._tables.look(self._folder(step))
        return found is not None and found.version >= self._entry.version

    def _wait(self, what: str, remedy: str) -> None:
        """Wait until no batch is in hand. Raises StoreError if one stays so."""
        until = time.monotonic() + PATIENCE
        while not all(map(self._written, self._entry.steps)):
            if time.monotonic() > until:
                raise StoreError(
                    f"read store {self.folder}: {what} is in a batch, or its last one was cut off; "
                    f"{remedy}"
                )
            time.sleep(0.2)
            self._look()

    def _read_schema(self) -> Schema:
        tables = [table.copied(name) for name, table in self._schema.items()]
        return Schema(tables, (), Limits(own_tables.room(self.side), exact=False))

    def _folder(self, table: str) -> str:
        own = table in (PROGRESS.name, DEAD.name)
        return on_side(table if own else folder_name(table), self.side)

    def _table(self, name: str) -> TableState:
        with self._errors(), self._looked():
            table = self._schema.get(name)
        if table is None:
            where = "the read store" if self.side is None else f"side {self.side!r}"
            raise StoreError(f"table {name!r}: {where} has no such table")
        return table

    def _last_batch(self, query: str) -> int | None:
        found = self._state.batches.get(query)
        return None if found is None else found[0]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise StoreError(f"read store {self.folder}: {error.java_exception}") from error
        except (PySparkException, Py4JError, ConnectionError) as error:
            raise StoreError(f"read store {self.folder}: {error}") from error
