"""Tallies of a period that nobody writes to any more: a count takes from them what it can."""

from dataclasses import replace
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, case, cast, func, literal, or_, select
from sqlalchemy.schema import CreateIndex

from stores.replay.conditions import holds, matching, milliseconds
from stores.replay.query import Comparison, Query
from stores.replay.tables import TALLIES, TOTALS, Period, column_of

_CHUNKS = 500
"""Of a field in a period, if the period has few topics; each has as many messages."""
_ROWS, _FEWEST = 2_000, 8
"""Of a field in a period, at most, if its topics have all of its chunks; and chunks at least."""


def close_period(connection: Connection, period: Period) -> None:
    """Index and tally what nobody writes to any more; that is cheaper than message by message.

    Args:
        connection: in the transaction by which the next period begins.
        period: the last one; it has messages.
    """
    table, of = period.table, period.table.c
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        connection.execute(CreateIndex(index, if_not_exists=True))
    number = literal(period.number)
    totals = select(number, of.topic, func.count()).group_by(of.topic)
    connection.execute(TOTALS.insert().from_select(TOTALS.c.keys(), totals))
    counted = select(func.count()).where(TOTALS.c.period == period.number)
    topics: int = connection.execute(counted).scalar_one()
    size = period.messages // max(_FEWEST, min(_CHUNKS, _ROWS // topics)) + 1
    for field, kind in period.fields.items():
        value = of[column_of(field)]
        each = (
            select(value.label("value"), of.topic, func.count().label("messages"))
            .where(value.is_not(None))
            .group_by(value, of.topic)
            .subquery()
        )
        # As many as there are up to this value, in all topics.
        up_to = cast(func.sum(each.c.messages).over(order_by=each.c.value), BigInteger)
        chunked = select(each, ((up_to - 1) // size).label("chunk")).subquery()
        chunk, low, high = chunked.c.chunk, func.min(chunked.c.value), func.max(chunked.c.value)
        rows: Any = select(
            *(number, literal(field), chunk, chunked.c.topic),
            func.min(low).over(partition_by=chunk),
            func.max(high).over(partition_by=chunk),
            func.sum(chunked.c.messages),
        ).group_by(chunk, chunked.c.topic)
        tallies = TALLIES[kind]
        connection.execute(tallies.insert().from_select(tallies.c.keys(), rows))


def tallied(connection: Connection, period: Period, query: Query, behind: int) -> int | None:
    """How many messages of a period a query finds, where tallies say so; else None.

    They do for whole periods, by topics and conditions on one field.

    Args:
        connection: that reads.
        period: where it is counted.
        query: its conditions have values of their fields' kinds.
        behind: an id that all of the period are below.
    """
    fields = {each.field for each in query.where}
    if len(fields) > 1 or not _asks_for_all(period, query, behind):
        return None
    of = TOTALS.c
    wanted = of.topic.in_(query.topics) if query.topics else and_(True)
    counted = func.sum(case((wanted, of.messages), else_=0))
    topics, total = connection.execute(
        select(func.count(), counted).where(of.period == period.number)
    ).one()
    if not topics:
        return None  # it is written to
    if not fields or not total:
        return int(total)
    if any(each.comparison is Comparison.NOT for each in query.where):
        if len(query.where) > 1:
            return None
        (condition,) = query.where
        equal = replace(query, where=(replace(condition, comparison=Comparison.IS),))
        return int(total) - _with_field(connection, period, equal, behind)
    return _with_field(connection, period, query, behind)


def _asks_for_all(period: Period, query: Query, behind: int) -> bool:
    """Whether it leaves out nothing of the period but by topics and fields."""
    plain = replace(query, topics=(), where=(), since=None, until=None, after=0, through=None)
    low, high = period.lowest_time, period.highest_time
    if plain != Query() or low is None or high is None:
        return False
    return (
        query.after < period.first_id
        and (query.through is None or query.through >= behind - 1)
        and (query.since is None or low >= milliseconds(query.since))
        and (query.until is None or high < milliseconds(query.until))
    )


def _with_field(connection: Connection, period: Period, query: Query, behind: int) -> int:
    """Sum the chunks all of whose values fit, and count in those of which some may."""
    field = query.where[0].field
    if field not in period.fields:
        return 0
    of = TALLIES[period.fields[field]].c
    low, high = (
        and_(*(holds(period, each, end) for each in query.where)) for end in (of.low, of.high)
    )
    whole = case((and_(low, high), 1), else_=0)
    asked = select(
        func.sum(whole * of.messages),
        func.sum(case((and_(or_(low, high), whole == 0), 1), else_=0)),
        func.min(case((whole == 1, of.low))),
        func.max(case((whole == 1, of.high))),
    ).where(of.period == period.number, of.field == field)
    if query.topics:
        asked = asked.where(of.topic.in_(query.topics))
    total, cut, lowest, highest = connection.execute(asked).one()
    value = period.table.c[column_of(field)]
    condition = matching(period, query, behind, connection.dialect.name == "postgresql")
    counting = select(func.count()).select_from(period.table).where(condition)
    if not total:
        return int(connection.execute(counting).scalar_one())
    ends = (value < lowest, value > highest) if cut else ()
    return int(total) + sum(connection.execute(counting.where(each)).scalar_one() for each in ends)
