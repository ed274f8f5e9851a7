"""Read-store sinks: where row changes become rows of tables, each exactly once.

A sink takes the records of output topics in batches and keeps, in the one database transaction that
writes a batch's rows: the next offset of every partition, the last applied sequence of every stream
of every view, the records that could not be applied, and the batch's own number. So it ignores what
it already has, whatever is delivered again: a batch after a crash, everything after a checkpoint
was lost, a record that its producer wrote twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

OutputRecord = tuple[str, int, int, bytes | None]
"""A record of an output topic: (topic, partition, offset, value)."""


class StoreError(RuntimeError):
    """A read store cannot be used as it is; the text names the thing and the remedy."""


class DeclaredTable(Protocol):
    """What a sink has to know of a table beforehand; `topology.Table` is one."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> Mapping[str, type]: ...
    @property
    def columns(self) -> Mapping[str, type]: ...


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

    def apply(self, records: Iterable[OutputRecord], batch: Batch | None = None) -> Applied:
        """Apply records in one transaction; when it raises, nothing has changed.

        Records come in any order and are taken by (topic, partition, offset). Of each partition
        they are all that is committed from some offset up to another one. A row that several
        streams write is as the last record of its partition left it; streams of different
        partitions have no order between them, so a row should be written by one stream.
        """
        ...

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch that was recorded for a query, None if there is none."""
        ...

    def progress(self) -> list[Position]:
        """How far every partition is, by topic and partition."""
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
