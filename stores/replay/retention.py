"""What a replay log no longer has."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, case, delete, func, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import DropTable

from stores.db.clock import Now
from stores.db.dialect import begin_writing
from stores.replay.errors import ReplayError
from stores.replay.query import Query
from stores.replay.tables import GONE, PERIODS, TALLIES, TOTALS, Period, periods

logger = logging.getLogger(__name__)
_DAY = 86_400_000
_PATIENCE = 2_000
"""Milliseconds that a period which is to go is waited for; who asks for it next waits behind."""


@dataclass(frozen=True, slots=True)
class Hole:
    """What retention took from a partition, or Kafka's before it was captured.

    Attributes:
        topic: where.
        partition: there.
        first: the first offset.
        last: the last offset.
        messages: how many; at most, where they never were in the log.
        last_id: the last id in the log; of what never was there, the one before it was missed.
    """

    topic: str
    partition: int
    first: int
    last: int
    messages: int
    last_id: int

    def __str__(self) -> str:
        offsets = f"offsets {self.first} to {self.last}"
        return f"{self.topic}/{self.partition}: {self.messages} messages, {offsets}"


def retain(engine: Engine, seconds: float, dry_run: bool, at_most: int | None = None) -> list[Hole]:
    """Drop the periods that ended longer ago than this; who writes waits for none of it.

    Args:
        engine: of the log's database.
        seconds: to keep what was captured; periods go whole, so up to a day more.
        dry_run: only say what would go.
        at_most: what it is now at most, in milliseconds since 1970; else the database's clock
            alone counts, by which captures go.

    Raises:
        ReplayError: somebody reads what is to go, and does not end; what is told as gone is gone.
        SQLAlchemyError: the database cannot do it now; likewise.
    """
    with engine.connect() as connection:
        now: int = connection.execute(select(Now())).scalar_one()
        now = now if at_most is None else min(now, at_most)
        there = periods(connection)
    if ahead := [each.number for each in there if each.begun > now + _DAY]:
        logger.warning(
            "periods %s of the replay log were begun by a clock that was ahead of %d; they go "
            "when what came after them does",
            *(ahead, now),
        )
    gone, latest = list[Hole](), 0
    for at, period in enumerate(there):
        if period.begun <= now:
            latest = max(latest, period.begun)
        # A clock may have been ahead, or behind, for a while: what began then ends nothing.
        ends = (each.begun for each in there[at + 1 :] if latest <= each.begun <= now)
        ended = next(ends, None)
        if ended is None or ended >= now - round(seconds * 1000):
            continue
        with engine.connect() as connection:
            found = _messages_of(connection, period)
        if dry_run or _drop(engine, period, found, now):
            gone += found
    return gone


def holes(connection: Connection, query: Query) -> list[Hole]:
    """What is gone of the topics and positions that a query names.

    Args:
        connection: to read by.
        query: its topics, partitions, offsets and `after` count.
    """
    names = ("topic", "partition", "first_offset", "last_offset", "messages", "last_id")
    asked = select(*(GONE.c[name] for name in names)).where(*_about(query))
    asked = asked.order_by(GONE.c.topic, GONE.c.partition, GONE.c.first_offset)
    return [each for row in connection.execute(asked) if _meets(each := Hole(*row), query)]


def messages_gone(connection: Connection, query: Query) -> int:
    """How many messages are gone of the topics and partitions that a query names.

    Args:
        connection: to read by.
        query: its topics, partitions and `after` count.
    """
    asked = select(func.coalesce(func.sum(GONE.c.messages), 0)).where(*_about(query))
    return int(connection.execute(asked).scalar_one())


def note_lost(
    connection: Connection, topic: str, lost: Mapping[int, tuple[int, int]], last: int
) -> None:
    """Keep what went before it was captured: holes of no period, whose numbers are below 0.

    Args:
        connection: whose transaction it is; nobody appends beside.
        topic: where.
        lost: partition → the first offset, and the one behind the last.
        last: the log's last id: who freezes a set from here on is told of the holes.
    """
    lowest: int = connection.execute(select(func.min(GONE.c.period))).scalar_one() or 0
    now: int = connection.execute(select(Now())).scalar_one()
    for partition, (first, behind) in lost.items():
        row = (min(lowest, 0) - 1, topic, partition, first, behind - 1, behind - first)
        connection.execute(GONE.insert().values((*row, last, now)))


def _messages_of(connection: Connection, period: Period) -> list[Hole]:
    of = period.table.c
    asked = select(
        *(of.topic, of.partition, func.min(of.offset), func.max(of.offset)),
        *(func.count(), func.max(of.id)),
    )
    asked = asked.group_by(of.topic, of.partition).order_by(of.topic, of.partition)
    return [Hole(*row) for row in connection.execute(asked)]


def _drop(engine: Engine, period: Period, found: list[Hole], now: int) -> bool:
    """Drop a period that nobody writes to any more; False: somebody else did."""
    try:
        with engine.begin() as connection:
            begin_writing(connection)
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_PATIENCE}")
            mine = delete(PERIODS).where(PERIODS.c.number == period.number)
            if connection.execute(mine).rowcount != 1:
                return False
            for each in found:
                _note_hole(connection, period.number, each, now)
            for table in (TOTALS, *TALLIES.values()):
                connection.execute(delete(table).filter_by(period=period.number))
            connection.execute(DropTable(period.table))
    except OperationalError as error:
        if "lock" not in str(error.orig):  # a disk that is full, say
            raise
        raise ReplayError(
            f"period {period.number} of the log is being read, and stays for now: try again"
        ) from error
    return True


def _note_hole(connection: Connection, period: int, hole: Hole, now: int) -> None:
    """Keep a hole, as a part of the last one before it: periods go in order, so both touch."""
    same = {"topic": hole.topic, "partition": hole.partition}
    asked = select(GONE).filter_by(**same).where(GONE.c.period > 0)
    last = connection.execute(asked.order_by(GONE.c.period.desc()).limit(1)).one_or_none()
    new = {"period": period, "last_offset": hole.last, "last_id": hole.last_id, "at": now}
    if last is not None and last.last_offset < hole.first:  # else the topic was made again
        mine = update(GONE).filter_by(**same, period=last.period)
        connection.execute(mine.values(**new, messages=last.messages + hole.messages))
    else:
        row = {**same, **new, "first_offset": hole.first, "messages": hole.messages}
        connection.execute(GONE.insert().values(row))


def _about(query: Query) -> list[ColumnElement[bool]]:
    of = GONE.c
    # What never was in the log is behind its last id.
    found = [of.last_id + case((of.period > 0, 0), else_=1) > query.after]
    if query.topics:
        found.append(of.topic.in_(query.topics))
    if query.partitions:
        found.append(of.partition.in_(query.partitions))
    if query.through is not None:  # what was lost behind it was never among what is asked for
        found.append((of.period > 0) | (of.last_id <= query.through))
    return found


def _meets(hole: Hole, query: Query) -> bool:
    if hole.topic not in query.offsets:
        return True
    low, high = query.offsets[hole.topic].get(hole.partition, (0, 0))
    return hole.last >= low and (high is None or hole.first < high)
