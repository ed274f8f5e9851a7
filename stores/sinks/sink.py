"""Read-store sinks: where row changes become rows of tables, each exactly once.

A sink takes the records of output topics in batches and keeps, in the one database transaction that
writes a batch's rows: the next offset of every partition, the last applied sequence of every stream
of every view, the records that could not be applied, and the batch's own number. So it ignores what
it already has, whatever is delivered again: a batch after a crash, everything after a checkpoint
was lost, a record that its producer wrote twice.

**Shadow tables** are a second set of tables in the same store, beside the live ones that people
read, with their own notes of all that. A view is rebuilt into shadow tables, which then replace the
live ones at one stroke. A set has a name, its `shadow`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from topology.model.column_types import ColumnType

if TYPE_CHECKING:
    from stores.sinks.dead_limit import DeadCount, DeadLimit, StoredDead

OutputRecord = tuple[str, int, int, bytes | None]
"""A record of an output topic: (topic, partition, offset, value)."""

SHADOW_BYTES = 20
"""The longest name of a shadow."""
OLD = "old"
"""The shadow that the tables are kept as whose place another shadow took."""


class DeadRecord(NamedTuple):
    """A record that could not be applied."""

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes | None


OnDead = Callable[[list[DeadRecord]], object]


class StoreError(RuntimeError):
    """A read store cannot be used as it is; the text names the thing and the remedy."""


class NotYet(StoreError):
    """What was asked for cannot be done at this moment, and may be a moment later."""


class DeclaredTable(Protocol):
    """What a sink has to know of a table beforehand; `topology.Table` is one."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> Mapping[str, ColumnType]: ...
    @property
    def columns(self) -> Mapping[str, ColumnType]: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Which batch it is: the number that the query with this id counts, from 0 on.

    It is recorded, and guards against a checkpoint that is ahead of the store; it does not decide
    what is applied, since a checkpoint that was restored may count other records by old numbers.
    """

    query: str
    number: int


@dataclass(slots=True)
class Applied:
    """What became of a batch; `records` is the sum of the next four.

    applied: records whose row changes are in the tables now. replayed: below the partition's next
    offset, so they were here before. duplicates: at or below their stream's last sequence. dead:
    could not be applied, and kept with the reason. upserts, deletes: rows written and rows deleted,
    after the changes of one row were made one. reason: of the first dead record, with its position.
    """

    records: int = 0
    applied: int = 0
    replayed: int = 0
    duplicates: int = 0
    dead: int = 0
    upserts: int = 0
    deletes: int = 0
    reason: str | None = None

    def add(self, other: "Applied") -> None:
        """Count another batch as well."""
        for name in ("records", "applied", "replayed", "duplicates", "dead", "upserts", "deletes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reason = self.reason or other.reason


@dataclass(slots=True)
class Position:
    """How far a partition of an output topic is applied.

    next_offset: everything below is in the store. applied, duplicates, dead: how many of its
    records ended where, since the store was made; what was delivered again is counted once.
    """

    topic: str
    partition: int
    next_offset: int = 0
    applied: int = 0
    duplicates: int = 0
    dead: int = 0


class Sink(Protocol):
    """A read store that is being written to. Every method raises StoreError."""

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """Apply records in one transaction; when it raises, nothing has changed.

        A store without transactions over several tables (Delta Lake) is left half-way then, notes
        how far each table is, and comes out right when the records are applied again, in whatever
        batches.

        Records come in any order and are taken by (topic, partition, offset). Of each partition
        they are all that is committed from some offset up to another one. A row that several
        streams write is as the last record of its partition left it; streams of different
        partitions have no order between them, so a row should be written by one stream.

        on_dead: called with the records that cannot be applied, if there are any, before anything
        is committed. So it gets each of them at least once, and what it raises ends the batch.
        """
        ...

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch that was recorded for a query, None if there is none."""
        ...

    def progress(self) -> list[Position]:
        """How far every partition is, by topic and partition."""
        ...

    def seek(self, positions: Iterable[Position]) -> None:
        """Go on at these positions: all that is known of partitions of their topics is forgotten.

        For a shadow that was filled from elsewhere, and is to follow its output topics from there.
        """
        ...

    def replace_streams(self, records: Iterable[OutputRecord], at: Iterable[Position]) -> Applied:
        """Apply records whatever there is of their streams, at one stroke, and note them so.

        For streams that are made anew; the positions stay as they are. at: the positions up to
        which the records take the outputs in. Raises NotYet if the sink is not at all of these, and
        StoreError for a record that cannot be applied; nothing is changed then.
        """
        ...

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """The rows in key order: the key's columns, then the others that are not null.

        Text is ordered by its code points. The rows are those of one moment. Raises StoreError if
        there is no such table.
        """
        ...

    def count(self, table: str) -> int:
        """How many rows a table has. Raises StoreError if there is no such table."""
        ...

    def shadows(self) -> list[str]:
        """The names of the shadows that there are, `old` included."""
        ...

    def switch(self, shadow: str, topics: Iterable[str]) -> None:
        """Let shadow tables replace the live ones, in one transaction where the store has them.

        Called on a live sink, while the shadow's own writer is at rest; the live one may go on.
        topics: the output topics that the shadow was filled with, all of them. The shadow tables
        get the live names, and the live tables of those names are kept as the shadow `old`; other
        live tables stay. The shadow has to be as far as the live tables in every partition of the
        topics, and in every stream of them: NotYet otherwise, and nothing is changed.

        What streams the shadow has, and what it could not apply, is taken over; the live positions
        stay as they are, and the records between them and the shadow's come as duplicates. If a
        stream's epoch is lower in the shadow, it is as far in the live epoch as the shadow's rows
        are. The shadow is gone afterwards.
        """
        ...

    def drop(self, shadow: str) -> None:
        """Delete a shadow's tables and notes; one that is not there is no error."""
        ...

    keep_dead: "DeadLimit"
    """How many dead records are kept: of this shadow, the oldest ones go first."""

    def dead_counts(self) -> "list[DeadCount]":
        """How many records of each partition are dead and kept, and how many were removed."""
        ...

    def last_dead(self, limit: int) -> "list[StoredDead]":
        """The dead records that were put aside last, the newest first."""
        ...

    def remove_dead(
        self, topic: str | None = None, before: int | None = None, *, dry_run: bool = False
    ) -> int:
        """Remove dead records, all or those of a topic that are of before a time (s since 1970).

        Returns how many these are. That they were dead stays known and counted.
        """
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def check_batch(batch: Batch, last: int | None) -> None:
    """Raise StoreError if batches are missing between `last`, the last one recorded, and this one.

    Then the checkpoint knows of batches that the store does not have: the store was deleted,
    replaced or restored, or the machine lost power.
    """
    if batch.number > 0 and (last is None or last < batch.number - 1):
        have = "none of its batches" if last is None else f"its batches up to {last} only"
        raise StoreError(
            f"the checkpoint is ahead of the read store: it goes on with batch {batch.number}, the "
            f"store has {have}. Delete the checkpoint folder and start again: the output topics "
            "are read from the start, and what the store has is not applied twice"
        )


def checked_shadow(name: str | None) -> str | None:
    """The name of a shadow to write, None for the live tables. Raises StoreError."""
    if name is not None and (
        not re.fullmatch("[a-z](_?[a-z0-9])*", name) or len(name) > SHADOW_BYTES or name == OLD
    ):
        raise StoreError(
            f"shadow {name!r}: the name of shadow tables has up to {SHADOW_BYTES} small ASCII "
            f"letters and digits, with single _ between them, and is not {OLD!r}, which is what a "
            "switch leaves"
        )
    return name


def check_caught_up(
    shadow: str, topics: Iterable[str], live: Iterable[Position], there: Iterable[Position]
) -> None:
    """Raise NotYet unless a shadow at the positions `there` is as far as the live tables."""
    topics = set(topics)
    ends = {(p.topic, p.partition): p.next_offset for p in there}
    others = sorted({topic for topic, _ in ends} - topics)
    if others:
        raise StoreError(
            f"shadow tables {shadow!r} also have records of {', '.join(others)}; switch them "
            "together, or the tables would be ahead of what is noted of those topics"
        )
    for p in live:
        end = ends.get((p.topic, p.partition), 0)
        if p.topic in topics and end < p.next_offset:
            raise NotYet(
                f"shadow tables {shadow!r} are not caught up: topic {p.topic!r} partition "
                f"{p.partition} is at offset {end} there, and at {p.next_offset} in the live "
                "tables; let them follow on"
            )


def check_at(expected: Iterable[Position], now: Mapping[tuple[str, int], Position]) -> None:
    """Raise NotYet unless a store at the positions `now` is at those that are expected."""
    for position in expected:
        known = now.get((position.topic, position.partition))
        offset = 0 if known is None else known.next_offset
        if offset != position.next_offset:
            raise NotYet(
                f"the read store has moved on: topic {position.topic!r} partition "
                f"{position.partition} is at offset {offset}, not {position.next_offset}"
            )


def not_caught_up(shadow: str, view: str, stream: str, there: int, live: int) -> NotYet:
    """A stream that is not as far in a shadow as in the live tables."""
    return NotYet(
        f"shadow tables {shadow!r} are not caught up: view {view!r} stream {stream!r} is at "
        f"sequence {there} there, and at {live} in the live tables; rebuild them from a history "
        "that has all events"
    )
