"""Reading and writing many rows of an inbox at once, as each database does it best.

PostgreSQL is given arrays: one statement, and always the same one, which it has to plan only once.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson
from sqlalchemy import Connection, bindparam, delete, select, text, update

from stores.db.dialect import insert
from stores.inbox.order import StreamPosition
from stores.inbox.tables import DELIVERIES, MESSAGES, OFFSETS, STREAMS
from stores.message import Message

BY_INDEX = """\
set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"""
"""Makes PostgreSQL plan by indices for the rest of the transaction. It plans once for all, maybe
for tables that are still empty; to read these from end to end is slow as soon as they are not, or
full of rows that are gone. And only plain scans of an index note there which rows these are."""

KEYS = 500
"""Streams that one statement looks for, where they are no array."""

Key = tuple[str, str]
"""Topic and stream."""
Partition = tuple[str, int]
"""Topic and number."""
Planning = tuple[str, str]
"""PostgreSQL's settings enable_seqscan and enable_bitmapscan."""


class ReadRange(NamedTuple):
    """Up to where a partition of a topic was read: from `first` up to `end`, the next offset."""

    first: int
    end: int


def move_offsets(
    connection: Connection, inbox: str, read: Mapping[Partition, ReadRange]
) -> list[Partition]:
    """Move offsets on from where they are; returns the partitions that are elsewhere.

    In PostgreSQL the transaction does not wait for the disk then: if a crash takes it back, the
    offsets are back as well, and what was read is read again. It waits where nothing was read, and
    offsets are noted for the first time: without them nobody would see that they are back.
    """
    rows = [(topic, number, *where) for (topic, number), where in sorted(read.items())]
    if rows and _has_arrays(connection):
        names = ("topics", "partitions", "firsts", "ends")
        waits = all(first == end for *_, first, end in rows)
        values = {"inbox": inbox, "waits": waits, **_columns(names, rows)}
        moved = {(topic, number) for topic, number, *_ in connection.execute(_MOVE, values)}
        return [each for each in sorted(read) if each not in moved]
    found = []
    for topic, number, first, end in rows:
        line = {"inbox": inbox, "topic": topic, "partition": number}
        begin = insert(connection, OFFSETS).values(**line, next_offset=first)
        connection.execute(begin.on_conflict_do_nothing())
        moving = update(OFFSETS).filter_by(**line, next_offset=first).values(next_offset=end)
        if connection.execute(moving).rowcount != 1:
            found.append((topic, number))
    return found


def plan_by_index(connection: Connection) -> None:
    """See `BY_INDEX`."""
    if connection.dialect.name == "postgresql":
        connection.execute(_BY_INDEX)


def lock_streams(
    connection: Connection, inbox: str, keys: Sequence[Key]
) -> dict[Key, tuple[int, StreamPosition]]:
    """Topic and stream → id and how far it is; locked until the transaction ends.

    Always in the order of the ids, so that two who receive do not wait for each other. Where some
    are not there none is locked, and not all are returned: who makes lines must not hold any yet.
    """
    found: dict[Key, tuple[int, StreamPosition]] = {}
    if _has_arrays(connection):
        values = {"inbox": inbox, "number": len(keys), **_columns(("topics", "streams"), keys)}
        for topic, stream, of, *at in connection.execute(_LOCK, values):
            found[topic, stream] = of, StreamPosition(*at)
        return found
    topics: dict[str, list[str]] = {}
    for topic, stream in keys:
        topics.setdefault(topic, []).append(stream)
    for topic, streams in topics.items():
        for first in range(0, len(streams), KEYS):
            some = {"inbox": inbox, "topic": topic, "streams": streams[first : first + KEYS]}
            for stream, of, *at in connection.execute(_LOOK, some):
                found[topic, stream] = of, StreamPosition(*at)
    return found


def make_streams(connection: Connection, inbox: str, keys: Sequence[Key], last: int) -> None:
    """Make the lines of streams that are not there; somebody else may be doing so."""
    if _has_arrays(connection):
        connection.execute(
            _MAKE, {"inbox": inbox, "last": last, **_columns(("topics", "streams"), keys)}
        )
        return
    line = {"inbox": inbox, "epoch": 0, "received": last, "waiting": 0, "since": 0}
    rows = [{**line, "topic": topic, "stream": stream} for topic, stream in keys]
    connection.execute(insert(connection, STREAMS).on_conflict_do_nothing(), rows)
    lines = [
        {"stream_id": of, "delivered": last, "attempts": 0}
        for of, _ in lock_streams(connection, inbox, keys).values()
    ]
    connection.execute(insert(connection, DELIVERIES).on_conflict_do_nothing(), lines)


def put(
    connection: Connection,
    rows: list[tuple[int, Message]],
    moved: list[tuple[int, StreamPosition, bool]],
) -> None:
    """Insert messages under the ids of their streams, and save how far streams are.

    moved: (id, how far, whether there is more to deliver).
    """
    messages = [(of, m.epoch, m.sequence, m.kind, m.content, _headers(m), m.void) for of, m in rows]
    streams = [(of, *at, ready) for of, at, ready in moved]
    if _has_arrays(connection):
        if messages or streams:
            values = {**_columns(_OF_MESSAGE, messages), **_columns(_OF_STREAM, streams)}
            connection.execute(_PUT, values)
        return
    if messages:
        keys = [column.name for column in MESSAGES.columns]
        connection.execute(MESSAGES.insert(), [_named(keys, each) for each in messages])
    if streams:
        connection.execute(_PUT_STREAM, [_named(_OF_STREAM, each) for each in streams])


def remove(
    connection: Connection, rows: Sequence[tuple[int, int, int]], planning: Planning | None = None
) -> None:
    """Take messages out: (stream's id, epoch, sequence), in order per stream.

    planning: how PostgreSQL is to plan from then on.
    """
    last = {of: sequence for of, _, sequence in rows}
    if _has_arrays(connection):
        taken = _columns(("ids", "epochs", "sequences"), rows)
        seqscan, bitmapscan = planning or ("on", "on")
        connection.execute(_REMOVE, {**taken, "passed": [*last], "lasts": [*last.values()],
                                     "seqscan": seqscan, "bitmapscan": bitmapscan})  # fmt: skip
    else:
        names = ("of", "at_epoch", "at")
        connection.execute(_REMOVE_ONE, [_named(names, row) for row in rows])
        connection.execute(_PASS_ONE, [{"of": of, "at": at} for of, at in last.items()])


def _has_arrays(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql"


def _columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> dict[str, list[object]]:
    """Name → the values of all rows."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _named(names: Sequence[str], row: Sequence[object]) -> dict[str, object]:
    return dict(zip(names, row, strict=True))


_OF_MESSAGE = ("put_ids", "put_epochs", "sequences", "kinds", "contents", "headers", "voids")
_OF_STREAM = ("ids", "epochs", "received", "waiting", "since", "ready")

_BY_INDEX = text(f"SELECT {BY_INDEX}")
_MOVE = text(
    "WITH given AS MATERIALIZED (SELECT * FROM unnest(CAST(:topics AS text[]), "
    "CAST(:partitions AS integer[]), CAST(:firsts AS bigint[]), CAST(:ends AS bigint[])) "
    "AS g (topic, number, first, next)) "
    "INSERT INTO sequitur_inbox_offsets AS o (inbox, topic, partition, next_offset) "
    "SELECT :inbox, topic, number, next FROM given ORDER BY topic, number "
    "ON CONFLICT (inbox, topic, partition) DO UPDATE SET next_offset = excluded.next_offset "
    "WHERE o.next_offset = (SELECT first FROM given WHERE given.topic = o.topic "
    "AND given.number = o.partition) "
    "RETURNING o.topic, o.partition, set_config('synchronous_commit', CASE WHEN "
    "CAST(:waits AS boolean) THEN current_setting('synchronous_commit') ELSE 'off' END, true), "
    f"{BY_INDEX}"
)
_LOCK = text(
    "WITH found AS MATERIALIZED (SELECT s.id FROM sequitur_inbox_streams AS s "
    "JOIN unnest(CAST(:topics AS text[]), CAST(:streams AS text[])) AS k (topic, stream) "
    "ON s.topic = k.topic AND s.stream = k.stream WHERE s.inbox = :inbox) "
    "SELECT topic, stream, id, epoch, received, waiting, since FROM sequitur_inbox_streams "
    "WHERE (SELECT count(*) FROM found) = :number AND id = ANY (ARRAY(SELECT id FROM found)) "
    "ORDER BY id FOR UPDATE"
)
_MAKE = text(
    "WITH made AS (INSERT INTO sequitur_inbox_streams "
    "(inbox, topic, stream, epoch, received, waiting, since) "
    "SELECT :inbox, topic, stream, 0, :last, 0, 0 "
    "FROM unnest(CAST(:topics AS text[]), CAST(:streams AS text[])) AS k (topic, stream) "
    "WHERE NOT EXISTS (SELECT FROM sequitur_inbox_streams AS s "
    "WHERE s.inbox = :inbox AND s.topic = k.topic AND s.stream = k.stream) "
    "ORDER BY topic, stream ON CONFLICT DO NOTHING RETURNING id) "
    "INSERT INTO sequitur_inbox_deliveries (stream_id, delivered, attempts) "
    "SELECT id, :last, 0 FROM made"
)
_NOW_DUE = (
    "CASE WHEN n.ready AND s.parked IS NULL AND s.due IS NULL THEN "
    "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT) ELSE s.due END"
)
_PUT = text(
    "WITH put AS (INSERT INTO sequitur_inbox_messages "
    "(stream_id, epoch, sequence, kind, content, headers, void) "
    "SELECT * FROM unnest(CAST(:put_ids AS bigint[]), CAST(:put_epochs AS bigint[]), "
    "CAST(:sequences AS bigint[]), CAST(:kinds AS text[]), CAST(:contents AS bytea[]), "
    "CAST(:headers AS text[]), CAST(:voids AS boolean[]))) "
    "UPDATE sequitur_inbox_streams AS s SET epoch = n.epoch, received = n.received, "
    f"waiting = n.waiting, since = n.since, due = {_NOW_DUE} "
    "FROM unnest(CAST(:ids AS bigint[]), CAST(:epochs AS bigint[]), CAST(:received AS bigint[]), "
    "CAST(:waiting AS bigint[]), CAST(:since AS bigint[]), CAST(:ready AS boolean[])) "
    "AS n (id, epoch, received, waiting, since, ready) WHERE s.id = n.id"
)
_REMOVE = text(
    "WITH removed AS (DELETE FROM sequitur_inbox_messages AS m "
    "USING unnest(CAST(:ids AS bigint[]), CAST(:epochs AS bigint[]), "
    "CAST(:sequences AS bigint[])) AS n (id, epoch, sequence) "
    "WHERE m.stream_id = n.id AND m.epoch = n.epoch AND m.sequence = n.sequence) "
    "UPDATE sequitur_inbox_deliveries AS d SET delivered = n.sequence, attempts = 0 "
    "FROM unnest(CAST(:passed AS bigint[]), CAST(:lasts AS bigint[])) AS n (id, sequence) "
    "WHERE d.stream_id = n.id RETURNING set_config('enable_seqscan', :seqscan, true), "
    "set_config('enable_bitmapscan', :bitmapscan, true)"
)
_LOOK = select(
    STREAMS.c.stream, STREAMS.c.id, STREAMS.c.epoch, STREAMS.c.received, STREAMS.c.waiting,
    STREAMS.c.since,
).where(
    STREAMS.c.inbox == bindparam("inbox"), STREAMS.c.topic == bindparam("topic"),
    STREAMS.c.stream.in_(bindparam("streams", expanding=True)),
)  # fmt: skip
_PUT_STREAM = (
    update(STREAMS)
    .where(STREAMS.c.id == bindparam("ids"))
    .values(
        epoch=bindparam("epochs"),
        received=bindparam("received"),
        waiting=bindparam("waiting"),
        since=bindparam("since"),
        due=text(
            "CASE WHEN :ready AND parked IS NULL AND due IS NULL THEN "
            "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) ELSE due END"
        ),
    )
)
_REMOVE_ONE = delete(MESSAGES).where(
    MESSAGES.c.stream_id == bindparam("of"),
    MESSAGES.c.epoch == bindparam("at_epoch"),
    MESSAGES.c.sequence == bindparam("at"),
)
_PASS_ONE = (
    update(DELIVERIES)
    .where(DELIVERIES.c.stream_id == bindparam("of"))
    .values(delivered=bindparam("at"), attempts=0)
)


def _headers(message: Message) -> str | None:
    return orjson.dumps(dict(message.headers)).decode() if message.headers else None
