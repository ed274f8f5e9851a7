"""How many dead records a read store keeps, and which of them are to go.

Removed are the oldest ones, by when they were put aside. Their number and their offsets stay.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from stores.sinks.errors import StoreError
from topology.model.printable import printable

ROWS, DAYS = "SEQUITUR_DEAD_RECORDS", "SEQUITUR_DEAD_DAYS"
DEFAULT_ROWS = 10_000
MOST_DAYS = 1_000_000
DAY = 86_400
"""Seconds of a day."""

Place = tuple[str, int, int]
"""(topic, partition, offset)."""


@dataclass(frozen=True, slots=True)
class DeadLimit:
    """How many dead records a store keeps.

    Attributes:
        rows: the most that are kept.
        days: for how long, None for any time.
    """

    rows: int = DEFAULT_ROWS
    days: float | None = None

    @property
    def before(self) -> int | None:
        """The time (s since 1970) before which records are too old."""
        return None if self.days is None else int(time.time() - self.days * DAY)


REMOVALS = 1_000
"""Removals on command that are on record, the last ones."""


class Removal(NamedTuple):
    """That somebody removed dead records.

    Attributes:
        at: when, in seconds since 1970.
        by: who did.
        why: the reason given.
        topic: only those of this topic; None for any.
        number: how many there were.
    """

    at: int
    by: str
    why: str
    topic: str | None
    number: int


class StoredDead(NamedTuple):
    """A dead record in a store.

    Attributes:
        topic: the output topic.
        partition: its partition.
        offset: the record's offset.
        reason: why it could not be applied.
        value: the record's value.
        at: when it was put aside, in seconds since 1970, if that is known.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes | None
    at: int | None


class DeadCount(NamedTuple):
    """Dead records of a partition: how many are kept, and how many were removed.

    Attributes:
        topic: the output topic.
        partition: its partition.
        kept: how many are in the store.
        removed: how many were removed.
    """

    topic: str
    partition: int
    kept: int
    removed: int


def keep_from(settings: Mapping[str, str] = os.environ) -> DeadLimit:
    """Read from the environment how many dead records to keep.

    Args:
        settings: the variables.

    Raises:
        StoreError: a variable is no number above zero, or days are more than MOST_DAYS.
    """
    rows, days = settings.get(ROWS) or str(DEFAULT_ROWS), settings.get(DAYS)
    try:
        keep = DeadLimit(int(rows), float(days) if days else None)
        if keep.rows < 1 or (keep.days is not None and not 0 < keep.days <= MOST_DAYS):
            raise ValueError
    except ValueError:
        raise StoreError(
            f"{ROWS}={printable(rows)!r} {DAYS}={printable(days or '')!r}: give how many dead "
            "records are kept, and for how many days; both are above zero, and days at most "
            f"{MOST_DAYS:,}"
        ) from None
    return keep


def by_partition(places: Iterable[Place]) -> Iterator[tuple[tuple[str, int], list[int]]]:
    """(topic, partition) → offsets."""
    for at, group in groupby(sorted(places), key=lambda place: place[:2]):
        yield at, [offset for _, _, offset in group]
