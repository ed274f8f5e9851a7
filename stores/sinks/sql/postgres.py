"""A read store in a PostgreSQL database."""

from collections.abc import Iterable

from stores.sinks.sink import DeclaredTable
from stores.sinks.sql.postgres_database import PostgresDatabase
from stores.sinks.sql.sink import SqlSink


class PostgresSink(SqlSink):
    """A `Sink` into the database at `postgresql://user:password@host:port/database`.

    Its tables are in the first schema of the user's search path. tables: declared tables, made at
    once. shadow: whose tables are written. Raises StoreError.
    """

    def __init__(
        self, url: str, tables: Iterable[DeclaredTable] = (), shadow: str | None = None
    ) -> None:
        super().__init__(PostgresDatabase(url), tables, shadow)
