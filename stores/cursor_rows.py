"""Writing many rows of a cursor at once, as each database does it best."""

import orjson
from sqlalchemy import Connection, bindparam, text, update

from stores.cursor_message import Message
from stores.cursor_order import At
from stores.cursor_tables import MESSAGES, STREAMS


def put_messages(connection: Connection, rows: list[tuple[int, Message]]) -> None:
    """Insert messages under the ids of their streams."""
    columns = [(of, m.epoch, m.sequence, m.kind, m.content, _headers(m), m.void) for of, m in rows]
    if connection.dialect.name == "postgresql":
        names = ("ids", "epochs", "sequences", "kinds", "contents", "headers", "voids")
        values = [list(column) for column in zip(*columns, strict=True)]
        connection.execute(_PUT_MESSAGES, dict(zip(names, values, strict=True)))
    else:
        keys = [column.name for column in MESSAGES.columns]
        connection.execute(
            MESSAGES.insert(), [dict(zip(keys, each, strict=True)) for each in columns]
        )


def put_streams(connection: Connection, moved: list[tuple[int, At, bool]]) -> None:
    """Save how far streams are: (id, how far, whether there is more to deliver)."""
    columns = [(of, *at, ready) for of, at, ready in moved]
    names = ("ids", "epochs", "received", "waiting", "since", "ready")
    if connection.dialect.name == "postgresql":
        values = [list(column) for column in zip(*columns, strict=True)]
        connection.execute(_PUT_STREAMS, dict(zip(names, values, strict=True)))
    else:
        connection.execute(_PUT_STREAM, [dict(zip(names, each, strict=True)) for each in columns])


_PUT_MESSAGES = text(
    "INSERT INTO sequitur_cursor_messages "
    "(stream_id, epoch, sequence, kind, content, headers, void) "
    "SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:epochs AS bigint[]), "
    "CAST(:sequences AS bigint[]), CAST(:kinds AS text[]), CAST(:contents AS bytea[]), "
    "CAST(:headers AS text[]), CAST(:voids AS boolean[]))"
)
_NOW_DUE = (
    "CASE WHEN {ready} AND s.parked IS NULL AND s.due IS NULL THEN "
    "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT) ELSE s.due END"
)
_PUT_STREAMS = text(
    "UPDATE sequitur_cursor_streams AS s SET epoch = n.epoch, received = n.received, "
    f"waiting = n.waiting, since = n.since, due = {_NOW_DUE.format(ready='n.ready')} "
    "FROM unnest(CAST(:ids AS bigint[]), CAST(:epochs AS bigint[]), CAST(:received AS bigint[]), "
    "CAST(:waiting AS bigint[]), CAST(:since AS bigint[]), CAST(:ready AS boolean[])) "
    "AS n (id, epoch, received, waiting, since, ready) WHERE s.id = n.id"
)
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


def _headers(message: Message) -> str | None:
    return orjson.dumps(dict(message.headers)).decode() if message.headers else None
