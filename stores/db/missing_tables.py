"""Tables and indices are made where they are not there, by whoever comes first."""

from typing import Any

from sqlalchemy import Column, Connection, MetaData, inspect
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from stores.db.advisory_locks import AdvisoryLock, lock_until_commit


def create_missing(connection: Connection, metadata: MetaData, lock: AdvisoryLock) -> set[str]:
    """Create the tables and indices that are missing, in the connection's transaction.

    Where all is there nothing is locked: a prepared transaction holds what it has locked until it
    is resolved, and whoever is to resolve it may have to pass here. Else the lock is taken: two who
    CREATE TABLE IF NOT EXISTS at once get in each other's way in PostgreSQL's catalogue.

    Returns:
        The names of what was missing.
    """
    if not _missing(connection, metadata):
        return set()
    lock_until_commit(connection, lock)
    missing = _missing(connection, metadata)
    for table in metadata.sorted_tables:
        if table.name in missing:
            connection.execute(CreateTable(table, if_not_exists=True))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.name in missing:
                connection.execute(CreateIndex(index, if_not_exists=True))
    return missing


def add_missing_column(
    connection: Connection, column: "Column[Any]", default: str, lock: AdvisoryLock
) -> None:
    """Add a column to a table that an older version made, in the connection's transaction.

    Args:
        connection: which writes.
        column: of its table, which is there.
        default: SQL of what it has in the rows that are there.
        lock: as of `create_missing`.
    """

    def is_missing() -> bool:
        return column.name not in {
            each["name"] for each in inspect(connection).get_columns(column.table.name)
        }

    if not is_missing():
        return
    lock_until_commit(connection, lock)
    if is_missing():
        quoted = connection.dialect.identifier_preparer
        what = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(
            f"ALTER TABLE {quoted.format_table(column.table)} ADD COLUMN {what} DEFAULT {default}"
        )


def _missing(connection: Connection, metadata: MetaData) -> set[str]:
    found = inspect(connection)
    missing = set[str]()
    for table in metadata.sorted_tables:
        indices = {str(index.name) for index in table.indexes}
        if not found.has_table(table.name, table.schema):
            missing |= {table.name, *indices}
        elif indices:
            there = found.get_indexes(table.name, table.schema)
            missing |= indices - {str(index["name"]) for index in there}
    return missing
