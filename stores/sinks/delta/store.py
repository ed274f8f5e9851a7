"""How far a Delta Lake read store is, and what tables it has: the half of its sink that looks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stores.sinks.dead_limit import keep_from
from stores.sinks.decoding import Mark, Stream
from stores.sinks.delta import shadow_tables
from stores.sinks.delta.catalog import folder_name, table_name, table_state
from stores.sinks.delta.dead_rows import DEAD, REMOVED, DeltaDeadRecords
from stores.sinks.delta.files import HadoopFiles
from stores.sinks.delta.journal import JournalEntry, StoreState
from stores.sinks.delta.journal_files import JournalFiles
from stores.sinks.delta.numbered_files import VersionConflict
from stores.sinks.delta.refused import refusal
from stores.sinks.delta.tables import DeltaTables
from stores.sinks.errors import DataRefused, NotYet, StoreError
from stores.sinks.limits import DELTA_LIMITS
from stores.sinks.records import Batch, check_batch
from stores.sinks.removed_offsets import Span
from stores.sinks.schema import Schema, TableState
from stores.sinks.shadows import checked_shadow, name_bytes, no_such_table, shadow_name

PROGRESS = TableState(
    "_progress",
    {"topic": str, "view": str, "stream": str},
    {"sequence": int, "epoch": int},
)
PATIENCE = 60.0
"""Seconds to wait for somebody else's batch or switch to end."""

_REMEDY = (
    "give spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
)


class DeltaStore:
    """One shadow of the store in a folder. Raises StoreError; of a value, DataRefused.

    What is known of it is kept from batch to batch, and looked up again when somebody else has
    written or a batch failed.
    """

    def __init__(self, folder: str, shadow: str | None, spark: SparkSession | None) -> None:
        self.folder = folder
        self.shadow = checked_shadow(shadow)
        spark = spark or SparkSession._instantiatedSession
        if spark is None:
            raise StoreError(f"read store {folder}: there is no Spark session to write it with")
        if "DeltaSparkSessionExtension" not in (spark.conf.get("spark.sql.extensions", "") or ""):
            raise StoreError(f"read store {folder}: the Spark session has no Delta Lake; {_REMEDY}")
        self.keep_dead = keep_from()
        self._entry = JournalEntry()
        self._state = StoreState()
        self._seen: dict[str, int | None] = {}
        self._stale = False
        self._own: set[str] = set()
        self._schema: dict[str, TableState] = {}
        self._marks: dict[Stream, Mark | None] = {}
        self._has_all_marks: bool | None = None
        self._dead: set[tuple[str, int, int]] | None = None
        self._removed: dict[tuple[str, int], list[Span]] = {}
        with self._errors():
            self._files = HadoopFiles(spark, folder)
            self._tables = DeltaTables(spark, self._files)
            self._dead_rows = DeltaDeadRecords(
                self._tables, self._folder(DEAD.name), self._folder(REMOVED.name)
            )
            self._notes = JournalFiles(self._files, shadow_name("_journal", self.shadow))
            self._look()
            if self.shadow is not None and not self._notes.versions():
                self._notes.write(self._entry)

    @contextmanager
    def _looked(self) -> Iterator[None]:
        """What is known of the store is as it is, unless what is done with it fails."""
        if self._stale or self._notes.versions()[-1:] != [self._entry.version]:
            self._look()
        self._stale = True
        yield
        self._stale = False

    def _look(self) -> None:
        """Read how far the store is, and carry to its end what was cut off and has to be."""
        folders = self._tables.names()
        end = shadow_name("", self.shadow)
        own = (PROGRESS.name, DEAD.name)
        self._own = {name for name in own if self._tables.exists(self._folder(name))}
        self._marks, self._has_all_marks, self._dead = {}, None, None
        self._schema = {}
        for folder in folders:
            base, bars, _ = folder.rpartition("__")
            mine = folder.endswith(end) if end else not bars
            view = not folder.startswith("_")
            found = self._tables.look(folder) if mine and view else None
            if found is not None:
                name = table_name(base or folder)
                self._schema[name] = table_state(name, found.schema)
        versions = self._notes.versions()
        if versions:
            self._entry = self._notes.read(versions[-1])
        else:  # one that was deleted does not begin anew below what the tables have
            names = (self._folder(name) for name in (*self._schema, *self._own))
            self._entry = JournalEntry(max(map(self._tables.version, names), default=-1) + 1)
        entry = self._entry
        if entry.switch is not None or (entry.replacing and not self._whole(entry)):
            self._ended(entry)
            self._look()
            return
        self._state = self._entry.state(self._written)
        self._stale = False

    def _ended(self, entry: JournalEntry) -> None:
        """Let whoever began a switch or a replacement end it, or do it in its place."""
        until = time.monotonic() + PATIENCE
        while self._notes.versions()[-1:] == [entry.version]:
            if entry.replacing and self._whole(entry):
                return
            if time.monotonic() > until:
                with suppress(VersionConflict):  # by another one that carried it out, too
                    self._carry_out(entry)
            time.sleep(0.2)

    def _carry_out(self, entry: JournalEntry) -> None:
        """Do what is left of a switch. Raises DataRefused where a live table does not take rows."""
        try:
            with self._errors():
                shadow_tables.carry_out(self._tables, self._files, self._notes, entry)
        except DataRefused as refused:
            raise DataRefused(
                f"{refused}; the store is in the middle of a switch, which whoever opens it "
                "completes once the live table takes the rows: drop the constraint"
            ) from refused

    def _whole(self, entry: JournalEntry) -> bool:
        return all(map(self._written, entry.steps))

    def _written(self, step: str) -> bool:
        return self._tables.version(self._folder(step)) >= self._entry.version

    def _wait(self, what: str, remedy: str) -> None:
        """Wait until no batch is in hand. Raises NotYet if one stays so."""
        until = time.monotonic() + PATIENCE
        while not self._whole(self._entry):
            if time.monotonic() > until:
                raise NotYet(
                    f"read store {self.folder}: {what} is in a batch, or its last one was cut off; "
                    f"{remedy}"
                )
            time.sleep(0.2)
            self._look()

    def _read_schema(self) -> Schema:
        tables = [table.copied(name) for name, table in self._schema.items()]
        limits = replace(DELTA_LIMITS, name_bytes=name_bytes(self.shadow))
        return Schema(tables, (), limits)

    def _folder(self, table: str) -> str:
        own = table in (PROGRESS.name, DEAD.name, REMOVED.name)
        return shadow_name(table if own else folder_name(table), self.shadow)

    def _table(self, name: str) -> TableState:
        with self._errors(), self._looked():
            table = self._schema.get(name)
        if table is None:
            raise no_such_table(name, self.shadow)
        return table

    def _last_batch(self, query: str) -> int | None:
        found = self._state.batches.get(query)
        return None if found is None else found[0]

    def _expect(self, batch: Batch | None) -> None:
        """See `check_batch`."""
        if batch is not None:
            check_batch(batch, self._last_batch(batch.query), self._seen.get(batch.query))

    def _saw(self, batch: Batch | None) -> None:
        """Remember which batch is the last one now."""
        if batch is not None:
            self._seen[batch.query] = self._last_batch(batch.query)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (Py4JJavaError, PySparkException, Py4JError, ConnectionError) as error:
            why = refusal(error)
            if why is not None:
                raise DataRefused(f"read store {self.folder}: {why}") from error
            said = error.java_exception if isinstance(error, Py4JJavaError) else error
            raise StoreError(f"read store {self.folder}: {said}") from error
