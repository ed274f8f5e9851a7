"""A view's table in memory: for tests, and for what need not outlive the process."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

Row = tuple[bytes, bytes | None]


class MemoryTable:
    """A sorted map of bytes. `offset` is the changelog offset it stands at, or None."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.offset: int | None = None
        self._keys: list[bytes] = []

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        at, stop = bisect_left(self._keys, first), bisect_left(self._keys, end)
        for key in self._keys[at:stop]:
            yield key, self.rows[key]

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        for key, value in rows:
            if value is None:
                if self.rows.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]
            else:
                if key not in self.rows:
                    insort(self._keys, key)
                self.rows[key] = value
        if offset is not None:
            self.offset = offset
