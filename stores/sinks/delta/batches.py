"""The half of a Delta Lake read store that writes: batches, step by step."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, Self

import pyarrow as pa

from stores.sinks.columns import Kind
from stores.sinks.dead_limit import Place
from stores.sinks.decoding import Mark, Stream
from stores.sinks.delta.dead_rows import DEAD
from stores.sinks.delta.journal import JournalEntry
from stores.sinks.delta.numbered_files import VersionConflict
from stores.sinks.delta.store import PROGRESS, DeltaStore
from stores.sinks.errors import DataRefused
from stores.sinks.records import (
    Applied,
    Batch,
    DeadRecord,
    OnDead,
    OutputRecord,
    Position,
    is_behind,
)
from stores.sinks.reduction import FEW, MANY, Reduction
from stores.sinks.removed_offsets import has
from stores.sinks.replacement import fold_replacement
from stores.sinks.row_changes import TableChanges
from stores.sinks.schema import Schema, TableState

KEPT_MARKS = 1_000_000
"""Streams whose marks are kept in memory, so that Spark need not look them up for every batch."""

FEW_STREAMS = 50_000
"""Up to which `_progress` is written whole: that takes half as long as to find the rows in it."""

NOTED_MARKS = 1_000
"""Streams whose marks an entry of the journal may hold, so that `_progress` need not be written."""

NOTED_BATCHES = 20
"""Every so many entries it is written nonetheless."""

log = logging.getLogger("read store")


class BatchPlan(NamedTuple):
    """What a batch is going to write, besides the journal.

    tables: that have row changes. dead: whether records are dead. moved: how far streams are then,
    or None where this is not known here. positions: after the batch. applied: what becomes of its
    records.
    """

    tables: Sequence[str]
    dead: bool
    moved: Mapping[Stream, Mark] | None
    positions: Mapping[tuple[str, int], Position]
    applied: Applied

    @classmethod
    def of(cls, reduction: Reduction, dead: Sequence[DeadRecord] = ()) -> Self:
        """That of a batch which was folded here."""
        tables = [name for name, rows in reduction.rows.items() if rows.values]
        moved = {stream: reduction.marks[stream] for stream in reduction.moved}
        return cls(tables, bool(dead), moved, reduction.positions, reduction.applied)


class DeltaBatches(DeltaStore):
    """One shadow of the store, with the steps of a batch. Raises what Spark raises."""

    # What a reduction asks.

    @property
    def at_once(self) -> int:
        """See `StoredProgress.at_once`."""
        return MANY if self._has_all_marks is False else FEW

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """See `StoredProgress.marks`."""
        streams, noted = list(streams), self._state.marks
        if self._has_all_marks is None:
            self._has_all_marks = self._read_progress()
        unknown = [stream for stream in streams if stream not in self._marks]
        if len(self._marks) + len(unknown) > KEPT_MARKS:
            self._marks, unknown, self._has_all_marks = {}, streams, False
        self._marks.update(dict.fromkeys(unknown))
        if unknown and not self._has_all_marks and PROGRESS.name in self._own:
            names = list(PROGRESS.key)
            wanted = pa.table(dict(zip(names, zip(*unknown, strict=True), strict=True)))
            for row in self._tables.matching(self._folder(PROGRESS.name), wanted).collect():
                self._marks[row["topic"], row["view"], row["stream"]] = row.epoch, row.sequence
        found = ((stream, noted.get(stream) or self._marks[stream]) for stream in streams)
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
        """See `StoredProgress.is_dead`."""
        known = self._dead
        if known is None:
            known = self._dead = set()
            if DEAD.name in self._own:
                at = self._tables.frame(self._folder(DEAD.name)).select(*DEAD.key)
                known.update((row[0], row[1], row[2]) for row in at.toLocalIterator())
            self._removed = self._dead_rows.spans()
        gone = self._removed.get((topic, partition), [])
        return (topic, partition, offset) in known or has(gone, offset)

    def forgetting(self, topic: str) -> str:
        """See `StoredProgress.forgetting`."""
        return f"delete the folder {self._files.path(self._notes.folder)}"

    # A batch, step by step.

    def _look_ahead(self) -> None:
        """Begin to look at the tables that this batch is going to write, if it is like the last."""
        there = {*self._schema, *self._own}
        self._tables.look_ahead(self._folder(step) for step in self._entry.steps if step in there)

    def _to_bury(self, dead: Iterable[DeadRecord], on_dead: OnDead | None) -> list[DeadRecord]:
        """Those dead records that the store does not have yet; they are told."""
        ahead = self._state.ahead.get(DEAD.name, {})
        found = [d for d in dead if d.offset >= ahead.get((d.topic, d.partition), 0)]
        if found and on_dead is not None:
            on_dead(found)
        return found

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

    def _begin(
        self,
        plan: BatchPlan,
        batch: Batch | None,
        replacing: Sequence[OutputRecord] = (),
    ) -> JournalEntry:
        """Note what is about to be written. Replaced streams leave the positions where they are."""
        steps, before = list(plan.tables), self._state
        marks = {**before.marks, **(plan.moved or {})}
        version = self._entry.version + 1
        due = replacing or not version % NOTED_BATCHES or len(marks) > NOTED_MARKS
        saved = plan.moved is None or bool(marks and due)
        for table, needed in ((DEAD, plan.dead), (PROGRESS, saved)):
            if needed:
                steps.append(table.name)
                if table.name not in self._own:
                    self._tables.create(self._folder(table.name), table)
                    self._own.add(table.name)
                elif table is DEAD:
                    self._dead_rows.prepare()
        batches = {}
        if batch is not None and not is_behind(batch, self._last_batch(batch.query), plan.applied):
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            batches[batch.query] = (batch.number, at, plan.applied.records)
        after = before if replacing else before.moved(plan.positions, batches)
        after = replace(after, marks={} if saved else marks)
        entry = JournalEntry(version, steps, before, after, replacing=replacing)
        self._note(entry)
        return entry

    def _write(self, entry: JournalEntry, reduction: Reduction, dead: list[DeadRecord]) -> None:
        """Write what was noted, and remember it."""
        for name, rows in reduction.rows.items():
            self._write_rows(entry, reduction.schema.tables[name], rows)
            gone = rows.deletes()
            reduction.applied.deletes += gone
            reduction.applied.upserts += len(rows.values) - gone
        self._save_dead(entry, dead)
        moved = {stream: reduction.marks[stream] for stream in reduction.moved}
        self._save_progress(entry, moved)
        self._notes.check_last(entry)
        self._state = entry.after
        # What was noted in the journal only may be in `_progress` now.
        self._marks |= {**entry.before.marks, **moved}
        self._bury(dead)

    def _carry_out(self, entry: JournalEntry) -> None:
        """Do what is left of a switch or of a replacement of streams."""
        if not entry.replacing:
            super()._carry_out(entry)
            return
        try:
            with self._giving_up(entry):
                self._write(entry, fold_replacement(self._read_schema(), entry.replacing), [])
        except DataRefused as refused:  # whoever began it is gone, and the store is to go on
            log.error("%s", refused)

    @contextmanager
    def _giving_up(self, entry: JournalEntry) -> Iterator[None]:
        """Give a replacement up that is refused: it would be whenever somebody completes it.

        Raises DataRefused, which says what is left of it; VersionConflict.
        """
        try:
            with self._errors():
                yield
        except DataRefused as refused:
            done: dict[bool, list[str]] = {True: [], False: []}
            for step in entry.steps:
                if step != PROGRESS.name:
                    done[self._written(step)].append(repr(step))
            state = entry.state(self._written)
            self._note(JournalEntry(entry.version + 1, [], state, state))
            raise DataRefused(
                f"{refused}; the streams are not replaced: their new rows are in "
                f"{', '.join(done[True]) or 'no table'}, and the old ones in "
                f"{', '.join(done[False])}. Let the rows keep to the rules of the tables, and run "
                "the rebuild again"
            ) from refused

    def _write_rows(self, entry: JournalEntry, table: TableState, rows: TableChanges) -> None:
        if rows.values:
            self._tables.merge(self._folder(table.name), table, rows, entry.version)

    def _save_dead(self, entry: JournalEntry, dead: list[DeadRecord]) -> None:
        rows, now = TableChanges(), int(time.time())
        for each in dead:
            rows.set(each[:3], {"reason": each.reason, "value": each.value, "at": now})
        self._write_rows(entry, DEAD, rows)

    def _save_progress(self, entry: JournalEntry, moved: Mapping[Stream, Mark]) -> None:
        """Write into `_progress` what is noted and what has moved, where the entry says so.

        Raises VersionConflict if rows of the batch may be missing.
        """
        if PROGRESS.name not in entry.steps:
            return
        self._notes.check_last(entry)
        moved = {**entry.before.marks, **moved}
        if moved and self._has_all_marks:
            known = {stream: mark for stream, mark in self._marks.items() if mark is not None}
            known |= moved
            if len(known) <= FEW_STREAMS:
                folder = self._folder(PROGRESS.name)
                self._tables.replace(folder, _progress(known), entry.version)
                return
            self._has_all_marks = False
        rows = TableChanges()
        for stream, (epoch, sequence) in moved.items():
            rows.set(stream, {"sequence": sequence, "epoch": epoch})
        self._write_rows(entry, PROGRESS, rows)

    def _save_marks(self) -> None:
        """Let `_progress` have what only the journal has. Raises VersionConflict."""
        if self._state.marks:
            entry = self._begin(BatchPlan((), False, None, {}, Applied()), None)
            self._save_progress(entry, {})
            self._notes.check_last(entry)
            self._marks |= self._state.marks
            self._state = entry.after

    def _remove(self, places: Sequence[Place]) -> None:
        """Remove dead records; see `Sink.remove_dead`."""
        self._dead_rows.remove(places)
        if places:
            self._dead = None  # to be looked up when it is needed

    def _note(self, entry: JournalEntry) -> None:
        """Write the next entry.

        Raises VersionConflict if somebody else has written one, or has gone on with a batch that
        was taken for cut off.
        """
        last = self._entry
        if entry.before is not last.after and last.state(self._written) != entry.before:
            raise VersionConflict
        self._notes.write(entry)
        self._entry = entry

    def _bury(self, dead: list[DeadRecord]) -> None:
        """Remember dead records that were written, and remove what are too many."""
        if self._dead is not None:
            self._dead.update(d[:3] for d in dead)
        if dead:
            self._remove(self._dead_rows.too_many(self.keep_dead))


def _progress(marks: Mapping[Stream, Mark]) -> pa.Table:
    """The rows of `_progress`."""
    columns = zip(*((*stream, *mark) for stream, mark in marks.items()), strict=True)
    names = (*PROGRESS.key, "epoch", "sequence")
    return pa.table(dict(zip(names, columns, strict=True)))
