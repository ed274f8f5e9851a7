"""What a query asks of the rows of a period, as SQL."""

import math
from typing import Any

from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    UnaryExpression,
    and_,
    case,
    false,
    func,
    literal,
    not_,
)
from sqlalchemy.sql.operators import custom_op

from stores.replay.errors import ReplayError
from stores.replay.message import FieldKind, Value, kept_integer, kept_text, kept_value
from stores.replay.query import Comparison, Condition, Query
from stores.replay.tables import Period, column_of


def may_have(period: Period, query: Query) -> bool:
    """Whether a period can have what is asked for, as far as its times tell."""
    if period.lowest_time is None or period.highest_time is None:
        return False
    since = query.since is None or period.highest_time >= milliseconds(query.since)
    return since and (query.until is None or period.lowest_time < milliseconds(query.until))


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
        found.append(of.time >= milliseconds(query.since))
    if query.until is not None:
        found.append(of.time < milliseconds(query.until))
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
    # One after the other: SQLite nests no more than 1,000 conditions with OR.
    ranges: list[tuple[ColumnElement[bool], ColumnElement[bool]]] = []
    for topic, parts in query.offsets.items():
        for number, (low, high) in parts.items():
            each = of.offset >= low
            each = each if high is None else and_(each, of.offset < high)
            ranges.append((and_(of.topic == topic, of.partition == number), each))
    others = not_(of.topic.in_(list(query.offsets)))
    return case(*ranges, else_=others) if ranges else others


def _holds(period: Period, condition: Condition) -> ColumnElement[bool]:
    if condition.field not in period.fields:
        return and_(True) if condition.comparison is Comparison.NOT else false()
    return holds(period, condition, period.table.c[column_of(condition.field)])


def holds(period: Period, condition: Condition, column: ColumnElement[Any]) -> ColumnElement[bool]:
    """What a condition asks of a column that has values of its field.

    Args:
        period: whose kinds count; it has the field.
        condition: its value is of the field's kind.
        column: the one of the messages, or one that has some of their values.

    Raises:
        ReplayError: the field had another kind then, and is not compared for equality.
    """
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


def milliseconds(seconds: float) -> int:
    """A time of a query as the log keeps times."""
    return round(seconds * 1000)
