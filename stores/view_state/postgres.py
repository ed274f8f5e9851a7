"""View-state tables in a PostgreSQL database."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Table, create_engine, text
from sqlalchemy.dialects.postgresql import insert

from stores.db.engines import parsed_url
from stores.db.urls import KEPT_ALIVE
from stores.view_state.sql import SqlStore

PART_BYTES = 8 << 20
"""Bytes of rows that go into one statement."""

_CONNECT = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "application_name": "sequitur",
    **KEPT_ALIVE,
}
# Not to wait for the server's disk: after its crash the last writes may be gone, which the
# changelog has. A worker that is stopped in the middle of a write must not hold its partition's
# next owner up for ever, nor must a server that hangs hold up a worker.
_OPTIONS = (
    "-c synchronous_commit=off -c statement_timeout=60s -c lock_timeout=20s "
    "-c idle_in_transaction_session_timeout=10s"
)
_PUT = text(
    "INSERT INTO sequitur_view_rows (table_id, key, value) "
    "SELECT :of, new.key, new.value "
    "FROM unnest(CAST(:keys AS bytea[]), CAST(:values AS bytea[])) AS new (key, value) "
    "ON CONFLICT (table_id, key) DO UPDATE SET value = excluded.value"
)
_REMOVE = text(
    "DELETE FROM sequitur_view_rows WHERE table_id = :of AND key = ANY (CAST(:keys AS bytea[]))"
)


class _Postgres:
    remedy = (
        "see that the server runs, can be reached, has disk left, and lets this user make tables. "
        "What is missing is caught up from the changelog"
    )

    def insert(self, table: Table) -> Any:
        return insert(table)

    def put(self, connection: Connection, table: int, rows: list[tuple[bytes, bytes]]) -> None:
        for part in _parts(rows):
            keys, values = zip(*part, strict=True)
            connection.execute(_PUT, {"of": table, "keys": list(keys), "values": list(values)})

    def remove(self, connection: Connection, table: int, keys: list[bytes]) -> None:
        connection.execute(_REMOVE, {"of": table, "keys": keys})

    def take_long(self, connection: Connection) -> None:
        connection.execute(text("SET LOCAL statement_timeout = 0"))


def _parts(rows: list[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    part: list[tuple[bytes, bytes]] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row[0]) + len(row[1])
        if size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def open_postgres(url: str, group: str) -> SqlStore:
    """The store in the database of `postgresql://user:password@host:port/database`.

    What follows a `?` goes to the driver (psycopg), as `host=/run/postgresql` for a Unix socket.
    """
    parsed = parsed_url(url).set(drivername="postgresql+psycopg")
    given = {name: value for name, value in _CONNECT.items() if name not in parsed.query}
    theirs = parsed.normalized_query.get("options", ())
    given["options"] = " ".join([_OPTIONS, *theirs])  # the last one wins
    return SqlStore(create_engine(parsed, connect_args=given), _Postgres(), group, url)
