"""A SQL read store's own tables: what they are called on each shadow, and how they are made."""

import time

from stores.sinks.errors import StoreError
from stores.sinks.shadows import shadow_name
from stores.sinks.sql.database import Database, quoted

LAYOUT = 5
"""Of these tables; 1 had no epochs and no shadows, 2 kept all dead records, 3 had `_sides`, 4 did
not say who removed dead records."""

SHADOWS = "_shadows"
"""The shadow tables: a line for each, and one without a table for each shadow that is written."""

REMOVALS = "_dead_removals"
"""Who had dead records removed, of any set of tables."""

_PER_SHADOW = {
    "_positions": """
        topic TEXT, "partition" {integer}, next_offset {integer} NOT NULL,
        applied {integer} NOT NULL, duplicates {integer} NOT NULL, dead {integer} NOT NULL,
        PRIMARY KEY (topic, "partition")""",
    "_progress": """
        topic TEXT, view TEXT, stream TEXT, sequence {integer} NOT NULL,
        epoch {integer} NOT NULL DEFAULT 0, PRIMARY KEY (topic, view, stream)""",
    "_dead": """
        topic TEXT, "partition" {integer}, "offset" {integer}, reason TEXT NOT NULL, value {blob},
        at {integer}, PRIMARY KEY (topic, "partition", "offset")""",
    "_dead_removed": """
        topic TEXT, "partition" {integer}, removed {integer} NOT NULL, spans TEXT NOT NULL,
        PRIMARY KEY (topic, "partition")""",
    "_batches": """
        "query" TEXT PRIMARY KEY, number {integer} NOT NULL, at TEXT NOT NULL,
        records {integer} NOT NULL""",
}


def make_all(database: Database) -> None:
    """Make what is the same for all shadows, and bring older layouts up to this one."""
    layout = database.layout()
    if layout is not None and not 1 <= layout <= LAYOUT:
        raise StoreError(
            f"the read store has layout {layout}, this program writes {LAYOUT}; use the program "
            "that made it, or another store"
        )
    if layout is None:
        make_own(database, None)
    if layout == 1:  # of SQLite files only
        database.run("ALTER TABLE _progress ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0")
    if layout is None or layout == 1:
        database.run(
            f'CREATE TABLE {SHADOWS} (shadow TEXT, "table" TEXT, PRIMARY KEY (shadow, "table"))'
        )
    elif layout < 4:
        database.run(f"ALTER TABLE _sides RENAME TO {SHADOWS}")
        database.run(f"ALTER TABLE {SHADOWS} RENAME COLUMN side TO shadow")
    if layout is not None and layout < 3:
        _bound_dead(database)
    if layout != LAYOUT:
        number = database.integer
        database.run(
            f"CREATE TABLE IF NOT EXISTS {REMOVALS} (at {number} NOT NULL, who TEXT NOT NULL, "
            f"why TEXT NOT NULL, topic TEXT, number {number} NOT NULL)"
        )
        database.set_layout(LAYOUT)


def _bound_dead(database: Database) -> None:
    """Let every shadow note when a record became dead, and how many are kept no more."""
    shadows = database.query(f"""SELECT shadow FROM {SHADOWS} WHERE "table" = ''""")
    for shadow in (None, *(shadow for (shadow,) in shadows)):
        name = quoted(shadow_name("_dead", shadow))
        database.run(f"ALTER TABLE {name} ADD COLUMN at {database.integer}")
        database.run(f"UPDATE {name} SET at = {int(time.time())}")
        _make(database, "_dead_removed", shadow)


def make_own(database: Database, shadow: str | None) -> None:
    """Make the own tables of a shadow."""
    for name in _PER_SHADOW:
        _make(database, name, shadow)


def _make(database: Database, name: str, shadow: str | None) -> None:
    columns = _PER_SHADOW[name].format(integer=database.integer, blob=database.blob)
    end = "" if name == "_dead" else database.table_end
    database.run(f"CREATE TABLE {quoted(shadow_name(name, shadow))} ({columns}){end}")


def drop_own(database: Database, shadow: str) -> None:
    """Drop the own tables of a shadow, if they are there."""
    for name in _PER_SHADOW:
        database.run(f"DROP TABLE IF EXISTS {quoted(shadow_name(name, shadow))}")
