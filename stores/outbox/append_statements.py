"""How messages get into a log: the statements, for any kind of connection to run.

The stream's line in `<log>_streams` is changed first, and so is locked until the transaction ends:
that is what makes sequences have no gap, and what keeps `id` in the order of `sequence`. Lines of
other streams are not touched.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stores.db.advisory_locks import reader_lock
from stores.db.statement import Statement
from stores.outbox.tables import MessageTables

MANY = 1_000
"""Messages of one statement."""

Run = Callable[[Statement, Mapping[str, Any]], Sequence[Any]]
"""(statement, parameters) → the rows that it returns."""

_ONE = """\
WITH counter AS (
  INSERT INTO {streams} AS s (topic, stream, last) VALUES (:topic, :stream, 1)
  ON CONFLICT (topic, stream) DO UPDATE SET last = s.last + 1 RETURNING s.last)
INSERT INTO {messages} (topic, stream, sequence, kind, content, headers, captured_at)
SELECT CAST(:topic AS text), CAST(:stream AS text), counter.last, CAST(:kind AS text),
  CAST(:content AS bytea), CAST(:headers AS text), extract(epoch FROM clock_timestamp())
FROM counter RETURNING sequence{notify}"""

# Counters in the order of their streams: two transactions that do so cannot lock each other out.
_SEVERAL = """\
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(CAST(:topics AS text[]), CAST(:streams AS text[]), CAST(:kinds AS text[]),
    CAST(:contents AS bytea[]), CAST(:headers AS text[]))
  WITH ORDINALITY AS g (topic, stream, kind, content, headers, place)),
counted AS MATERIALIZED (
  SELECT topic COLLATE "C" AS topic, stream COLLATE "C" AS stream, count(*) AS number
  FROM given GROUP BY 1, 2),
counter AS (
  INSERT INTO {streams} AS s (topic, stream, last)
  SELECT topic, stream, number FROM counted ORDER BY topic, stream
  ON CONFLICT (topic, stream) DO UPDATE SET last = s.last + excluded.last
  RETURNING s.topic, s.stream, s.last),
numbered AS (
  SELECT given.*, counter.last - counted.number
      + row_number() OVER (PARTITION BY given.topic, given.stream ORDER BY given.place) AS sequence
  FROM given JOIN counted ON (given.topic = counted.topic AND given.stream = counted.stream)
  JOIN counter ON (given.topic = counter.topic AND given.stream = counter.stream)),
appended AS (
  INSERT INTO {messages} (topic, stream, sequence, kind, content, headers, captured_at)
  SELECT topic, stream, sequence, kind, content, headers, extract(epoch FROM clock_timestamp())
  FROM numbered ORDER BY place RETURNING 1)
SELECT sequence{notify} FROM numbered ORDER BY place"""

_COUNT = """\
INSERT INTO {streams} (topic, stream, last) VALUES (:topic, :stream, 1)
ON CONFLICT (topic, stream) DO UPDATE SET last = last + 1 RETURNING last"""
_APPEND = """\
INSERT INTO {messages} (topic, stream, sequence, kind, content, headers, captured_at)
VALUES (:topic, :stream, :sequence, :kind, :content, :headers, :captured_at)"""

# Who notifies makes everybody's commits wait for one another, so it is done only for a reader that
# sleeps: then the reader has the lock. Who gets the lock shared keeps the reader from sleeping
# until his transaction has ended.
_NOTIFY = """\
, CASE WHEN pg_try_advisory_xact_lock_shared(:lock) THEN NULL
  ELSE CAST(pg_notify(:channel, '') AS text) END"""


class AppendStatements:
    """The statements of one log in one dialect.

    notifies: messages wake a reader that sleeps. PostgreSQL prepares no transaction that does so.
    """

    def __init__(self, tables: MessageTables, dialect: str, *, notifies: bool) -> None:
        self._dialect = dialect
        self._notifies = notifies and dialect == "postgresql"
        self.notify_values = notification(tables) if dialect == "postgresql" else {}
        self._values = self.notify_values if self._notifies else {}
        self.notify = Statement("SELECT NULL" + (_NOTIFY if dialect == "postgresql" else ""))

        def statement(sql: str) -> Statement:
            return Statement(
                sql.format(
                    streams=tables.sql(tables.streams),
                    messages=tables.sql(tables.messages),
                    notify=_NOTIFY if self._notifies else "",
                )
            )

        if dialect == "postgresql":
            self._one, self._many = statement(_ONE), statement(_SEVERAL)
        else:
            self._count, self._append = statement(_COUNT), statement(_APPEND)

    def one(self, run: Run, row: Mapping[str, Any]) -> int:
        """Append a checked draft; returns its sequence."""
        if self._dialect == "postgresql":
            return int(run(self._one, {**row, **self._values})[0][0])
        stream = {"topic": row["topic"], "stream": row["stream"]}
        sequence = int(run(self._count, stream)[0][0])
        run(self._append, {**row, "sequence": sequence, "captured_at": time.time()})
        return sequence

    def all(self, run: Run, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Append checked drafts; returns their sequences."""
        if len(rows) <= MANY:
            return self._several(run, rows) if rows else []
        # Several statements have to lock the streams in one order as well.
        order = sorted(range(len(rows)), key=lambda at: (rows[at]["topic"], rows[at]["stream"]))
        sequences = [0] * len(rows)
        for start in range(0, len(rows), MANY):
            part = order[start : start + MANY]
            for at, sequence in zip(
                part, self._several(run, [rows[at] for at in part]), strict=True
            ):
                sequences[at] = sequence
        return sequences

    def _several(self, run: Run, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        if self._dialect != "postgresql":
            return [self.one(run, row) for row in rows]
        columns = {listed: [row[name] for row in rows] for listed, name in _LISTED.items()}
        return [int(row[0]) for row in run(self._many, {**columns, **self._values})]


_LISTED = {
    "topics": "topic",
    "streams": "stream",
    "kinds": "kind",
    "contents": "content",
    "headers": "headers",
}
"""Parameter → the column of the rows that it is a list of."""


def notification(tables: MessageTables) -> dict[str, Any]:
    """The number of the lock and the channel by which messages of the log wake its reader."""
    full = f"{tables.schema or ''}.{tables.name}"
    return {"lock": reader_lock(full), "channel": f"{tables.name}_messages"}
