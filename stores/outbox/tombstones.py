"""The statements about a stream's sequences: the last one, those kept, and those that are void."""

import time

from sqlalchemy import Connection

from stores.db.statement import Statement
from stores.outbox.ranges import Range
from stores.outbox.tables import MessageTables

_LAST = "SELECT last FROM {streams} WHERE topic = :topic AND stream = :stream"
_KEPT = """\
SELECT min(sequence), max(sequence) FROM (
  SELECT sequence, sequence - row_number() OVER (ORDER BY sequence) AS island FROM {messages}
  WHERE topic = :topic AND stream = :stream AND sequence BETWEEN :first AND :last) AS numbered
GROUP BY island"""
_VOID = "SELECT first, last FROM {void} WHERE topic = :topic AND stream = :stream"
_DECLARE = """\
INSERT INTO {void} (topic, stream, first, last, reason, declared_at)
VALUES (:topic, :stream, :first, :last, :reason, :declared_at)
ON CONFLICT (topic, stream, first, last) DO NOTHING"""
_DELETE = """\
DELETE FROM {messages}
WHERE topic = :topic AND stream = :stream AND sequence BETWEEN :first AND :last"""


class Tombstones:
    """The statements of one log in one dialect; see the methods of `MessageLog`."""

    def __init__(self, tables: MessageTables, dialect: str) -> None:
        names = {
            "streams": tables.sql(tables.streams),
            "messages": tables.sql(tables.messages),
            "void": tables.sql(tables.void),
        }
        lock = " FOR UPDATE" if dialect == "postgresql" else ""
        self._last, self._lock = (
            Statement(_LAST.format(**names)),
            Statement(_LAST.format(**names) + lock),
        )
        self._kept, self._void = Statement(_KEPT.format(**names)), Statement(_VOID.format(**names))
        self._declare = Statement(_DECLARE.format(**names))
        self._delete = Statement(_DELETE.format(**names))

    def last(self, connection: Connection, topic: str, stream: str, lock: bool = False) -> int:
        statement = self._lock if lock else self._last
        found = connection.execute(statement.clause, {"topic": topic, "stream": stream}).scalar()
        return int(found or 0)

    def kept(
        self, connection: Connection, topic: str, stream: str, first: int, last: int
    ) -> list[Range]:
        values = {"topic": topic, "stream": stream, "first": first, "last": last}
        rows = connection.execute(self._kept.clause, values)
        return [(start, end) for start, end in rows]

    def of(self, connection: Connection, topic: str, stream: str) -> list[Range]:
        rows = connection.execute(self._void.clause, {"topic": topic, "stream": stream})
        return [(first, last) for first, last in rows]

    def declare(
        self, connection: Connection, topic: str, stream: str, first: int, last: int, reason: str
    ) -> int:
        values = {"topic": topic, "stream": stream, "first": first, "last": last}
        line = {**values, "reason": reason, "declared_at": time.time()}
        connection.execute(self._declare.clause, line)
        return connection.execute(self._delete.clause, values).rowcount
