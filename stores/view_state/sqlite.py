"""View-state tables in an SQLite file."""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, bindparam, create_engine, delete, event
from sqlalchemy.dialects.sqlite import insert

from stores.db.engines import parsed_url
from stores.db.sqlite_wal import set_wal
from stores.db.urls import without_password
from stores.view_state.sql import ROWS, SqlStore
from stores.view_state.table import TableError

BUSY = 20.0
"""Seconds that a writer waits for another one."""

_insert = insert(ROWS)
_PUT = _insert.on_conflict_do_update(
    index_elements=["table_id", "key"], set_={"value": _insert.excluded.value}
)
_REMOVE = delete(ROWS).where(ROWS.c.table_id == bindparam("of"), ROWS.c.key == bindparam("wanted"))


class _Sqlite:
    remedy = (
        "check the disk and the file's rights. Deleting the file and those beside it loses "
        "nothing: the tables are rebuilt from the changelog"
    )

    def insert(self, table: Table) -> Any:
        return insert(table)

    def put(self, connection: Connection, table: int, rows: list[tuple[bytes, bytes]]) -> None:
        connection.execute(_PUT, [{"table_id": table, "key": k, "value": v} for k, v in rows])

    def remove(self, connection: Connection, table: int, keys: list[bytes]) -> None:
        connection.execute(_REMOVE, [{"of": table, "wanted": key} for key in keys])

    def take_long(self, connection: Connection) -> None:
        """A file sets no limits."""


def open_sqlite(url: str, group: str) -> SqlStore:
    """The store in the file of `sqlite:///file` or `sqlite:////full/path/file`."""
    parsed = parsed_url(url)
    if not parsed.database or parsed.database == ":memory:":
        raise TableError(
            f"view-state store {without_password(url)!r} names no file; write sqlite:///FILE, or "
            "memory"
        )
    Path(parsed.database).absolute().parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(parsed, connect_args={"timeout": BUSY})

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _: Any) -> None:
        # After a loss of power the last writes may be gone, never a part of one: the changelog
        # has them.
        set_wal(connection, BUSY)
        connection.execute("PRAGMA synchronous=NORMAL")

    return SqlStore(engine, _Sqlite(), group, url)
