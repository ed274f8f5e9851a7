"""Writing messages into a replay log, within somebody's transaction."""

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import orjson
from sqlalchemy import Connection, Table, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from stores.db.clock import Now
from stores.db.dialect import begin_writing
from stores.replay.errors import ReplayError
from stores.replay.message import CapturedMessage, FieldKind
from stores.replay.tables import END, GONE, PERIODS, Period, periods, row_of
from stores.replay.tallies import close_period

_DAY = 86_400_000
_CACHE = 64 << 20
"""Bytes of memory for the pages of SQLite that a connection writes to."""
PERIOD = 100_000
"""Messages of a period; a batch may be beyond. What is asked of the last one reads all of it.

Who ends one has others wait until it is indexed; and each is a table that queries look into.
"""
SIZE = 1 << 29
"""Bytes of its messages' contents, likewise."""
_MOST = 50
"""Periods of a day that are there as fields differ."""
_ROWS, _VALUES = 1_000, 32_000
"""Of one statement to SQLite, at most."""
_TIME, _SIZE = 6, 10
"""Columns of rows."""
_COPIED = {
    "BIGINT": "int8",
    "INTEGER": "int4",
    "FLOAT": "float8",
    "TEXT": "text",
    'TEXT COLLATE "C"': "text",
    "BYTEA": "bytea",
}


def write(
    connection: Connection,
    fields: Mapping[str, FieldKind],
    messages: Sequence[CapturedMessage],
) -> int:
    """Keep messages; whoever else writes waits for the end of the transaction.

    Args:
        connection: of the log's database.
        fields: declared metadata: name → kind.
        messages: in order per partition.

    Returns:
        The last id.

    Raises:
        ReplayError: others who write have given the fields other kinds, time and again.
    """
    begin_writing(connection)
    if connection.dialect.name == "sqlite":
        # Indexes are written at thousands of places; else each batch writes pages several times.
        connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE >> 10}")
    ids = update(END).values(id=END.c.id + len(messages)).returning(END.c.id)
    last: int = connection.execute(ids).scalar_one()
    if not messages:
        return last
    now: int = connection.execute(select(Now())).scalar_one()
    first = last - len(messages) + 1
    period = _period(connection, fields, now, first)
    rows = [row_of(each, id, now, period) for id, each in enumerate(messages, first)]
    _insert(connection, period.table, rows)
    times = [row[_TIME] for row in rows]
    low, high = min(times), max(times)
    if period.lowest_time is not None and period.highest_time is not None:
        low, high = min(low, period.lowest_time), max(high, period.highest_time)
    connection.execute(
        update(PERIODS)
        .where(PERIODS.c.number == period.number)
        .values(
            messages=PERIODS.c.messages + len(messages),
            lowest_time=low,
            highest_time=high,
            size=PERIODS.c.size + sum(row[_SIZE] for row in rows),
        )
    )
    return last


def _period(
    connection: Connection, fields: Mapping[str, FieldKind], now: int, first_id: int
) -> Period:
    """The period that messages go to from now on.

    A new one begins with a day, with further fields, and when the last one is large enough.

    Several who write within a day share a period, which has the fields of all of them.
    """
    of, day = PERIODS.c, now // _DAY
    newest = of.number == select(func.max(of.number)).scalar_subquery()
    last = next(iter(periods(connection, newest)), None)
    # A clock that was a day ahead, or more, and is right again, begins a new one.
    fits = last is not None and day <= last.day <= day + 1
    if last is not None and fits:
        room = last.messages < PERIOD and last.size < SIZE
        if room and last.fields.items() >= fields.items():
            return last
        today = [each.fields for each in periods(connection, of.day == last.day)]
        if sum(one != other for one, other in pairwise(today)) >= _MOST:
            raise ReplayError(
                "several who write this log declare their fields differently, time and again: "
                f"{_differing(last.fields, fields)}; give them the same kinds"
            )
        fields = {**last.fields, **fields}
    if last is not None:
        close_period(connection, last)
    gone: int = connection.execute(select(func.max(GONE.c.period))).scalar_one() or 0
    number = max(last.number if last else 0, gone) + 1
    made = Period(number, day, now, first_id, fields, 0, None, None)
    kinds = orjson.dumps({name: kind.value for name, kind in fields.items()}).decode()
    row = (number, day, now, first_id, kinds, 0, None, None, 0)
    connection.execute(PERIODS.insert().values(row))
    connection.execute(CreateTable(made.table))
    return made


def _differing(one: Mapping[str, FieldKind], other: Mapping[str, FieldKind]) -> str:
    return ", ".join(
        f"{name} is {one[name].value} and {kind.value}"
        for name, kind in other.items()
        if one.get(name, kind) is not kind
    )


def _insert(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    names = ", ".join(f'"{each.name}"' for each in table.c)
    if connection.dialect.name != "postgresql":
        line = f'INSERT INTO "{table.name}" ({names}) VALUES '
        place = f"({', '.join('?' * len(table.c))})"
        # In one statement: other threads run while SQLite works on it, and not after each row.
        most = min(_ROWS, _VALUES // len(table.c))
        whole = len(rows) - len(rows) % most
        for at in range(0, whole, most):
            values = tuple(chain.from_iterable(rows[at : at + most]))
            connection.exec_driver_sql(line + ", ".join([place] * most), values)
        if whole < len(rows):
            connection.exec_driver_sql(line + place, rows[whole:])
        return
    # COPY takes a fifth of the time of INSERTs.
    line = f'COPY "{table.name}" ({names}) FROM STDIN (FORMAT BINARY)'
    driver: Any = connection.connection.dbapi_connection
    base: Any = connection.dialect.loaded_dbapi.Error
    try:
        with driver.cursor() as cursor, cursor.copy(line) as copy:
            copy.set_types([_COPIED[each.type.compile(connection.dialect)] for each in table.c])
            for row in rows:
                copy.write_row(row)
    except base as error:
        raise DBAPIError.instance(line, None, error, base, dialect=connection.dialect) from error
