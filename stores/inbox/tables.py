"""The tables of inboxes, and how a database says what databases say differently.

A stream has two lines. `sequitur_inbox_streams` is what receiving knows of it, and is locked only
for the moment in which messages are put in or the next delivery is decided on;
`sequitur_inbox_deliveries` is locked while one of its messages is being processed. So a slow
consumer does not hold up what comes in.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.missing_tables import create_missing
from stores.inbox.message import InboxError

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only what is INTEGER
_METADATA = MetaData()

STREAMS = Table(
    "sequitur_inbox_streams",
    _METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("inbox", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("stream", Text, nullable=False),
    # The last message up to which all have been received.
    Column("epoch", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False),
    # How many are there beyond a gap, and since when (ms).
    Column("waiting", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    # When there is something to deliver (ms), NULL if there is nothing or the stream is parked.
    Column("due", BigInteger),
    Column("parked", Text),
    UniqueConstraint("inbox", "topic", "stream"),
)
DUE = Index(
    "sequitur_inbox_streams_due",
    STREAMS.c.inbox,
    STREAMS.c.due,
    postgresql_where=STREAMS.c.due.is_not(None),
    sqlite_where=STREAMS.c.due.is_not(None),
)
WAITING = Index(
    "sequitur_inbox_streams_waiting",
    STREAMS.c.inbox,
    STREAMS.c.since,
    postgresql_where=STREAMS.c.waiting > 0,
    sqlite_where=STREAMS.c.waiting > 0,
)
DELIVERIES = Table(
    "sequitur_inbox_deliveries",
    _METADATA,
    Column("stream_id", _NUMBER, primary_key=True, autoincrement=False),
    Column("delivered", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
)
MESSAGES = Table(
    "sequitur_inbox_messages",
    _METADATA,
    Column("stream_id", _NUMBER, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text),
    Column("content", LargeBinary, nullable=False),
    Column("headers", Text),
    Column("void", Boolean, nullable=False),
)
DEAD = Table(
    "sequitur_inbox_dead",
    _METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("inbox", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("topic", Text),
    Column("stream", Text),
    Column("sequence", BigInteger),
    Column("kind", Text),
    Column("content", LargeBinary),
)
# How many dead lines of an inbox are kept no longer.
REMOVED = Table(
    "sequitur_inbox_dead_removed",
    _METADATA,
    Column("inbox", Text, primary_key=True),
    Column("removed", BigInteger, nullable=False),
)
# What operators told it, who, and why.
COMMANDS = Table(
    "sequitur_inbox_commands",
    _METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("inbox", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("command", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("sequence", BigInteger),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
)
OFFSETS = Table(
    "sequitur_inbox_offsets",
    _METADATA,
    Column("inbox", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),
)
_BUSY = {STREAMS: 1000, DELIVERIES: 1000, MESSAGES: 10_000}
"""Tables whose rows come and go → dead rows after which PostgreSQL tidies up, large table or not;
without it what is looked for lies behind more and more that is gone."""


_EARLIER = "sequitur_cursor_streams"
"""What STREAMS was called before the first release."""


def make(connection: Connection) -> None:
    """Create what is missing; see `create_missing`.

    Raises:
        InboxError: the tables have the names that they had before the first release.
    """
    found = inspect(connection)
    if found.has_table(_EARLIER) and not found.has_table(STREAMS.name):
        raise InboxError(
            f"the database has the tables of an earlier version's inboxes, {_EARLIER} and others: "
            "let that version deliver what is in them, and drop them, or rename each to "
            "sequitur_inbox_…, and its column cursor to inbox"
        )
    missing = create_missing(connection, _METADATA, AdvisoryLock.INBOX)
    if connection.dialect.name != "postgresql":
        return
    for table, rows in _BUSY.items():
        if table.name in missing:
            connection.execute(text(
                f'ALTER TABLE "{table.name}" SET (autovacuum_vacuum_scale_factor = 0.01, '
                f"autovacuum_vacuum_threshold = {rows}, autovacuum_vacuum_cost_delay = 0)"
            ))  # fmt: skip
