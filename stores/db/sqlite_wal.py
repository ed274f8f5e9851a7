"""SQLite's WAL mode, in which readers and the one writer do not block each other."""

import sqlite3
import time
from typing import Any

_AGAIN_SECONDS = 0.02


def set_wal(connection: Any, seconds: float) -> None:
    """Let a connection's file be in WAL mode.

    Unlike other statements, this one does not wait where somebody has begun to write a file that is
    not in that mode yet, as another process that opens the new file too.

    Args:
        connection: of the driver, outside of a transaction.
        seconds: how long to wait for the other one.

    Raises:
        sqlite3.Error: the file cannot be, or is still locked then.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > until:
                raise
        time.sleep(_AGAIN_SECONDS)
