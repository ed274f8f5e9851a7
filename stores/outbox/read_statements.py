"""How a log is read so that nothing is passed over.

In SQLite one transaction writes at a time, so ids become visible in their order. In PostgreSQL a
transaction may still be open whose message has a lower id than one that is read already; to wait
for it would hold up all streams for one. So a position has the snapshot that its messages were read
in, and the next read also looks for what that snapshot did not see: messages with ids up to the
position's, of transactions that were open then or began later. Streams stay in order: a stream's
line is locked from a message's append to the end of its transaction, so what is found later comes
before nothing of its stream that was read already.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from stores.db.statement import Statement
from stores.message import Message
from stores.outbox.message import Page, Position, read_row
from stores.outbox.tables import MessageTables

_COLUMNS = "id, topic, stream, sequence, kind, content, headers, captured_at"
_PAGE = """\
SELECT {columns}{snapshot} FROM {messages} WHERE id > :id ORDER BY id LIMIT :limit"""
_STREAM = """\
SELECT {columns} FROM {messages}
WHERE topic = :topic AND stream = :stream AND sequence > :after ORDER BY sequence LIMIT :limit"""
_IDS = "SELECT {columns} FROM {messages} WHERE {among} ORDER BY id"

_SNAPSHOT = ", CAST(pg_current_snapshot() AS text), FALSE"
# `id + 0` keeps the planner from going through all ids, most of which may be of deleted messages.
_BEHIND = """\
WITH span AS MATERIALIZED (
  SELECT COALESCE(CAST(:until AS pg_snapshot), pg_current_snapshot()) AS until),
behind AS MATERIALIZED (
  SELECT id FROM {messages} WHERE xact = ANY (CAST(:open AS xid8[]))
    AND id + 0 > :behind AND id + 0 <= :id
    AND pg_visible_in_snapshot(xact, (SELECT until FROM span))
  UNION ALL
  SELECT id FROM {messages} WHERE xact >= CAST(:next AS xid8)
    AND xact < (SELECT pg_snapshot_xmax(until) FROM span)
    AND id + 0 > :behind AND id + 0 <= :id
    AND pg_visible_in_snapshot(xact, (SELECT until FROM span)))
(SELECT {columns}, CAST((SELECT until FROM span) AS text), TRUE FROM {messages}
 WHERE id = ANY (ARRAY(SELECT id FROM behind ORDER BY id LIMIT :limit)) ORDER BY id)
UNION ALL
(SELECT {columns}, CAST((SELECT until FROM span) AS text), FALSE FROM {messages}
 WHERE id > :id ORDER BY id LIMIT :more)"""


class ReadStatements:
    """The statements that read one log in one dialect."""

    def __init__(self, tables: MessageTables, dialect: str) -> None:
        names = {"columns": _COLUMNS, "messages": tables.sql(tables.messages)}
        self._has_snapshots = dialect == "postgresql"
        snapshot = _SNAPSHOT if self._has_snapshots else ""
        self._page = Statement(_PAGE.format(**names, snapshot=snapshot))
        self._behind = Statement(_BEHIND.format(**names))
        self._stream = Statement(_STREAM.format(**names))
        self._ids = Statement(_IDS.format(**names, among=among(dialect)))

    def after(self, connection: Connection, position: Position, limit: int) -> Page:
        """See `MessageLog.read_after`."""
        if position.snapshot is not None:
            return self._after_snapshot(connection, position, limit)
        values = {"id": position.id, "limit": limit}
        rows = connection.execute(self._page.clause, values).all()
        if not rows:
            return Page((), position)
        snapshot = rows[-1][8] if self._has_snapshots else None
        return Page(_messages(rows), Position(rows[-1][0], snapshot))

    def _after_snapshot(self, connection: Connection, position: Position, limit: int) -> Page:
        assert position.snapshot is not None
        _, next_xact, open_xacts = position.snapshot.split(":")
        values = {
            "id": position.id,
            "behind": position.behind,
            "until": position.until,
            "open": f"{{{open_xacts}}}",
            "next": next_xact,
            "limit": limit,
            "more": limit if position.until is None else 0,
        }
        rows = connection.execute(self._behind.clause, values).all()
        if not rows:
            if position.until is None:
                return Page((), position)
            return self._after_snapshot(connection, Position(position.id, position.until), limit)
        snapshot = rows[0][8]
        behind = [row for row in rows if row[9]]
        if len(behind) == limit:
            more = Position(position.id, position.snapshot, behind[-1][0], snapshot)
            return Page(_messages(behind), more)
        rows = rows[:limit]
        return Page(_messages(rows), Position(max(position.id, rows[-1][0]), snapshot))

    def stream(self, connection: Connection, values: Mapping[str, Any]) -> tuple[Message, ...]:
        """See `MessageLog.read_stream`."""
        return _messages(connection.execute(self._stream.clause, values).all())

    def ids(self, connection: Connection, ids: Sequence[int]) -> tuple[Message, ...]:
        """See `MessageLog.read_ids`."""
        return _messages(connection.execute(self._ids.clause, chosen(connection, ids)).all())


def among(dialect: str) -> str:
    """The condition that an id is one of those of `chosen`."""
    if dialect == "sqlite":
        return "id IN (SELECT value FROM json_each(:ids))"
    return "id = ANY (CAST(:ids AS bigint[]))"


def chosen(connection: Connection, ids: Sequence[int]) -> dict[str, Any]:
    """The values of a statement with `among`."""
    listed = list(ids)
    return {"ids": listed if connection.dialect.name == "postgresql" else str(listed)}


def _messages(rows: Iterable[Sequence[Any]]) -> tuple[Message, ...]:
    return tuple(read_row(row[:8]) for row in rows)
