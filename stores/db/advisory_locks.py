"""The numbers of PostgreSQL's advisory locks: all are here, so that none is used twice.

Processes of several versions meet at these locks: never change a number.
"""

import zlib
from enum import IntEnum

from sqlalchemy import Connection, text


class AdvisoryLock(IntEnum):
    """Locks of one key. Who makes tables takes one, and claims are taken under theirs."""

    VIEW_STATE = 0x5E9017
    MESSAGE_LOG = 0x5E9018
    TWO_PHASE = 0x5E9019
    LEASES = 0x5E901A
    INBOX = 0x5E901B
    UNIT_MARKS = 0x5E901C
    SEGMENTS = 0x5E901D
    TURNS = 0x5E901E
    REPLAY = 0x5E901F
    CLAIMS = 0x5E91A1


class ReadStoreLock(IntEnum):
    """Locks of two keys, which are apart from those of one.

    The second key is a hash, that of `STAGES` the process of the server that a writer is
    connected to.
    """

    STORE = 0x5E9018
    SHADOW = 0x5E9019
    STAGES = 0x5E901A


def reader_lock(log: str) -> int:
    """The lock of the reader of a message log; above all others.

    Args:
        log: the log's schema and name, as `schema.name`.
    """
    return zlib.crc32(log.encode()) | 0x5E9 << 48


def lock_until_commit(connection: Connection, lock: AdvisoryLock) -> None:
    """Take a lock until the transaction ends; in SQLite, where one writes at a time, nothing."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": int(lock)})
