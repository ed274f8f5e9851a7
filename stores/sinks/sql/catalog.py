"""The tables of a SQL read store as they are, and the statements that make more of them."""

from collections.abc import Mapping
from dataclasses import replace

from stores.sinks.columns import Kind, sql_type
from stores.sinks.schema import Schema, TableState
from stores.sinks.shadows import name_bytes, shadow_name
from stores.sinks.sql import shadow_tables
from stores.sinks.sql.database import Database, listed, quoted


def read_schema(database: Database, shadow: str | None) -> Schema:
    """The live tables, or those of a shadow, by the names that views give them."""
    found, taken = database.tables()
    if shadow is None:
        others = shadow_tables.names(database)
        taken += [table.name for table in found if table.name in others]
        tables = [table for table in found if table.name not in others]
        return Schema(tables, taken, database.limits)
    mine = {shadow_name(table, shadow): table for table in shadow_tables.tables(database, shadow)}
    end = shadow_name("", shadow)
    tables = [table.copied(mine[table.name]) for table in found if table.name in mine]
    taken += [table.name for table in found if table.name not in mine]
    return Schema(
        tables,
        [name.removesuffix(end) for name in taken if name.endswith(end)],
        replace(database.limits, name_bytes=name_bytes(shadow)),
    )


def create(name: str, table: TableState, types: Mapping[Kind, str]) -> str:
    """The statement that makes a table with all its columns, under this name."""
    key = [
        f"{quoted(column)} {sql_type(kind, types)} NOT NULL" for column, kind in table.key.items()
    ]
    columns = [
        f"{quoted(column)} {sql_type(kind, types)}" for column, kind in table.columns.items()
    ]
    primary = f"PRIMARY KEY ({listed(table.key)})"
    return f"CREATE TABLE {quoted(name)} ({', '.join([*key, *columns, primary])})"


def add_column(name: str, column: str, sql_type: str) -> str:
    """The statement that adds one column."""
    return f"ALTER TABLE {quoted(name)} ADD COLUMN {quoted(column)} {sql_type}"
