"""A log that is full: rows as `capture_many` makes them, by statements that make many at once."""

from sqlalchemy import Engine, text

from bench.delivery.stage import CONTENT
from stores.outbox.log import MessageLog
from stores.outbox.tables import MessageTables

STREAMS = 5_000
CHUNK = 250_000
"""Messages of one transaction."""

_APPEND = """\
INSERT INTO {messages} (topic, stream, sequence, kind, content, captured_at)
SELECT :topic, 'stream-' || number % :streams, number / :streams + 1, 'Filled', :content,
  extract(epoch FROM clock_timestamp())
FROM generate_series(CAST(:first AS bigint), :last) AS number ORDER BY number"""
_COUNT = """\
INSERT INTO {streams} (topic, stream, last)
SELECT :topic, 'stream-' || number, (:count - number - 1) / :streams + 1
FROM generate_series(CAST(0 AS bigint), least(:streams, :count) - 1) AS number"""


def fill(engine: Engine, log: MessageLog, topic: str, count: int) -> None:
    """Append `count` messages of 5,000 streams that are new, in PostgreSQL."""
    log.create(engine)
    tables = MessageTables(log.name, log.schema, engine.dialect.name)
    append = text(_APPEND.format(messages=tables.sql(tables.messages)))
    counted = text(_COUNT.format(streams=tables.sql(tables.streams)))
    values = {"topic": topic, "streams": STREAMS, "content": b"x" * CONTENT}
    for first in range(0, count, CHUNK):
        last = min(first + CHUNK, count) - 1
        with engine.begin() as connection:
            connection.execute(append, {**values, "first": first, "last": last})
    with engine.begin() as connection:
        connection.execute(counted, {"topic": topic, "streams": STREAMS, "count": count})
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM ANALYZE"))
