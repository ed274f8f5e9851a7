"""The tables of a replay log: one of messages for each period, and what is known of the periods."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    Table,
    Text,
    select,
)

from stores.replay.message import (
    CapturedMessage,
    FieldKind,
    Headers,
    kept_integer,
    kept_text,
    kept_value,
)

METADATA = MetaData()
PERIODS = Table(
    "sequitur_replay_periods",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("day", Integer, nullable=False),
    Column("begun", BigInteger, nullable=False),
    Column("first_id", BigInteger, nullable=False),
    Column("fields", Text, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("lowest_time", BigInteger),
    Column("highest_time", BigInteger),
    Column("size", BigInteger, nullable=False, server_default="0"),
)
END = Table(
    "sequitur_replay_end",
    METADATA,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("id", BigInteger, nullable=False),
)
"""One row, the last id. Each append locks it, so that ids ascend in the order of commits."""
POSITIONS = Table(
    "sequitur_replay_positions",
    METADATA,
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
)
SOURCES = Table(
    "sequitur_replay_sources",
    METADATA,
    Column("topic", Text, primary_key=True),
    Column("known", Text, nullable=False),
)
"""By what topics are told from others of their names."""
GONE = Table(
    "sequitur_replay_gone",
    METADATA,
    Column("period", Integer, primary_key=True, autoincrement=False),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("first_offset", BigInteger, nullable=False),
    Column("last_offset", BigInteger, nullable=False),
    Column("messages", BigInteger, nullable=False),
    Column("last_id", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
)
"""What retention took."""
TOTALS = Table(
    "sequitur_replay_totals",
    METADATA,
    Column("period", Integer, primary_key=True, autoincrement=False),
    Column("topic", Text, primary_key=True),
    Column("messages", BigInteger, nullable=False),
)
"""How many messages of a topic a period has; of periods that nobody writes to any more."""

# Compared by their characters' numbers, everywhere.
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
_TYPES: Mapping[FieldKind, Any] = {
    FieldKind.TEXT: _TEXT,
    FieldKind.INTEGER: BigInteger,
    FieldKind.NUMBER: Float,
}


def _tallies(kind: FieldKind) -> Table:
    return Table(
        f"sequitur_replay_tallies_{kind.value}",
        METADATA,
        Column("period", Integer, primary_key=True, autoincrement=False),
        Column("field", Text, primary_key=True),
        Column("chunk", Integer, primary_key=True, autoincrement=False),
        Column("topic", Text, primary_key=True),
        Column("low", _TYPES[kind], nullable=False),
        Column("high", _TYPES[kind], nullable=False),
        Column("messages", BigInteger, nullable=False),
    )


TALLIES: Mapping[FieldKind, Table] = {kind: _tallies(kind) for kind in FieldKind}
"""How many messages of a topic have a field's value from low to high, where TOTALS has the period.

Chunks are ranges of values, which are those of all topics, and do not overlap."""


@dataclass(frozen=True, slots=True)
class Period:
    """The messages that were captured in a stretch of time, a day at most.

    The last one, which is written to, has no indexes but its ids.

    Attributes:
        number: from 1.
        day: since 1970, by the database.
        begun: when, in milliseconds since 1970.
        first_id: the ids of its messages are this one and higher.
        fields: declared field → its kind.
        messages: how many it has.
        lowest_time: the lowest time of its records, in milliseconds; None: it is empty.
        highest_time: the highest one.
        size: bytes of its messages' contents.
    """

    number: int
    day: int
    begun: int
    first_id: int
    fields: Mapping[str, FieldKind]
    messages: int
    lowest_time: int | None
    highest_time: int | None
    size: int = 0

    @property
    def table(self) -> Table:
        """Its messages."""
        return _messages(self.number, tuple((each, self.fields[each]) for each in self.fields))


def periods(connection: Connection, *where: ColumnElement[bool]) -> list[Period]:
    """Read the periods that there are, in order.

    Args:
        connection: to read by.
        where: which ones; else all.
    """
    asked = select(PERIODS).where(*where).order_by(PERIODS.c.number)
    found = connection.execute(asked).mappings()
    return [
        Period(
            **{
                **row,
                "fields": {
                    name: FieldKind(each) for name, each in orjson.loads(row["fields"]).items()
                },
            }
        )
        for row in found
    ]


@lru_cache(4_096)
def _messages(number: int, declared: tuple[tuple[str, FieldKind], ...]) -> Table:
    name = f"sequitur_replay_{number}"
    table = Table(
        name,
        MetaData(),
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("captured", BigInteger, nullable=False),
        Column("site", _TEXT, nullable=False),
        Column("topic", _TEXT, nullable=False),
        Column("partition", Integer, nullable=False),
        Column("offset", BigInteger, nullable=False),
        Column("time", BigInteger, nullable=False),
        Column("origin", _TEXT, nullable=False),
        Column("stream", _TEXT),
        Column("sequence", BigInteger),
        Column("size", BigInteger, nullable=False),
        Column("key", LargeBinary),
        Column("headers", LargeBinary, nullable=False),
        *(Column(column_of(each), _TYPES[kind]) for each, kind in declared),
        # Behind all that conditions ask of: SQLite reads what is large from one end.
        Column("value", LargeBinary),
        # What counts reads indexes alone where vacuum has seen the pages.
        postgresql_with={"autovacuum_vacuum_insert_scale_factor": 0.02},
    )
    of = table.c
    Index(f"{name}_position", of.topic, of.partition, of.offset)
    Index(f"{name}_time", of.time, postgresql_using="brin")
    Index(f"{name}_stream", of.stream, of.sequence)
    for at, (each, _) in enumerate(declared):
        # All that a count by the field, topics and times asks for: it reads no message.
        Index(f"{name}_field_{at}", of[column_of(each)], of.id, of.topic, of.time)
    return table


def column_of(field: str) -> str:
    """The column of a declared field."""
    return f"field_{field}"


def row_of(message: CapturedMessage, id: int, captured: int, period: Period) -> tuple[Any, ...]:
    """A message as a row, its columns in the table's order; what does not fit is cut or left out.

    Args:
        message: what has no position has that of its id.
        id: its place in the log.
        captured: now, in milliseconds since 1970.
        period: whose row.
    """
    given, content = message.metadata, message.value
    return (
        id,
        captured,
        kept_text(message.site),
        message.topic,
        message.partition,
        message.offset if message.partition >= 0 else id,
        kept_integer(message.time) or 0,
        kept_text(message.origin),
        kept_text(message.stream),
        kept_integer(message.sequence),
        0 if content is None else len(content),
        message.key,
        packed(message.headers),
        *[kept_value(kind, given.get(name)) for name, kind in period.fields.items()],
        content,
    )


def message_of(row: RowMapping, period: Period) -> CapturedMessage:
    """A row as a message; one that was read without its content has None."""
    given = {name: row[column_of(name)] for name in period.fields}
    plain = {name: row[name] for name in _PLAIN}
    return CapturedMessage(
        **plain,
        value=row.get("value"),
        headers=unpacked(row["headers"]),
        metadata={name: value for name, value in given.items() if value is not None},
    )


_PLAIN = (
    *("id", "captured", "site", "topic", "partition", "offset", "time", "origin"),
    *("stream", "sequence", "size", "key"),
)


def packed(headers: Headers) -> bytes:
    """Headers as bytes."""
    if not headers:
        return b""
    return orjson.dumps([(name, base64.b64encode(value).decode()) for name, value in headers])


def unpacked(data: bytes) -> Headers:
    """What `packed` made."""
    if not data:
        return ()
    return tuple((name, base64.b64decode(value)) for name, value in orjson.loads(data))
