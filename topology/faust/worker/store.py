"""A view's table as a Faust table store: to look at through Faust, written by the engine alone."""

from collections.abc import Iterator
from typing import Any

from faust.stores import base
from faust.types import TP

_END = b"\xff" * 64


class Store(base.SerializedStore):  # type: ignore[type-arg]
    """Shows the engine's tables of the partitions that this worker has."""

    def _tables(self) -> Iterator[Any]:
        tables = self.app.engine.tables  # type: ignore[attr-defined]
        for partition in tables.partitions(self.table.name):
            table = tables.table(self.table.name, partition)
            if table is not None:
                yield table

    def persisted_offset(self, tp: TP) -> int | None:
        engine = self.app.engine  # type: ignore[attr-defined]
        table = engine.tables.table(self.table.name, tp.partition)
        return None if table is None or not table.offset else table.offset - 1

    def _get(self, key: bytes) -> bytes | None:
        return next((v for t in self._tables() if (v := t.get(key)) is not None), None)

    def _contains(self, key: bytes) -> bool:
        return self._get(key) is not None

    def _iteritems(self) -> Iterator[tuple[bytes, bytes]]:
        for table in self._tables():
            yield from table.scan(b"a", _END)

    def _iterkeys(self) -> Iterator[bytes]:
        return (key for key, _ in self._iteritems())

    def _itervalues(self) -> Iterator[bytes | None]:
        return (value for _, value in self._iteritems())

    def _size(self) -> int:
        return sum(1 for _ in self._iteritems())

    def _set(self, key: bytes, value: bytes | None) -> None:
        raise self._refusal()

    def _del(self, key: bytes) -> None:
        raise self._refusal()

    def _clear(self) -> None:
        raise self._refusal()

    def _refusal(self) -> TypeError:
        return TypeError(
            f"table {self.table.name!r} is a view's state: only its engine writes it, together "
            "with the view's outputs; use a Faust table of your own for other state"
        )

    async def backup_partition(
        self, tp: Any, flush: bool = True, purge: bool = False, keep: int = 1
    ) -> None:
        """Not needed: the changelog topic is the backup."""
        raise self._refusal()

    def restore_backup(self, tp: Any, latest: bool = True, backup_id: int = 0) -> None:
        """Not needed: a table is restored from its changelog topic."""
        raise self._refusal()

    def reset_state(self) -> None:
        """Nothing to do: a table that is lost or old is rebuilt from its changelog."""
