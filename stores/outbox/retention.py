"""Messages that were acknowledged, kept for a time so that they can be sent again on request.

`<log>_kept` is the relay's: a message moves there in the transaction that deletes it from the log.
"""

from collections.abc import Sequence
from itertools import accumulate

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    select,
    text,
)
from sqlalchemy.sql.elements import quoted_name

from stores.db.advisory_locks import AdvisoryLock
from stores.db.clock import Now
from stores.db.missing_tables import create_missing
from stores.db.steady_clock import SteadyClock
from stores.message import Message
from stores.outbox.log import MessageLog
from stores.outbox.message import read_row
from stores.outbox.tables import MessageTables

_MANY = 1_000
_COLUMNS = "id, topic, stream, sequence, kind, content, headers, captured_at"
_KEEP = """\
INSERT INTO {kept} ({columns}, at) SELECT {columns}, :now FROM {messages}
WHERE id IN ({ids}) ON CONFLICT (id) DO NOTHING"""
_EXPIRE = """\
DELETE FROM {kept} WHERE id IN (
  SELECT id FROM {kept} WHERE at < :before ORDER BY at LIMIT :many)"""
_CLAMP = "UPDATE {kept} SET at = :now WHERE at > :now"
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


class RetentionStore:
    """What is kept of `log`, in the database of `engine`, for `seconds` each."""

    def __init__(self, engine: Engine, log: MessageLog, seconds: float) -> None:
        dialect = engine.dialect.name
        tables = MessageTables(log.name, log.schema, dialect)
        self._table = _table(log)
        names = {
            "kept": tables.sql(self._table),
            "messages": tables.sql(tables.messages),
            "columns": _COLUMNS,
            "ids": _IDS[dialect],
        }
        self._sql = {
            name: text(sql.format(**names))
            for name, sql in (
                ("keep", _KEEP), ("expire", _EXPIRE), ("read", _READ), ("sizes", _SIZES),
                ("clamp", _CLAMP),
            )
        }  # fmt: skip
        self._lists = dialect == "postgresql"
        self._milliseconds = round(seconds * 1000)
        self._clock: SteadyClock | None = None

    def make(self, connection: Connection) -> None:
        """Make the table where it is not there; see `create_missing`."""
        create_missing(connection, self._table.metadata, AdvisoryLock.MESSAGE_LOG)
        # What an earlier process kept by a clock that was ahead is kept from now on.
        connection.execute(self._sql["clamp"], {"now": self._now(connection)})

    def keep(self, connection: Connection, ids: Sequence[int]) -> None:
        """Keep messages of the log, before they are deleted from it."""
        for first in range(0, len(ids), _MANY):
            some = list(ids[first : first + _MANY])
            values = {"ids": some if self._lists else str(some), "now": self._now(connection)}
            connection.execute(self._sql["keep"], values)

    def _now(self, connection: Connection) -> int:
        """Milliseconds, by the database's clock as it was at first, which may be set meanwhile."""
        if self._clock is None:
            begun = connection.execute(select(Now())).scalar_one() / 1000
            self._clock = SteadyClock(lambda: begun)
        return round(self._clock() * 1000)

    def expire(self, connection: Connection) -> int:
        """Delete some of what was kept for long enough; returns how many."""
        values = {"before": self._now(connection) - self._milliseconds, "many": _MANY}
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
        many = max(1, sum(size <= room for size in accumulate(sizes)))
        found = connection.execute(self._sql["read"], {**values, "many": many})
        return [message for row in found if (message := read_row(row)).damage is None]


def _table(log: MessageLog) -> Table:
    return Table(
        quoted_name(f"{log.name}_kept", quote=True),
        MetaData(),
        Column("id", BigInteger, primary_key=True, autoincrement=False),
        Column("topic", Text, nullable=False),
        Column("stream", Text, nullable=False),
        Column("sequence", BigInteger, nullable=False),
        Column("kind", Text),
        Column("content", LargeBinary, nullable=False),
        Column("headers", Text),
        Column("captured_at", Float(53), nullable=False),
        Column("at", BigInteger, nullable=False),
        Index(quoted_name(f"{log.name}_kept_of_stream", quote=True), "topic", "stream", "sequence"),
        Index(quoted_name(f"{log.name}_kept_at", quote=True), "at"),
        schema=log.schema and quoted_name(log.schema, quote=True),
    )
