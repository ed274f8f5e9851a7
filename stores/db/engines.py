"""SQLAlchemy engines by URL, as message logs and inboxes use them."""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from stores.db.sqlite_wal import set_wal
from stores.db.urls import KEPT_ALIVE, UrlError, read_url, require, without_password

BUSY = 30.0
"""Seconds that a writer of an SQLite file waits for another one."""
_CONNECT = {
    "connect_timeout": "5",
    "tcp_user_timeout": "20000",
    "application_name": "sequitur",
    **KEPT_ALIVE,
}


def parsed_url(url: str) -> URL:
    """The parts of a URL. Raises UrlError, which says nothing of what is secret in it."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise UrlError(
            f"{without_password(url)!r} is no URL of a database: write sqlite:///FILE or "
            "postgresql://USER@HOST:PORT/DATABASE, with %40 for @, %2F for / and so on in a "
            "password"
        ) from None


def open_engine(url: str, **settings: Any) -> Engine:
    """Open the engine of `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.

    What is committed survives a power loss: SQLite is synced, PostgreSQL is as its server is set.

    Args:
        url: the database.
        settings: further arguments of `create_engine`.

    Raises:
        UrlError: a ValueError: this is no URL of a database, it is another kind of database, or its
            driver is not installed.
    """
    parsed = parsed_url(url := read_url(url))
    kind = parsed.drivername.partition("+")[0]
    if kind in ("postgresql", "postgres"):
        given = {name: value for name, value in _CONNECT.items() if name not in parsed.query}
        require("database", url, "psycopg", "postgres", UrlError)
        parsed = parsed.set(drivername="postgresql+psycopg")
        return create_engine(parsed, connect_args=given, **{"pool_pre_ping": True, **settings})
    if kind != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise UrlError(
            f"{without_password(url)!r}: use sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        )
    Path(parsed.database).absolute().parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        parsed, connect_args={"timeout": BUSY, "check_same_thread": False}, **settings
    )

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        try:
            set_wal(connection, BUSY)
            connection.execute("PRAGMA synchronous=FULL")
        except sqlite3.DatabaseError as error:  # which says nothing of where
            error.args = (f"{parsed.database}: {error}",)
            raise

    return engine
