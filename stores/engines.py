"""SQLAlchemy engines by URL, as message logs and cursors use them."""

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url

BUSY = 30.0
"""Seconds that a writer of an SQLite file waits for another one."""
_CONNECT = {"connect_timeout": "5", "tcp_user_timeout": "20000", "application_name": "sequitur"}


def open_engine(url: str, **settings: Any) -> Engine:
    """The engine of `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.

    What is committed survives a power loss: SQLite is synced, PostgreSQL is as its server is set.
    settings: of `sqlalchemy.create_engine`. Raises ValueError for another kind of database.
    """
    parsed = make_url(url)
    kind = parsed.get_backend_name()
    if kind == "postgresql":
        given = {name: value for name, value in _CONNECT.items() if name not in parsed.query}
        parsed = parsed.set(drivername="postgresql+psycopg")
        return create_engine(parsed, connect_args=given, **{"pool_pre_ping": True, **settings})
    if kind != "sqlite" or not parsed.database or parsed.database == ":memory:":
        shown = parsed.render_as_string(hide_password=True)
        raise ValueError(f"{shown!r}: use sqlite:///FILE or postgresql://USER@HOST/DATABASE")
    Path(parsed.database).absolute().parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        parsed, connect_args={"timeout": BUSY, "check_same_thread": False}, **settings
    )

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    return engine
