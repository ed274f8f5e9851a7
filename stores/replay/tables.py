"""The tables of a replay log: one of messages for each period, and what is known of the periods."""

import base64
import math
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
    UnaryExpression,
    and_,
    false,
    func,
    literal,
    not_,
    or_,
    select,
)
from sqlalchemy.sql.operators import custom_op

from stores.replay.errors import ReplayError
from stores.replay.message import (
    CapturedMessage,
    FieldKind,
    Headers,
    Value,
    kept_integer,
    kept_text,
    kept_value,
)
from stores.replay.query import Comparison, Condition, Query

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

# Compared by their characters' numbers, everywhere.
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
_TYPES: Mapping[FieldKind, Any] = {
    FieldKind.TEXT: _TEXT,
    FieldKind.INTEGER: BigInteger,
    FieldKind.NUMBER: Float,
}


@dataclass(frozen=True, slots=True)
class Period:
    """The messages that were captured in a stretch of time, a day at most.

    Attributes:
        number: from 1.
        day: since 1970, by the database.
        begun: when, in milliseconds since 1970.
        first_id: the ids of its messages are this one and higher.
        fields: declared field → its kind.
        lowest_time: the lowest time of its records, in milliseconds; None: it is empty.
        highest_time: the highest one.
    """

    number: int
    day: int
    begun: int
    first_id: int
    fields: Mapping[str, FieldKind]
    lowest_time: int | None
    highest_time: int | None

    @property
    def table(self) -> Table:
        """Its messages."""
        return _messages(self.number, tuple((each, self.fields[each]) for each in self.fields))


def periods(connection: Connection) -> list[Period]:
    """Read the periods that there are, in order."""
    found = connection.execute(select(PERIODS).order_by(PERIODS.c.number)).mappings()
    return [
        Period(
            **{
                **{name: row[name] for name in row if name not in ("fields", "messages")},
                "fields": {
                    name: FieldKind(each) for name, each in orjson.loads(row["fields"]).items()
                },
            }
        )
        for row in found
    ]


@lru_cache(256)
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
        Column("value", LargeBinary),
        *(Column(column_of(each), _TYPES[kind]) for each, kind in declared),
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
        content,
        *[kept_value(kind, given.get(name)) for name, kind in period.fields.items()],
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


def may_have(period: Period, query: Query) -> bool:
    """Whether a period can have what is asked for, as far as its times tell."""
    if period.lowest_time is None or period.highest_time is None:
        return False
    since = query.since is None or period.highest_time >= _milliseconds(query.since)
    return since and (query.until is None or period.lowest_time < _milliseconds(query.until))


def matching(period: Period, query: Query, behind: int, postgres: bool) -> ColumnElement[bool]:
    """The condition on the rows of a period.

    Args:
        period: whose rows.
        query: its conditions have values of their fields' kinds.
        behind: an id that all of them are below.
        postgres: whether it is PostgreSQL.
    """
    of = period.table.c
    low, high = query.sequences
    topic: ColumnElement[str] = of.topic
    if not postgres and (query.where or query.streams):
        # SQLite, which knows nothing of how often values are, would look up all of the topic.
        topic = UnaryExpression(topic, operator=custom_op("+"), type_=topic.type)
    lists: Any = (topic, query.topics), (of.site, query.sites), (of.partition, query.partitions)
    found: list[ColumnElement[bool]] = [each.in_(given) for each, given in lists if given]
    if query.streams:
        found.append(of.stream.in_([kept_text(each) or "" for each in query.streams]))
    if query.since is not None:
        found.append(of.time >= _milliseconds(query.since))
    if query.until is not None:
        found.append(of.time < _milliseconds(query.until))
    if low is not None:
        found.append(of.sequence >= low)
    if high is not None:
        found.append(of.sequence <= high)
    if query.after >= period.first_id:
        found.append(of.id > query.after)
    if query.through is not None and query.through < behind - 1:
        found.append(of.id <= query.through)
    if query.text is not None:
        text = literal(query.text.encode(), LargeBinary)
        place = func.position(text.op("IN")(of.value)) if postgres else func.instr(of.value, text)
        found.append(place > 0)
    found += [_holds(period, each) for each in query.where]
    if query.offsets:
        found.append(_within(of, query))
    return and_(True, *found)


def _within(of: Any, query: Query) -> ColumnElement[bool]:
    ranges: list[ColumnElement[bool]] = [not_(of.topic.in_(list(query.offsets)))]
    for topic, parts in query.offsets.items():
        for number, (low, high) in parts.items():
            each = and_(of.topic == topic, of.partition == number, of.offset >= low)
            ranges.append(each if high is None else and_(each, of.offset < high))
    return or_(*ranges)


def _holds(period: Period, condition: Condition) -> ColumnElement[bool]:
    if condition.field not in period.fields:
        return and_(True) if condition.comparison is Comparison.NOT else false()
    column = period.table.c[column_of(condition.field)]
    kind, sign, value = period.fields[condition.field], condition.comparison, condition.value
    equal = sign in (Comparison.IS, Comparison.NOT)
    found: Value | None = value
    if (kind is FieldKind.TEXT) != isinstance(value, str):  # it had another kind once
        if not equal:
            raise ReplayError(
                f"field {condition.field!r} is {kind.value} in messages from {period.first_id} on, "
                f"and {sign.value} does not fit: ask for = or !=, or for other messages"
            )
        found = kept_value(kind, value)
    elif kind is FieldKind.INTEGER and not isinstance(value, str):
        up = sign in (Comparison.LESS, Comparison.AT_LEAST)
        found = math.ceil(value) if up else math.floor(value)
        if equal and found != value:
            found = None
        if found is not None and kept_integer(found) is None:
            if not equal:
                below = sign in (Comparison.LESS, Comparison.AT_MOST)
                return column.is_not(None) if (found > 0) is below else false()
            found = None
    if found is None:  # no message has it
        return false() if sign is Comparison.IS else and_(True)
    value = found
    match sign:
        case Comparison.IS:
            return column == value
        case Comparison.NOT:
            return column.is_distinct_from(value)
        case Comparison.LESS:
            return column < value
        case Comparison.AT_MOST:
            return column <= value
        case Comparison.MORE:
            return column > value
        case Comparison.AT_LEAST:
            return column >= value
        case Comparison.BEGINS:
            return and_(column >= value, column < f"{value}\U0010ffff")


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
