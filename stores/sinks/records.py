"""What goes into a read store, and what becomes of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stores.sinks.errors import NotYet, StoreError

OutputRecord = tuple[str, int, int, bytes | None]
"""A record of an output topic: (topic, partition, offset, value)."""


class DeadRecord(NamedTuple):
    """A record that could not be applied, and why.

    Attributes:
        topic: the output topic.
        partition: its partition.
        offset: the record's offset.
        reason: why it could not be applied.
        value: the record's value.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes | None


OnDead = Callable[[list[DeadRecord]], object]
"""Is called with the records of a batch that could not be applied."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Which batch of which query it is.

    The store records the number to guard against a checkpoint that is ahead of the store. The
    number does not decide what is applied: a checkpoint that was restored may count other records
    by old numbers.

    Attributes:
        query: the id of the streaming query.
        number: of the batch, from 0 on.
        sparse: whether the store gets only those of the query's batches that have something for it,
            so that none is missed; any number that tells one from another will do then.
    """

    query: str
    number: int
    sparse: bool = False


@dataclass(slots=True)
class Applied:
    """What became of the records of a batch.

    Attributes:
        records: how many there were: the sum of the next four.
        applied: records whose row changes are in the tables now.
        replayed: records below the offset that their partition had reached before.
        duplicates: records at or below their stream's last sequence.
        dead: records that could not be applied, and are kept with the reason.
        upserts: rows written, after the changes of one row were merged.
        deletes: rows deleted, likewise.
        reason: why the first dead record could not be applied, with its position.
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
        """Add the numbers of another batch.

        Args:
            other: what became of that batch.
        """
        for name in ("records", "applied", "replayed", "duplicates", "dead", "upserts", "deletes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reason = self.reason or other.reason


@dataclass(slots=True)
class Position:
    """How far a partition of an output topic is applied.

    What is delivered again is counted once.

    Attributes:
        topic: the output topic.
        partition: its partition.
        next_offset: every record below is in the store.
        applied: how many records were applied since the store was made.
        duplicates: how many were duplicates.
        dead: how many could not be applied.
    """

    topic: str
    partition: int
    next_offset: int = 0
    applied: int = 0
    duplicates: int = 0
    dead: int = 0


def check_batch(batch: Batch, last: int | None, seen: int | None = None) -> None:
    """Check that no batches are missing in front of one, and that nobody else goes on with them.

    If some are missing, the checkpoint knows of batches that the store does not have: the store was
    deleted, replaced or restored, or the machine lost power. Somebody else goes on where a process
    was taken for dead that only stood still.

    Args:
        batch: the batch to apply.
        last: the number of the last one recorded, None for none.
        seen: what `last` was behind the last batch that the same sink applied, None for none yet.

    Raises:
        StoreError: batches are missing, or somebody else has gone on.
    """
    if seen is not None and last is not None and last > max(seen, batch.number):
        raise StoreError(
            f"another process has gone on with the batches of this checkpoint: the store has them "
            f"up to {last}, and this process is at {batch.number}. It is left to the other one, "
            "since of two that write by one checkpoint each takes the other's numbers for gaps; "
            "end one of them, and start this one again if it is to go on"
        )
    if batch.number > 0 and not batch.sparse and (last is None or last < batch.number - 1):
        have = "none of its batches" if last is None else f"its batches up to {last} only"
        raise StoreError(
            f"the checkpoint is ahead of the read store: it goes on with batch {batch.number}, the "
            f"store has {have}. Delete the checkpoint folder and start again: the output topics "
            "are read from the start, and what the store has is not applied twice"
        )


def is_behind(batch: Batch, last: int | None, applied: Applied) -> bool:
    """Say whether somebody else has applied a batch and gone on, so that it is not to be noted.

    Whoever stood still while another one took over wakes up with such a batch. The other one would
    be refused if the store counted from there again.

    Args:
        batch: the batch.
        last: the number of the last one recorded, None for none.
        applied: what became of its records.
    """
    if batch.sparse or last is None or batch.number > last:
        return False
    return applied.replayed == applied.records


def check_at(expected: Iterable[Position], now: Mapping[tuple[str, int], Position]) -> None:
    """Check that a store is at the expected positions.

    Args:
        expected: the positions that it has to be at.
        now: (topic, partition) → the position that it is at.

    Raises:
        NotYet: it is not.
    """
    for position in expected:
        known = now.get((position.topic, position.partition))
        offset = 0 if known is None else known.next_offset
        if offset != position.next_offset:
            raise NotYet(
                f"the read store has moved on: topic {position.topic!r} partition "
                f"{position.partition} is at offset {offset}, not {position.next_offset}"
            )
