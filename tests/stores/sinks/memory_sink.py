"""A sink as a user could write it: tables in this process's memory, by what `stores.sinks` exports.

A batch works on a copy of its set of tables, which takes the place of the set when all is well.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from time import time
from typing import Any, Self, TypeVar

from stores.sinks import (
    Applied,
    Batch,
    DeadCount,
    DeadLimit,
    DeclaredTable,
    OnDead,
    OutputRecord,
    Position,
    Removal,
    StoredDead,
    StoreError,
)
from stores.sinks.toolbox import (
    OLD,
    Mark,
    Reduction,
    Schema,
    StoreLimits,
    Stream,
    TableState,
    check_at,
    check_batch,
    check_caught_up,
    check_live,
    checked_shadow,
    fold_replacement,
    is_behind,
    keep_from,
    name_bytes,
    no_such_table,
    not_caught_up,
    yielded,
)

log = logging.getLogger("read store")

T = TypeVar("T")
Place = tuple[str, int, int]


@dataclass
class TableSet:
    """The live tables, or shadow tables, and what is noted of them."""

    tables: dict[str, TableState] = field(default_factory=dict)
    rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)
    marks_of: dict[Stream, Mark] = field(default_factory=dict)
    positions: dict[tuple[str, int], Position] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    dead: dict[Place, StoredDead] = field(default_factory=dict)
    removed: set[Place] = field(default_factory=set)
    at_once: int = 500

    # What a reduction asks.

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        return {each: self.marks_of[each] for each in streams if each in self.marks_of}

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        return (topic, partition, offset) in self.dead.keys() | self.removed

    def forgetting(self, topic: str) -> str:
        return "start with an empty store"

    # What a batch changes.

    def write(self, reduction: Reduction) -> None:
        for name, table in reduction.schema.tables.items():
            self.tables[name] = table.copied(name)
            self.rows.setdefault(name, {})
        for name, changes in reduction.rows.items():
            rows = self.rows[name]
            for key, values in changes.values.items():
                if values is None or key in changes.reset:
                    rows.pop(key, None)
                if values is not None:
                    rows.setdefault(key, {}).update(values)
            reduction.applied.deletes += changes.deletes()
            reduction.applied.upserts += len(changes.values) - changes.deletes()
        self.marks_of |= {stream: reduction.marks[stream] for stream in reduction.moved}
        self.positions |= reduction.positions

    def bury(self, reduction: Reduction, limit: DeadLimit) -> None:
        now = int(time())
        self.dead |= {each[:3]: StoredDead(*each, now) for each in reduction.dead}
        if not reduction.dead:
            return
        before = limit.before
        old = [at for at, each in self.dead.items() if before and (each.at or 0) < before]
        self.remove(old)
        self.remove(list(self.dead)[: max(0, len(self.dead) - limit.rows)])

    def remove(self, places: Iterable[Place]) -> None:
        gone = list(places)
        for at in gone:
            del self.dead[at]
        self.removed.update(gone)
        if gone:
            log.warning("%d dead records were removed from the table _dead", len(gone))


class MemoryStore:
    """Sets of tables by shadow; None is the live one."""

    def __init__(self) -> None:
        self.sets: dict[str | None, TableSet] = {None: TableSet()}
        self.removals: list[Removal] = []


class MemorySink:
    """A `Sink` into a store in memory."""

    def __init__(
        self,
        store: MemoryStore,
        tables: Iterable[DeclaredTable] = (),
        shadow: str | None = None,
    ) -> None:
        self.store, self.shadow = store, checked_shadow(shadow)
        self.keep_dead = keep_from()
        self._seen: dict[str, int] = {}
        store.sets.setdefault(shadow, TableSet())
        schema = self._schema(self._set)
        for table in tables:
            schema.declare(table)
        self._changed(lambda here: here.write(Reduction(schema, here, {})))

    @property
    def _set(self) -> TableSet:
        return self.store.sets[self.shadow]

    def _schema(self, of: TableSet) -> Schema:
        tables = [table.copied(name) for name, table in of.tables.items()]
        return Schema(tables, (), StoreLimits(name_bytes=name_bytes(self.shadow)))

    def _changed(self, change: Callable[[TableSet], T]) -> T:
        here = deepcopy(self._set)
        done = change(here)
        self.store.sets[self.shadow] = here
        return done

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        def change(here: TableSet) -> Applied:
            last = None if batch is None else here.batches.get(batch.query)
            if batch is not None:
                check_batch(batch, last, self._seen.get(batch.query))
            reduction = Reduction(self._schema(here), here, here.positions)
            reduction.fold(records)
            if batch is not None and not is_behind(batch, last, reduction.applied):
                here.batches[batch.query] = batch.number
            here.write(reduction)
            here.bury(reduction, self.keep_dead)
            if reduction.dead and on_dead is not None:
                on_dead(reduction.dead)
            return reduction.applied

        applied = self._changed(change)
        if batch is not None:
            self._seen[batch.query] = self._set.batches[batch.query]
        return applied

    def replace_streams(self, records: Iterable[OutputRecord], at: Iterable[Position]) -> Applied:
        def change(here: TableSet) -> Applied:
            check_at(at, here.positions)
            reduction = fold_replacement(self._schema(here), records)
            reduction.positions = {}
            here.write(reduction)
            return reduction.applied

        return self._changed(change)

    def last_batch(self, query: str) -> int | None:
        return self._set.batches.get(query)

    def progress(self) -> list[Position]:
        return [position for _, position in sorted(self._set.positions.items())]

    def seek(self, positions: Iterable[Position]) -> None:
        new = {(p.topic, p.partition): p for p in positions}
        topics = {topic for topic, _ in new}

        def change(here: TableSet) -> None:
            kept = {at: p for at, p in here.positions.items() if at[0] not in topics}
            here.positions = kept | new

        self._changed(change)

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        here = self._set
        if table not in here.tables:
            raise no_such_table(table, self.shadow)
        state = here.tables[table]
        kinds = {**state.key, **state.columns}
        for key, values in sorted(here.rows[table].items(), key=lambda row: row[0]):
            row = dict(zip(state.key, key, strict=True)) | values
            yield {c: yielded(row[c], kinds[c]) for c in kinds if row.get(c) is not None}

    def count(self, table: str) -> int:
        if table not in self._set.tables:
            raise no_such_table(table, self.shadow)
        return len(self._set.rows[table])

    def shadows(self) -> list[str]:
        return sorted(name for name in self.store.sets if name is not None)

    def switch(self, shadow: str, topics: Iterable[str]) -> None:
        check_live(self.shadow)
        topics, sets = list(topics), self.store.sets
        if shadow not in sets or shadow == OLD:
            raise StoreError(f"shadow tables {shadow!r} are not there to switch to")
        there, live = sets[shadow], deepcopy(self._set)
        check_caught_up(shadow, topics, live.positions.values(), there.positions.values())
        for stream, (epoch, sequence) in there.marks_of.items():
            if stream[0] in topics:
                known = live.marks_of.get(stream, (0, sequence))
                if known[0] >= epoch and known[1] > sequence:
                    raise not_caught_up(shadow, stream[1], stream[2], sequence, known[1])
                live.marks_of[stream] = max(known[0], epoch), sequence
        old = deepcopy(sets.get(OLD, TableSet()))
        for name in there.tables:
            if name in old.tables:
                raise StoreError(f"table {name!r}: drop the shadow tables {OLD!r} first")
            if name in live.tables:
                old.tables[name], old.rows[name] = live.tables[name], live.rows[name]
            live.tables[name], live.rows[name] = there.tables[name], there.rows[name]
        live.dead |= {at: each for at, each in there.dead.items() if at[0] in topics}
        live.removed |= {at for at in there.removed if at[0] in topics}
        self.store.sets = {name: each for name, each in sets.items() if name != shadow}
        self.store.sets |= {None: live, OLD: old} if old.tables else {None: live}

    def drop(self, shadow: str) -> None:
        self.store.sets.pop(shadow, None)

    def dead_counts(self) -> list[DeadCount]:
        kept = [at[:2] for at in self._set.dead]
        gone = [at[:2] for at in self._set.removed]
        return [DeadCount(*at, kept.count(at), gone.count(at)) for at in sorted({*kept, *gone})]

    def last_dead(self, limit: int) -> list[StoredDead]:
        return list(reversed(self._set.dead.values()))[:limit]

    def remove_dead(
        self, topic: str | None = None, before: int | None = None, *, dry_run: bool = False,
        by: str = "", why: str = "",
    ) -> int:  # fmt: skip
        chosen = [
            at
            for at, each in self._set.dead.items()
            if (topic is None or at[0] == topic) and (before is None or (each.at or 0) < before)
        ]
        if not dry_run:
            self._changed(lambda here: here.remove(chosen))
            if chosen:
                self.store.removals.insert(0, Removal(int(time()), by, why, topic, len(chosen)))
        return len(chosen)

    def removals(self, limit: int) -> list[Removal]:
        return self.store.removals[:limit]

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


STORES: dict[str, MemoryStore] = {}


def open_memory(
    url: str, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
) -> MemorySink:
    """The store of that URL in this process: `module:open_memory?name`, or `memory://name`."""
    return MemorySink(STORES.setdefault(url, MemoryStore()), tables, shadow)
