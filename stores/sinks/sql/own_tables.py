"""A SQL read store's own tables: what they are called on each side, and how they are made."""

import time

from stores.sinks.columns import NAME_BYTES
from stores.sinks.sink import OLD, StoreError
from stores.sinks.sql.database import Database, quoted

LAYOUT = 3
"""Of these tables; 1 had no epochs and no sides, 2 kept all dead records."""

SIDES = "_sides"
"""The tables of the sides: a line for each, and one without a table for each side that is written.
"""

_PER_SIDE = {
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


def on_side(name: str, side: str | None) -> str:
    """What a table is called on a side, None being that of the live tables."""
    return name if side is None else f"{name}__{side}"


def room(side: str | None) -> int:
    """How many bytes a table's name may have, so that the side's, and `old`, fit behind it."""
    return NAME_BYTES if side is None else NAME_BYTES - len("__") - max(len(side), len(OLD))


def make_all(database: Database) -> None:
    """Make what is the same for all sides, and bring older layouts up to this one."""
    layout = database.layout()
    if layout is not None and not 1 <= layout <= LAYOUT:
        raise StoreError(
            f"the read store has layout {layout}, this program writes {LAYOUT}; use the program "
            "that made it, or another store"
        )
    if layout is None:
        make_side(database, None)
    if layout == 1:  # of SQLite files only
        database.run("ALTER TABLE _progress ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0")
    if layout is None or layout == 1:
        database.run(f'CREATE TABLE {SIDES} (side TEXT, "table" TEXT, PRIMARY KEY (side, "table"))')
    if layout is not None and layout < LAYOUT:
        _bound_dead(database)
    if layout != LAYOUT:
        database.set_layout(LAYOUT)


def _bound_dead(database: Database) -> None:
    """Let every side note when a record became dead, and how many are kept no more."""
    sides = database.query(f"""SELECT side FROM {SIDES} WHERE "table" = ''""")
    for side in (None, *(side for (side,) in sides)):
        name = quoted(on_side("_dead", side))
        database.run(f"ALTER TABLE {name} ADD COLUMN at {database.integer}")
        database.run(f"UPDATE {name} SET at = {int(time.time())}")
        _make(database, "_dead_removed", side)


def make_side(database: Database, side: str | None) -> None:
    """Make the own tables of a side."""
    for name in _PER_SIDE:
        _make(database, name, side)


def _make(database: Database, name: str, side: str | None) -> None:
    columns = _PER_SIDE[name].format(integer=database.integer, blob=database.blob)
    end = "" if name == "_dead" else database.table_end
    database.run(f"CREATE TABLE {quoted(on_side(name, side))} ({columns}){end}")


def drop_side(database: Database, side: str) -> None:
    """Drop the own tables of a side, if they are there."""
    for name in _PER_SIDE:
        database.run(f"DROP TABLE IF EXISTS {quoted(on_side(name, side))}")
