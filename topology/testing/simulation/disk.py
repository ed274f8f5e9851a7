"""A view's table on a disk that a crash can set back, as RocksDB without write-ahead log."""

from collections.abc import Iterable

from stores.view_state.memory import MemoryTable
from topology.model.partition_table import Row


class FakeTable(MemoryTable):
    """A table whose writes are safe only once flushed: a crash loses some of the last ones."""

    def __init__(self) -> None:
        super().__init__()
        self._writes: list[tuple[list[Row], int | None]] = []
        self._safe = 0

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        rows = list(rows)
        self._writes.append((rows, offset))
        super().write(rows, offset)

    @property
    def unsafe(self) -> int:
        """How many writes a crash may lose."""
        return len(self._writes) - self._safe

    def flush(self) -> None:
        """Make all writes safe."""
        self._safe = len(self._writes)

    def lose(self, count: int) -> None:
        """Lose the last `count` writes, as a crash does, and no part of another."""
        if count:
            kept = self._writes[: len(self._writes) - count]
            safe = self._safe
            self.clear()
            for rows, offset in kept:
                self.write(rows, offset)
            self._safe = safe

    def clear(self) -> None:
        """Delete everything, for good."""
        MemoryTable.__init__(self)
        self._writes, self._safe = [], 0
