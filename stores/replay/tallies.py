"""Tallies of a period that nobody writes to any more: a count takes from them what it can."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, case, cast, func, literal, or_, select
from sqlalchemy.schema import CreateIndex

from stores.replay.conditions import holds, matching, milliseconds
from stores.replay.query import Comparison, Query
from stores.replay.query_limit import QueryLimit
from stores.replay.tables import TALLIES, TOTALS, Period, column_of

_CHUNKS = 200
"""Of a field in a period, if the period has few topics; each has as many messages."""
_ROWS, _FEWEST = 800, 8
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


def tallied(
    connection: Connection, found: Sequence[tuple[Period, int]], query: Query, limit: QueryLimit
) -> dict[int, int]:
    """How many messages a query finds in the periods of which tallies say so, by their numbers.

    They do for whole periods, by topics and conditions on one field.

    Args:
        connection: that reads.
        found: the periods where it is counted, in order, and the ids behind them.
        query: its conditions have values of their fields' kinds.
        limit: of the query.

    Raises:
        ReplayError: it takes too long, or a field had another kind then.
    """
    negated = any(each.comparison is Comparison.NOT for each in query.where)
    if len({each.field for each in query.where}) > 1 or (negated and len(query.where) > 1):
        return {}
    whole = [each for each in found if _asks_for_all(each[0], query, each[1])]
    if not whole:
        return {}
    of = TOTALS.c
    wanted = of.topic.in_(query.topics) if query.topics else and_(True)
    counted = func.sum(case((wanted, of.messages), else_=0))
    limit.begin_statement()
    asked = select(of.period, counted).where(_among(of.period, whole)).group_by(of.period)
    known: dict[int, int] = {number: int(total) for number, total in connection.execute(asked)}
    whole = [each for each in whole if each[0].number in known]  # others are written to
    totals = {period.number: known[period.number] for period, _ in whole}
    if not query.where:
        return totals
    if negated:
        equal = replace(query.where[0], comparison=Comparison.IS)
        query = replace(query, where=(equal,))
    some = [each for each in whole if totals[each[0].number]]
    having = _with_field(connection, some, query, limit)
    if negated:
        return {number: total - having.get(number, 0) for number, total in totals.items()}
    return dict.fromkeys(totals, 0) | having


def _among(column: Any, whole: Sequence[tuple[Period, int]]) -> Any:
    return column.between(whole[0][0].number, whole[-1][0].number)


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


def _with_field(
    connection: Connection, whole: Sequence[tuple[Period, int]], query: Query, limit: QueryLimit
) -> dict[int, int]:
    """Sum the chunks all of whose values fit, and count in those of which some may."""
    field, found = query.where[0].field, dict[int, int]()
    for kind, tallies in TALLIES.items():
        some = [each for each in whole if each[0].fields.get(field) is kind]
        if not some:
            continue
        of = tallies.c
        low, high = (
            and_(*(holds(some[0][0], each, end) for each in query.where))
            for end in (of.low, of.high)
        )
        fits = case((and_(low, high), 1), else_=0)
        asked = select(
            of.period,
            func.sum(fits * of.messages),
            func.sum(case((and_(or_(low, high), fits == 0), 1), else_=0)),
            func.min(case((fits == 1, of.low))),
            func.max(case((fits == 1, of.high))),
        ).where(_among(of.period, some), of.field == field)
        if query.topics:
            asked = asked.where(of.topic.in_(query.topics))
        limit.begin_statement()
        sums = {row[0]: row[1:] for row in connection.execute(asked.group_by(of.period))}
        for period, behind in some:
            total, cut, lowest, highest = sums.get(period.number, (0, 0, None, None))
            value = period.table.c[column_of(field)]
            condition = matching(period, query, behind, connection.dialect.name == "postgresql")
            counting = select(func.count()).select_from(period.table).where(condition)
            asked_for = [counting]
            if total:
                ends = (value < lowest, value > highest) if cut else ()
                asked_for = [counting.where(each) for each in ends]
            found[period.number] = int(total or 0)
            for each in asked_for:
                limit.begin_statement()
                found[period.number] += connection.execute(each).scalar_one()
    return found
