"""A view's table in memory: for tests, and for what need not outlive the process."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from topology.model.partition_table import Row


class MemoryTable:
    """A sorted map of bytes. `offset` is the changelog offset it stands at, or None."""

    name = "memory"

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.offset: int | None = None
        self._keys: list[bytes] = []

    def claim(self) -> None:
        """Nothing to do: only this process sees the table."""

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        at, stop = bisect_left(self._keys, first), bisect_left(self._keys, end)
        for key in self._keys[at:stop]:
            yield key, self.rows[key]

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        for key, value in dict(rows).items():  # made first: it may raise
            if value is None:
                if self.rows.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]
            else:
                if key not in self.rows:
                    insort(self._keys, key)
                self.rows[key] = value
        if offset is not None:
            self.offset = offset

    def clear(self) -> None:
        """Delete everything and start empty."""
        self.rows, self._keys, self.offset = {}, [], None

    def close(self) -> None:
        """Nothing to do."""


class MemoryStore:
    """Tables in memory, each for as long as the store is there."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, int], MemoryTable] = {}

    def table(self, view: str, partition: int) -> MemoryTable:
        """Open a table, and make it if it is not there.

        Args:
            view: the view's name.
            partition: the partition of the view's input.
        """
        return self._tables.setdefault((view, partition), MemoryTable())

    def close(self) -> None:
        """Forget the tables."""
        self._tables.clear()
