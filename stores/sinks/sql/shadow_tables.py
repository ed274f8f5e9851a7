"""The shadow tables of a SQL read store: what there is, and how they replace the live ones."""

from collections.abc import Sequence

from stores.sinks.errors import StoreError
from stores.sinks.records import Position
from stores.sinks.shadows import OLD, check_caught_up, not_caught_up, shadow_name
from stores.sinks.sql.database import Database, quoted
from stores.sinks.sql.dead_rows import SqlDeadRecords
from stores.sinks.sql.own_tables import SHADOWS, drop_own


def names(database: Database) -> set[str]:
    """The names in the database of all tables of all shadows."""
    found = database.query(f'SELECT shadow, "table" FROM {SHADOWS}')
    return {shadow_name(table, shadow) for shadow, table in found}


def tables(database: Database, shadow: str) -> list[str]:
    """The tables of a shadow, by the names that views give them."""
    sql = f'SELECT "table" FROM {SHADOWS} WHERE shadow = ? ORDER BY "table"'
    return [table for (table,) in database.query(sql, [shadow]) if table]


def written(database: Database) -> set[str]:
    """The shadows that have been opened for writing."""
    return {
        shadow
        for (shadow,) in database.query(f"""SELECT shadow FROM {SHADOWS} WHERE "table" = ''""")
    }


def add(database: Database, shadow: str, table: str) -> None:
    """Note a table of a shadow."""
    database.upsert(SHADOWS, ("shadow", "table"), (), [(shadow, table)])


def drop(database: Database, shadow: str) -> None:
    """Delete a shadow, which need not be there."""
    for table in tables(database, shadow):
        database.run(f"DROP TABLE IF EXISTS {quoted(shadow_name(table, shadow))}")
    if shadow in written(database):
        drop_own(database, shadow)
    database.query(f"DELETE FROM {SHADOWS} WHERE shadow = ?", [shadow])


def switch(database: Database, shadow: str, topics: Sequence[str]) -> None:
    """Let a shadow take the place of the live tables; see `Sink.switch`."""
    if shadow not in written(database):
        known = ", ".join(sorted(written(database))) or "none"
        raise StoreError(f"shadow tables {shadow!r} are not there to switch to; there are: {known}")
    live, there = (_positions(database, each) for each in (None, shadow))
    check_caught_up(shadow, topics, live, there)
    for topic in topics:
        _check_streams(database, shadow, topic)
    existing = {table.name for table in database.tables()[0]}
    for table in tables(database, shadow):
        kept = None
        if table in existing:
            kept = shadow_name(table, OLD)
            if kept in existing:
                raise StoreError(
                    f"table {table!r}: the store has {kept!r} already, which the "
                    f"live table would be kept as; drop the shadow tables {OLD!r} first"
                )
            add(database, OLD, table)
        database.swap(table, kept, shadow_name(table, shadow))
    for topic in topics:
        _take_over(database, shadow, topic)
    drop_own(database, shadow)
    database.query(f"DELETE FROM {SHADOWS} WHERE shadow = ?", [shadow])


def _positions(database: Database, shadow: str | None) -> list[Position]:
    name = quoted(shadow_name("_positions", shadow))
    found = database.query(f'SELECT topic, "partition", next_offset FROM {name}')
    return [Position(topic, partition, offset) for topic, partition, offset in found]


def _check_streams(database: Database, shadow: str, topic: str) -> None:
    """The shadow has to be as far with every stream, unless it is in a later epoch already."""
    sql = (
        "SELECT live.view, live.stream, there.sequence, live.sequence "
        f"FROM _progress AS live JOIN {quoted(shadow_name('_progress', shadow))} AS there "
        "ON live.topic = there.topic AND live.view = there.view AND live.stream = there.stream "
        "WHERE live.topic = ? AND live.epoch >= there.epoch AND live.sequence > there.sequence "
        "LIMIT 1"
    )
    for view, stream, there, live in database.query(sql, [topic]):
        raise not_caught_up(shadow, view, stream, there, live)


def _take_over(database: Database, shadow: str, topic: str) -> None:
    """Make a topic's streams and dead records the shadow's.

    A stream that is not in the shadow keeps its mark, so that nothing of it is applied again. One
    whose epoch is lower there is made again by records that the shadow has not seen; they come up
    to where the rows are, and would take these back if they were applied.
    """
    parameters = [topic]
    database.query(
        "INSERT INTO _progress (topic, view, stream, sequence, epoch) "
        "SELECT there.topic, there.view, there.stream, there.sequence, "
        "CASE WHEN live.epoch > there.epoch THEN live.epoch ELSE there.epoch END "
        f"FROM {quoted(shadow_name('_progress', shadow))} AS there LEFT JOIN _progress AS live "
        "ON live.topic = there.topic AND live.view = there.view AND live.stream = there.stream "
        "WHERE there.topic = ? "
        "ON CONFLICT (topic, view, stream) DO UPDATE "
        "SET sequence = excluded.sequence, epoch = excluded.epoch",
        parameters,
    )
    SqlDeadRecords(database, None).take_over(SqlDeadRecords(database, shadow), topic)
