"""The sides of a SQL read store: what there is, and how one takes the place of the live tables."""

from collections.abc import Sequence

from stores.sinks.sink import OLD, Position, StoreError, check_caught_up, not_caught_up
from stores.sinks.sql.database import Database, quoted
from stores.sinks.sql.dead_rows import SqlDead
from stores.sinks.sql.own_tables import SIDES, drop_side, on_side


def names(database: Database) -> set[str]:
    """The names in the database of all tables of all sides."""
    found = database.query(f'SELECT side, "table" FROM {SIDES}')
    return {on_side(table, side) for side, table in found}


def tables(database: Database, side: str) -> list[str]:
    """The tables of a side, by the names that views give them."""
    sql = f'SELECT "table" FROM {SIDES} WHERE side = ? ORDER BY "table"'
    return [table for (table,) in database.query(sql, [side]) if table]


def written(database: Database) -> set[str]:
    """The sides that have been opened for writing."""
    return {side for (side,) in database.query(f"""SELECT side FROM {SIDES} WHERE "table" = ''""")}


def add(database: Database, side: str, table: str) -> None:
    """Note a table of a side."""
    database.put(SIDES, ("side", "table"), (), [(side, table)])


def drop(database: Database, side: str) -> None:
    """Delete a side, which need not be there."""
    for table in tables(database, side):
        database.run(f"DROP TABLE IF EXISTS {quoted(on_side(table, side))}")
    if side in written(database):
        drop_side(database, side)
    database.query(f"DELETE FROM {SIDES} WHERE side = ?", [side])


def switch(database: Database, side: str, topics: Sequence[str]) -> None:
    """Let a side take the place of the live tables; see `Sink.switch`."""
    if side not in written(database):
        known = ", ".join(sorted(written(database))) or "none"
        raise StoreError(f"side {side!r} is not there to switch to; there are: {known}")
    live, there = (_positions(database, each) for each in (None, side))
    check_caught_up(side, topics, live, there)
    for topic in topics:
        _check_streams(database, side, topic)
    existing = {table.name for table in database.found()[0]}
    for table in tables(database, side):
        kept = None
        if table in existing:
            kept = on_side(table, OLD)
            if kept in existing:
                raise StoreError(
                    f"table {table!r}: the store has {kept!r} already, which the "
                    f"live table would be kept as; drop the side {OLD!r} first"
                )
            add(database, OLD, table)
        database.replace(table, kept, on_side(table, side))
    for topic in topics:
        _take_over(database, side, topic)
    drop_side(database, side)
    database.query(f"DELETE FROM {SIDES} WHERE side = ?", [side])


def _positions(database: Database, side: str | None) -> list[Position]:
    name = quoted(on_side("_positions", side))
    found = database.query(f'SELECT topic, "partition", next_offset FROM {name}')
    return [Position(topic, partition, offset) for topic, partition, offset in found]


def _check_streams(database: Database, side: str, topic: str) -> None:
    """The side has to be as far with every stream, unless it is in a later epoch already."""
    sql = (
        "SELECT live.view, live.stream, there.sequence, live.sequence "
        f"FROM _progress AS live JOIN {quoted(on_side('_progress', side))} AS there "
        "ON live.topic = there.topic AND live.view = there.view AND live.stream = there.stream "
        "WHERE live.topic = ? AND live.epoch >= there.epoch AND live.sequence > there.sequence "
        "LIMIT 1"
    )
    for view, stream, there, live in database.query(sql, [topic]):
        raise not_caught_up(side, view, stream, there, live)


def _take_over(database: Database, side: str, topic: str) -> None:
    """Make a topic's streams and dead records the side's.

    A stream that is not in the side keeps its mark, so that nothing of it is applied again. One
    whose epoch is lower there is made again by records that the side has not seen; they come up to
    where the rows are, and would take these back if they were applied.
    """
    parameters = [topic]
    database.query(
        "INSERT INTO _progress (topic, view, stream, sequence, epoch) "
        "SELECT there.topic, there.view, there.stream, there.sequence, "
        "CASE WHEN live.epoch > there.epoch THEN live.epoch ELSE there.epoch END "
        f"FROM {quoted(on_side('_progress', side))} AS there LEFT JOIN _progress AS live "
        "ON live.topic = there.topic AND live.view = there.view AND live.stream = there.stream "
        "WHERE there.topic = ? "
        "ON CONFLICT (topic, view, stream) DO UPDATE "
        "SET sequence = excluded.sequence, epoch = excluded.epoch",
        parameters,
    )
    SqlDead(database, None).take_over(SqlDead(database, side), topic)
