"""A read store in one SQLite file."""

from collections.abc import Iterable
from pathlib import Path

from stores.sinks.sink import DeclaredTable
from stores.sinks.sql.sink import SqlSink
from stores.sinks.sql.sqlite_database import SqliteDatabase


class SqliteSink(SqlSink):
    """A `Sink` into the SQLite file at `path`, which is made with its folder where it is not there.

    tables: declared tables, made at once. shadow: whose tables are written. Raises StoreError.
    """

    def __init__(
        self, path: Path | str, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
    ) -> None:
        self.path = Path(path)
        super().__init__(SqliteDatabase(self.path), tables, shadow)
