"""The dead records of a SQL read store: `_dead`, and `_dead_removed` of those that are gone."""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from stores.sinks.dead_limit import (
    REMOVALS,
    DeadCount,
    DeadLimit,
    Place,
    Removal,
    StoredDead,
    by_partition,
)
from stores.sinks.records import DeadRecord
from stores.sinks.removed_offsets import Span, count, decoded, encoded, has, joined, with_offsets
from stores.sinks.shadows import shadow_name
from stores.sinks.sql.database import Database, quoted

log = logging.getLogger("read store")

_KEY = ("topic", "partition", "offset")
_PLACE = 'topic, "partition", "offset"'


class SqlDeadRecords:
    """The dead records of a shadow. In a transaction of the caller's, where it writes."""

    def __init__(self, database: Database, shadow: str | None) -> None:
        self._database = database
        self._dead, self._removed = (
            shadow_name("_dead", shadow),
            shadow_name("_dead_removed", shadow),
        )

    def save(self, dead: Iterable[DeadRecord], keep: DeadLimit) -> None:
        """Keep records, and remove the oldest ones that are too many."""
        now = int(time.time())
        rows = [(*each, now) for each in dead]
        if rows:
            self._database.upsert(self._dead, _KEY, ("reason", "value", "at"), rows)
            self.bound(keep)

    def bound(self, keep: DeadLimit) -> None:
        """Remove the oldest records that are too many, and those that are too old."""
        if keep.before is not None:
            self.remove(None, keep.before)
        query = self._database.query
        ((number,),) = query(f"SELECT count(*) FROM {quoted(self._dead)}")
        if number > keep.rows:
            self._remove(
                query(
                    f"SELECT {_PLACE} FROM {quoted(self._dead)} "
                    f"ORDER BY coalesce(at, 0), {_PLACE} LIMIT ?",
                    [number - keep.rows],
                )
            )

    def remove(self, topic: str | None, before: int | None, *, dry_run: bool = False) -> int:
        """Remove records of a topic (None: of any), put aside before a time (None: any time).

        Returns how many they are.
        """
        where, values = ["1 = 1"], list[Any]()
        for part, value in (("topic = ?", topic), ("at < ?", before)):
            if value is not None:
                where.append(part)
                values.append(value)
        name = quoted(self._dead)
        sql = f"SELECT {_PLACE} FROM {name} WHERE {' AND '.join(where)}"
        places = self._database.query(sql, values)
        if not dry_run:
            self._remove(places)
        return len(places)

    def record(self, removal: Removal) -> None:
        """Note who removed records, and why."""
        query = self._database.query
        query(
            "INSERT INTO _dead_removals (at, who, why, topic, number) VALUES (?, ?, ?, ?, ?)",
            removal,
        )
        kept = query("SELECT at FROM _dead_removals ORDER BY at DESC LIMIT 1 OFFSET ?", [REMOVALS])
        for row in kept:
            query("DELETE FROM _dead_removals WHERE at <= ?", row)

    def removals(self, limit: int) -> list[Removal]:
        """The last removals on command."""
        sql = "SELECT at, who, why, topic, number FROM _dead_removals ORDER BY at DESC LIMIT ?"
        return [Removal(*row) for row in self._database.query(sql, [limit])]

    def _remove(self, places: Sequence[tuple[Any, ...]]) -> None:
        if not places:
            return
        for (topic, partition), offsets in by_partition(places):
            self._note(topic, partition, with_offsets(self._spans(topic, partition), offsets))
        self._database.delete(self._dead, _KEY, list(places))
        log.warning("%d dead records were removed from the table %s", len(places), self._dead)

    def _note(self, topic: str, partition: int, spans: list[Span]) -> None:
        row = (topic, partition, count(spans), encoded(spans))
        self._database.upsert(self._removed, ("topic", "partition"), ("removed", "spans"), [row])

    def _spans(self, topic: str, partition: int) -> list[Span]:
        sql = f'SELECT spans FROM {quoted(self._removed)} WHERE topic = ? AND "partition" = ?'
        found = self._database.query(sql, [topic, partition])
        return decoded(found[0][0]) if found else []

    def has(self, place: Place) -> bool:
        """Whether the record was dead when it came, kept or not."""
        where = 'topic = ? AND "partition" = ? AND "offset" = ?'
        sql = f"SELECT 1 FROM {quoted(self._dead)} WHERE {where}"
        return bool(self._database.query(sql, place)) or has(self._spans(*place[:2]), place[2])

    def counts(self) -> list[DeadCount]:
        """How many there are of each partition that has any."""
        sql = f'SELECT topic, "partition", count(*) FROM {quoted(self._dead)} GROUP BY 1, 2'
        kept = {(topic, number): rows for topic, number, rows in self._database.query(sql)}
        sql = f'SELECT topic, "partition", removed FROM {quoted(self._removed)}'
        gone = {(topic, number): rows for topic, number, rows in self._database.query(sql)}
        found = (DeadCount(*at, kept.get(at, 0), gone.get(at, 0)) for at in {*kept, *gone})
        return sorted(each for each in found if each.kept or each.removed)

    def last(self, limit: int) -> list[StoredDead]:
        """The records that were put aside last."""
        sql = (
            f"SELECT {_PLACE}, reason, value, at FROM {quoted(self._dead)} "
            f'ORDER BY coalesce(at, 0) DESC, topic, "partition", "offset" DESC LIMIT ?'
        )
        found = self._database.query(sql, [limit])
        return [
            StoredDead(
                topic, partition, offset, reason, None if value is None else bytes(value), at
            )
            for topic, partition, offset, reason, value, at in found
        ]

    def take_over(self, shadow: "SqlDeadRecords", topic: str) -> None:
        """Have what a shadow has of a topic in place of these, which stay known, and count no more.

        What could not be applied here is in the shadow's tables, or is dead there, too.
        """
        query = self._database.query
        mine, there = (
            query(f"SELECT {_PLACE} FROM {quoted(each._dead)} WHERE topic = ?", [topic])
            for each in (self, shadow)
        )
        gone: dict[int, list[Span]] = defaultdict(list)
        for _, partition, offset in set(mine).difference(there):
            gone[partition].append((offset, offset, 0))
        partitions = set(gone)
        for each in (self, shadow):
            sql = f'SELECT "partition" FROM {quoted(each._removed)} WHERE topic = ?'
            partitions.update(partition for (partition,) in query(sql, [topic]))
        for partition in partitions:
            spans = shadow._spans(topic, partition)
            if partition >= 0:  # others are a rebuild's own, of which nothing comes again
                known = [(first, last, 0) for first, last, _ in self._spans(topic, partition)]
                spans = joined(spans, joined(known, gone[partition]))
            self._note(topic, partition, spans)
        columns = f"{_PLACE}, reason, value, at"
        query(f"DELETE FROM {quoted(self._dead)} WHERE topic = ?", [topic])
        query(
            f"INSERT INTO {quoted(self._dead)} ({columns}) SELECT {columns} "
            f"FROM {quoted(shadow._dead)} WHERE topic = ?",
            [topic],
        )
