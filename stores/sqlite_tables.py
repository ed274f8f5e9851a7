"""The SQL of a SQLite read store: its own tables, the tables of the views, and their columns."""

import sqlite3
from collections.abc import Iterable

from stores.columns import Kind, Number
from stores.schema import Schema, TableState

OWN_TABLES = """
CREATE TABLE _positions (
    topic TEXT, partition INTEGER, next_offset INTEGER NOT NULL,
    applied INTEGER NOT NULL, duplicates INTEGER NOT NULL, dead INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE _progress (
    topic TEXT, view TEXT, stream TEXT, sequence INTEGER NOT NULL,
    PRIMARY KEY (topic, view, stream)) WITHOUT ROWID;
CREATE TABLE _dead (
    topic TEXT, partition INTEGER, "offset" INTEGER, reason TEXT NOT NULL, value BLOB,
    PRIMARY KEY (topic, partition, "offset"));
CREATE TABLE _batches (
    "query" TEXT PRIMARY KEY, number INTEGER NOT NULL, at TEXT NOT NULL, records INTEGER NOT NULL);
"""
_SQL_TYPES: dict[Kind, str] = {
    int: "INTEGER",
    float: "REAL",
    str: "TEXT",
    bool: "BOOLEAN",
    Number: "NUMERIC",
}


def read_schema(connection: sqlite3.Connection) -> Schema:
    """The tables of the views as they are in the file."""
    tables, taken = [], []
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
        if kind != "table":
            taken.append(name)
        elif not name.startswith(("_", "sqlite_")):
            tables.append(_read_table(connection, name))
    return Schema(tables, taken)


def _read_table(connection: sqlite3.Connection, name: str) -> TableState:
    sql = "SELECT pk, name, type FROM pragma_table_info(?) ORDER BY pk, cid"
    key: dict[str, Kind] = {}
    columns: dict[str, Kind] = {}
    for pk, column, sql_type in connection.execute(sql, (name,)):
        kind = _kind(sql_type)
        if pk:
            key[column] = str if kind is object else kind
        else:
            columns[column] = kind
    return TableState(name, key, columns)


def _kind(sql_type: str) -> Kind:
    """The kind of a column by its type, as SQLite reads types: by what the name contains."""
    name = sql_type.upper()
    for part, kind in (
        *(("INT", int), ("CHAR", str), ("CLOB", str), ("TEXT", str), ("REAL", float)),
        *(("FLOA", float), ("DOUB", float), ("BOOL", bool), ("NUMERIC", Number)),
    ):
        if part in name:
            return kind
    return object


def create(table: TableState) -> str:
    """The statement that makes a table with all its columns."""
    key = [f"{quoted(name)} {_SQL_TYPES[kind]} NOT NULL" for name, kind in table.key.items()]
    columns = [f"{quoted(name)} {_SQL_TYPES[kind]}" for name, kind in table.columns.items()]
    primary = f"PRIMARY KEY ({', '.join(map(quoted, table.key))})"
    return f"CREATE TABLE {quoted(table.name)} ({', '.join([*key, *columns, primary])})"


def add_column(table: TableState, column: str) -> str:
    """The statement that adds one column."""
    kind = _SQL_TYPES[table.columns[column]]
    return f"ALTER TABLE {quoted(table.name)} ADD COLUMN {quoted(column)} {kind}"


def upsert(table: TableState, columns: Iterable[str]) -> str:
    """The statement that sets columns of one row; its parameters are the key, then the columns."""
    names = [quoted(name) for name in (*table.key, *columns)]
    sets = ", ".join(f"{name} = excluded.{name}" for name in names[len(table.key) :])
    return (
        f"INSERT INTO {quoted(table.name)} ({', '.join(names)}) VALUES ({marks(len(names))}) "
        f"ON CONFLICT ({', '.join(names[: len(table.key)])}) "
        f"DO {f'UPDATE SET {sets}' if sets else 'NOTHING'}"
    )


def delete(table: TableState) -> str:
    """The statement that deletes one row; the parameters are its key."""
    where = " AND ".join(f"{quoted(name)} = ?" for name in table.key)
    return f"DELETE FROM {quoted(table.name)} WHERE {where}"


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def marks(count: int) -> str:
    """Marks of `count` parameters."""
    return ", ".join("?" * count)
