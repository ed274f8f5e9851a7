"""Messages that were acknowledged, kept for a time so that they can be sent again on request.

`<log>_kept` is the relay's: a message moves there in the transaction that deletes it from the log.
"""

from collections.abc import Sequence
from itertools import accumulate

from sqlalchemy import Connection, Engine, text
from sqlalchemy.sql.elements import TextClause

from stores.message import Message, read_row
from stores.message_log import MessageLog
from stores.message_tables import MessageTables

_MANY = 1_000
_COLUMNS = "id, topic, stream, sequence, kind, content, headers, captured_at"
_NOW = {
    "postgresql": "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
}
_MAKE = """\
CREATE TABLE IF NOT EXISTS {kept} (
  id BIGINT PRIMARY KEY, topic TEXT NOT NULL, stream TEXT NOT NULL, sequence BIGINT NOT NULL,
  kind TEXT, content {bytes} NOT NULL, headers TEXT, captured_at DOUBLE PRECISION NOT NULL,
  at BIGINT NOT NULL)"""
_INDEX = "CREATE INDEX IF NOT EXISTS {index} ON {kept} (topic, stream, sequence)"
_KEEP = """\
INSERT INTO {kept} ({columns}, at) SELECT {columns}, {now} FROM {messages}
WHERE id IN ({ids}) ON CONFLICT (id) DO NOTHING"""
_EXPIRE = """\
DELETE FROM {kept} WHERE id IN (
  SELECT id FROM {kept} WHERE at < {now} - :milliseconds ORDER BY id LIMIT :many)"""
_READ = """\
SELECT {columns} FROM {kept} WHERE topic = :topic AND stream = :stream
AND sequence BETWEEN :first AND :last ORDER BY sequence LIMIT :many"""
_SIZES = """\
SELECT length(content) FROM {kept} WHERE topic = :topic AND stream = :stream
AND sequence BETWEEN :first AND :last ORDER BY sequence LIMIT :many"""
_IDS = {
    "postgresql": "SELECT unnest(CAST(:ids AS bigint[]))",
    "sqlite": "SELECT value FROM json_each(:ids)",
}


class Kept:
    """What is kept of `log`, in the database of `engine`, for `seconds` each."""

    def __init__(self, engine: Engine, log: MessageLog, seconds: float) -> None:
        dialect = engine.dialect.name
        tables = MessageTables(log.name, log.schema, dialect)
        messages = tables.sql(tables.messages)
        names = {
            "kept": messages.replace(f"{log.name}_messages", f"{log.name}_kept"),
            "index": f'"{log.name}_kept_of_stream"',
            "messages": messages,
            "columns": _COLUMNS,
            "now": _NOW[dialect],
            "ids": _IDS[dialect],
            "bytes": "BYTEA" if dialect == "postgresql" else "BLOB",
        }
        self._sql = {
            name: text(sql.format(**names))
            for name, sql in (
                ("make", _MAKE), ("index", _INDEX), ("keep", _KEEP), ("expire", _EXPIRE),
                ("read", _READ), ("sizes", _SIZES),
            )
        }  # fmt: skip
        self._lists = dialect == "postgresql"
        self._milliseconds = round(seconds * 1000)

    def make(self, connection: Connection) -> None:
        """Make the table; nobody else may be doing so."""
        connection.execute(self._sql["make"])
        connection.execute(self._sql["index"])

    def keep(self, connection: Connection, ids: Sequence[int]) -> None:
        """Keep messages of the log, before they are deleted from it."""
        for first in range(0, len(ids), _MANY):
            some = list(ids[first : first + _MANY])
            connection.execute(self._keep, {"ids": some if self._lists else str(some)})

    @property
    def _keep(self) -> TextClause:
        return self._sql["keep"]

    def expire(self, connection: Connection) -> int:
        """Delete some of what was kept for long enough; returns how many."""
        values = {"milliseconds": self._milliseconds, "many": _MANY}
        return connection.execute(self._sql["expire"], values).rowcount

    def read(
        self,
        connection: Connection,
        topic: str,
        stream: str,
        first: int,
        last: int,
        room: int = 1 << 62,
    ) -> list[Message]:
        """The messages with sequences from `first` to `last` that are kept.

        At most 1,000, with no more than `room` bytes of contents, but one at least.
        """
        values = {"topic": topic, "stream": stream, "first": first, "last": last, "many": _MANY}
        sizes = connection.execute(self._sql["sizes"], values).scalars().all()
        many = 1 + sum(size < room for size in list(accumulate(sizes))[: len(sizes) - 1])
        found = connection.execute(self._sql["read"], {**values, "many": many})
        return [message for row in found if (message := read_row(row)).damage is None]
