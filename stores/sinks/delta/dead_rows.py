"""The dead records of a Delta Lake read store, and the offsets of those that are kept no more."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stores.sinks.dead_limit import (
    REMOVALS,
    DeadCount,
    DeadLimit,
    Place,
    Removal,
    StoredDead,
    by_partition,
)
from stores.sinks.delta.tables import DeltaTables
from stores.sinks.removed_offsets import Span, count, decoded, encoded, has, with_offsets
from stores.sinks.schema import TableState

DEAD = TableState(
    "_dead",
    {"topic": str, "partition": int, "offset": int},
    {"reason": str, "value": bytes, "at": int},
)
REMOVED = TableState("_dead_removed", {"topic": str, "partition": int}, {"spans": str})
_REMOVALS = "_dead_removals"
_APP = "sequitur-removed"
"""By whose versions it is seen that somebody else was quicker to write what was removed."""
_REMOVAL = (pa.int64(), pa.string(), pa.string(), pa.string(), pa.int64())
"""The types of a removal's fields."""
_PLACE = tuple(DEAD.key)

log = logging.getLogger("read store")


class DeltaDeadRecords:
    """The dead records in two folders. Raises what Spark raises.

    Offsets are noted before records go, so that a removal that is cut off is made again. Notes are
    written whole, with the version behind that of those they were made from: of two who write the
    same version Delta Lake leaves the second out, who finds that its notes are not there.
    """

    def __init__(self, tables: DeltaTables, dead: str, removed: str) -> None:
        self._tables, self._dead, self._removed = tables, dead, removed

    def prepare(self) -> None:
        """Let the table say when a record came, as older ones did not."""
        found = self._tables.look(self._dead)
        if found is not None and "at" not in found.schema.names:
            self._tables.add_columns(self._dead, {"at": int})

    def too_many(self, keep: DeadLimit) -> list[Place]:
        """The records that are to go."""
        frame = self._tables.frame(self._dead)
        before, found = keep.before, set[Place]()
        if before is not None:
            found.update(_places(frame.where(F.col("at") < before)))
        more = frame.count() - len(found) - keep.rows
        if more > 0:
            oldest = frame.orderBy(F.coalesce("at", F.lit(0)), *_PLACE).select(*_PLACE)
            found.update(_places(oldest.limit(more + len(found))))
        return sorted(found)

    def chosen(self, topic: str | None, before: int | None) -> list[Place]:
        """The records of a topic (None: of any) that are of before a time (None: any time)."""
        if not self._tables.exists(self._dead):
            return []
        self.prepare()
        frame = self._tables.frame(self._dead)
        if topic is not None:
            frame = frame.where(F.col("topic") == topic)
        if before is not None:
            frame = frame.where(F.col("at") < before)
        return _places(frame)

    def remove(self, places: Sequence[Place]) -> None:
        """Remove records, and note that they were dead."""
        if not places:
            return
        while True:
            version, spans = self._tables.version(self._removed, _APP), self.spans()
            if all(has(spans.get(place[:2], []), place[2]) for place in places):
                break
            for at, offsets in by_partition(places):
                spans[at] = with_offsets(spans.get(at, ()), offsets)
            rows = {
                "topic": [topic for topic, _ in spans],
                "partition": pa.array([partition for _, partition in spans], pa.int64()),
                "spans": [encoded(each) for each in spans.values()],
            }
            self._tables.write(self._removed, pa.table(rows), version + 1, _APP)
        columns = zip(*places, strict=True)
        self._tables.delete(self._dead, pa.table(dict(zip(_PLACE, columns, strict=True))))
        log.warning("%d dead records were removed from the table %s", len(places), self._dead)

    def record(self, removal: Removal) -> None:
        """Note who removed records, and why."""
        while True:
            version, there = self._tables.version(_REMOVALS, _APP), self.removals(REMOVALS)
            if removal in there:
                break
            rows = zip(removal, *there[: REMOVALS - 1], strict=True)
            columns = zip(Removal._fields, rows, _REMOVAL, strict=True)
            table = pa.table({name: pa.array(each, kind) for name, each, kind in columns})
            self._tables.write(_REMOVALS, table, version + 1, _APP)

    def removals(self, limit: int) -> list[Removal]:
        """The last removals on command."""
        if not self._tables.exists(_REMOVALS):
            return []
        frame = self._tables.frame(_REMOVALS).orderBy(F.col("at").desc()).limit(limit)
        return [Removal(*row) for row in frame.select(*Removal._fields).collect()]

    def spans(self) -> dict[tuple[str, int], list[Span]]:
        """(topic, partition) → what was removed of it."""
        if not self._tables.exists(self._removed):
            return {}
        rows = self._tables.frame(self._removed).select("topic", "partition", "spans").collect()
        return {(topic, partition): decoded(kept) for topic, partition, kept in rows}

    def counts(self) -> list[DeadCount]:
        """How many there are of each partition that has any."""
        kept: dict[tuple[str, int], int] = {}
        if self._tables.exists(self._dead):
            grouped = self._tables.frame(self._dead).groupBy("topic", "partition").count()
            kept = {(topic, number): rows for topic, number, rows in grouped.collect()}
        gone = {at: count(each) for at, each in self.spans().items()}
        return [DeadCount(*at, kept.get(at, 0), gone.get(at, 0)) for at in sorted({*kept, *gone})]

    def last(self, limit: int) -> list[StoredDead]:
        """The records that were put aside last."""
        if not self._tables.exists(self._dead):
            return []
        self.prepare()
        frame = self._tables.frame(self._dead).orderBy(
            F.coalesce("at", F.lit(0)).desc(), "topic", "partition", F.col("offset").desc()
        )
        rows = frame.select(*_PLACE, "reason", "value", "at").limit(limit).collect()
        return [
            StoredDead(topic, partition, offset, reason, _bytes(value), at)
            for topic, partition, offset, reason, value, at in rows
        ]


def _places(frame: DataFrame) -> list[Place]:
    rows: Iterable[Any] = frame.select(*_PLACE).collect()
    return [(topic, partition, offset) for topic, partition, offset in rows]


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
