"""What the engine needs of a view's table: a sorted map of bytes, one per view and partition."""

from collections.abc import Iterable, Iterator
from typing import Protocol

Row = tuple[bytes, bytes | None]
"""A row to write: key and value; None deletes it."""
KEY_BYTES = 2_600
"""Of the texts in a row's key: no more fits into PostgreSQL's indices."""
SHORT = 100
"""Letters, whatever they are, of a cell's key that there is room for beside any stream's id."""
STREAM_BYTES = KEY_BYTES - 4 * SHORT
"""Of a stream's id in a view, with its lane."""


class PartitionTable(Protocol):
    """The rows of one view in one partition, as of the last commit unit.

    Keys are 1 byte or longer, do not begin with NUL, and sort as bytes do.
    """

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None.

        Args:
            key: 1 byte or longer.
        """
        ...

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over rows by key, as bytes sort. Do not write before you are done with it.

        Args:
            first: the lowest key.
            end: the key behind the last one; its own row is left out.
        """
        ...

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        """Write rows, all or nothing. Of rows with the same key the last one counts.

        Args:
            rows: (key, value) pairs; the value None deletes the row.
            offset: the changelog offset that they bring the table to; the one before stays where
                it is None.
        """
        ...
