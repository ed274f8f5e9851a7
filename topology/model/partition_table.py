"""What the engine needs of a view's table: a sorted map of bytes, one per view and partition."""

from collections.abc import Iterable, Iterator
from typing import Protocol

Row = tuple[bytes, bytes | None]
"""A row to write: key and value; None deletes it."""


class PartitionTable(Protocol):
    """The rows of one view in one partition, as of the last commit unit.

    Keys are 1 byte or longer, do not begin with NUL, and sort as bytes do.
    """

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None."""
        ...

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows with first ≤ key < end, by key; do not write meanwhile."""
        ...

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        """Write rows, all or nothing, and the changelog offset that they bring the table to.

        Of rows with the same key the last one counts.
        """
        ...
