"""What a batch of output records comes to: the pure half of every sink.

Records are decoded, fenced and folded in offset order, so that the result does not depend on where
batches begin and end; the changes of one row become one change.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from stores.sinks import fast_path
from stores.sinks.columns import Refused
from stores.sinks.decoding import Mark, Stream, decode
from stores.sinks.errors import StoreError
from stores.sinks.limits import refuse_nul
from stores.sinks.records import Applied, DeadRecord, OutputRecord, Position
from stores.sinks.row_changes import TableChanges
from stores.sinks.schema import Schema
from topology.model.column_types import shown

FEW, MANY = 500, 10_000
"""Records that are decoded at a time. The few stay in the processor's cache until they are folded,
which takes half as long; of the many, streams are looked up less often."""

NOTHING: Mapping[Any, Any] = {}


class StoredProgress(Protocol):
    """What a reduction asks the store for."""

    @property
    def at_once(self) -> int:
        """Of how many records to ask for the streams at a time: FEW, or MANY if that is slow."""
        ...

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """Return how far streams are; one that has no record yet is left out.

        Args:
            streams: the streams to look up.
        """
        ...

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether a record could not be applied when it came.

        Args:
            topic: the output topic.
            partition: its partition.
            offset: the record's offset.
        """
        ...

    def forgetting(self, topic: str) -> str:
        """Say what makes the store forget the offsets of a topic, for an operator.

        Args:
            topic: the output topic.
        """
        ...


class Reduction:
    """Folds records into row changes.

    Attributes:
        schema: the tables that rows need.
        stored: what the store knows of streams and dead records.
        positions: of the partitions that came, after the batch.
        refused: by (topic, partition, offset), why a record cannot be applied, as far as the store
            said so already.
        ahead: table → partition → the offset up to which the table has its changes already, where a
            batch was applied to some of its tables only.
        rows: the row changes of each table by name.
        moved: streams whose mark in `marks` is new.
        firsts: streams that the store is not known to have → the lowest mark that came of them.
    """

    def __init__(
        self,
        schema: Schema,
        stored: StoredProgress,
        positions: Mapping[tuple[str, int], Position],
        refused: Mapping[tuple[str, int, int], str] = NOTHING,
        ahead: Mapping[str, Mapping[tuple[str, int], int]] = NOTHING,
    ) -> None:
        self.schema = schema
        self._refused = refused
        self._ahead = ahead
        self.stored = stored
        self.positions: dict[tuple[str, int], Position] = {}
        self._stored_positions = positions
        self.rows: dict[str, TableChanges] = {}
        self.marks: dict[Stream, Mark] = {}
        self.moved: set[Stream] = set()
        self.firsts: dict[Stream, Mark] = {}
        self.dead: list[DeadRecord] = []
        self.applied = Applied()

    def fold(self, records: Iterable[OutputRecord]) -> None:
        """Fold a batch.

        Args:
            records: in any order.

        Raises:
            StoreError: the records cannot be those that the store knows.
        """
        parts: dict[tuple[str, int], list[OutputRecord]] = {}
        # They mostly come so: a partition's records one after the other, and in order.
        for at, group in groupby(records, key=itemgetter(0, 1)):
            parts.setdefault(at, []).extend(group)
        for at, part in sorted(parts.items()):
            part.sort(key=itemgetter(2))
            self.applied.records += len(part)
            position = self._stored_positions.get(at) or Position(*at)
            self.positions[at] = position
            known = position.next_offset
            size = self.stored.at_once
            for first in range(0, len(part), size):
                self._fold_chunk(part[first : first + size], position, known)

    def _fold_chunk(self, chunk: list[OutputRecord], position: Position, known: int) -> None:
        """Fold records of one partition; those below offset `known` came in an earlier batch."""
        if self._fold_plain(chunk, position):
            return
        topic, applied, marks, moved = position.topic, self.applied, self.marks, self.moved
        takes_nul, unfit = self.schema.limits.nul, self._refused
        decoded = [decode(topic, record[3]) for record in chunk]
        self._look_up({each[0] for each in decoded if isinstance(each, tuple)})
        for record, each in zip(chunk, decoded, strict=True):
            offset = record[2]
            if offset < position.next_offset:
                applied.replayed += 1
                if offset < known and isinstance(each, tuple):
                    self._check_replayed(record, each)
                continue
            position.next_offset = offset + 1
            if not isinstance(each, tuple):
                self._bury(record, position, each)
                continue
            stream, mark, changes = each
            last = marks.get(stream)
            if last is None:
                self.firsts[stream] = min(mark, self.firsts.get(stream, mark))
            elif mark <= last:
                applied.duplicates += 1
                position.duplicates += 1
                continue
            try:
                if unfit and record[:3] in unfit:
                    raise Refused(unfit[record[:3]])
                if not takes_nul:
                    refuse_nul(record[3], changes)
                self._change(changes, self._tables_ahead(record) if self._ahead else ())
            except Refused as refused:
                self._bury(record, position, refused)
                continue
            marks[stream] = mark
            moved.add(stream)
            applied.applied += 1
            position.applied += 1

    def _fold_plain(self, chunk: list[OutputRecord], position: Position) -> bool:
        """Fold records of one partition if they are plain ones; whether it was done."""
        _, _, offsets, values = zip(*chunk, strict=True)
        if self._refused or self._ahead or offsets[0] < position.next_offset:
            return False
        found = fast_path.decoded(position.topic, values)
        if found is None or len(set(offsets)) < len(offsets):
            return False
        if not self.schema.limits.nul and fast_path.may_hold_nul(values):
            return False
        self._look_up(set(found.streams))
        marks: dict[Stream, Mark] = {}
        firsts: dict[Stream, Mark] = {}
        fresh = []
        for stream, mark, changes in zip(*found, strict=True):
            last = marks.get(stream) or self.marks.get(stream)
            if last is None:
                firsts[stream] = min(mark, self.firsts.get(stream, mark))
            elif mark <= last:
                continue
            marks[stream] = mark
            fresh.append(changes)
        fitted = fast_path.fitted(self.schema, fresh)
        if fitted is None:
            return False
        self.firsts.update(firsts)
        for name, keys, rows in fitted:
            self._rows(name).set_all(keys, rows)
        self.marks.update(marks)
        self.moved.update(marks)
        position.next_offset = offsets[-1] + 1
        for counts in (self.applied, position):
            counts.applied += len(fresh)
            counts.duplicates += len(chunk) - len(fresh)
        return True

    def _look_up(self, streams: set[Stream]) -> None:
        unknown = streams.difference(self.marks)
        if unknown:
            self.marks.update(self.stored.marks(unknown))

    def _check_replayed(self, record: OutputRecord, decoded: tuple[Stream, Mark, Any]) -> None:
        """What came before is fenced or dead; anything else would be lost if it were passed."""
        (topic, view, stream), mark, _ = decoded
        last = self.marks.get(decoded[0])
        if (last is None or mark > last) and not self.stored.is_dead(*record[:3]):
            raise StoreError(
                f"topic {topic!r} partition {record[1]}: offset {record[2]} was passed before, but "
                f"view {view!r} stream {stream!r} has sequence {_shown(mark)} there, and only "
                f"{_shown(last)} in the store: the topic was deleted and made again, or belongs to "
                "another broker. If its records are to go on in these tables, forget the old "
                f"offsets: {self.stored.forgetting(topic)}; what the tables have is kept, and is "
                "not applied twice"
            )

    def _tables_ahead(self, record: OutputRecord) -> Collection[str]:
        """The tables that have the changes of a record already."""
        at = record[:2]
        return [name for name, ends in self._ahead.items() if record[2] < ends.get(at, 0)]

    def _change(self, changes: list[Any], ahead: Collection[str]) -> None:
        """Take over the row changes of one record, all of them or none. Raises Refused.

        ahead: the tables that have them already.
        """
        schema = self.schema
        mark = len(schema.added)
        ready: list[tuple[str, tuple[Any, ...], dict[str, Any] | None]] = []
        try:
            for change in changes:
                if change.__class__ is not dict:
                    raise Refused(f"row change {shown(change)} is no object")
                table, key = schema.locate(change.get("table"), change.get("key"))
                op = change.get("op")
                if op == "upsert":
                    ready.append((table.name, key, schema.fit(table, key, change.get("values"))))
                elif op == "delete":
                    ready.append((table.name, key, None))
                else:
                    raise Refused(f"op {shown(op)} is neither upsert nor delete")
        except Refused:
            schema.undo(mark)
            raise
        for name, key, values in ready:
            if not ahead or name not in ahead:
                self._rows(name).set(key, values)

    def _rows(self, name: str) -> TableChanges:
        rows = self.rows.get(name)
        if rows is None:
            rows = self.rows[name] = TableChanges()
        return rows

    def _bury(self, record: OutputRecord, position: Position, why: Refused) -> None:
        topic, partition, offset, value = record
        self.dead.append(DeadRecord(topic, partition, offset, str(why), value))
        self.applied.dead += 1
        self.applied.reason = self.applied.reason or f"{topic}/{partition} offset {offset}: {why}"
        position.dead += 1


def _shown(mark: Mark | None) -> str:
    if mark is None:
        return "none"
    epoch, sequence = mark
    return f"{sequence} of epoch {epoch}" if epoch else str(sequence)
