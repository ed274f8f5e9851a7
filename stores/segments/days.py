"""Ends of days: a barrier over all inbound partitions of a router. SQL knows who has reached it.

A day is open from when the first partition has its end until all of them have, and all segments,
too: behind it in each of them is what belongs to the next day.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import Enum

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    Table,
    Text,
    delete,
    func,
    or_,
    select,
    update,
)

from stores.db.clock import Now
from stores.db.dialect import begin_writing, insert
from stores.segments.day_of import DAY_ID
from stores.segments.errors import SegmentError
from stores.segments.ledger import METADATA, SEGMENTS, SegmentLedger
from stores.segments.message import Pair, Place

DAYS = Table(
    "sequitur_days",
    METADATA,
    Column("router", Text, primary_key=True),
    Column("open_day", Text),
    Column("last_day", Text),
)
REACHED = Table(
    "sequitur_day_partitions",
    METADATA,
    Column("router", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("day", Text, nullable=False),
)
PLACES = Table(
    "sequitur_day_places",
    METADATA,
    Column("router", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("transport", Text, primary_key=True),
    Column("day", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("before", BigInteger, nullable=False),
    Column("behind", BigInteger, nullable=False),
)
"""Where the end of a day is in the segments of each pair."""


WITHDRAWN = Table(
    "sequitur_withdrawn_days",
    METADATA,
    Column("router", Text, primary_key=True),
    Column("day", Text, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
)
_YEAR = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class DayState:
    """What the partitions of a router have reached.

    Attributes:
        topics: that there are.
        open: the day whose end somebody has, and not everybody.
        last: the last day that ended.
        reached: (topic, partition) → the last day whose end it had, "" before the first one.
        written: topics in whose segments the open day has ended.
        withdrawn: days whose ends are no longer taken.
    """

    topics: frozenset[str]
    open: str | None = None
    last: str | None = None
    reached: Mapping[tuple[str, int], str] = field(default_factory=dict)
    written: frozenset[str] = frozenset()
    withdrawn: frozenset[str] = frozenset()

    def refusal(self, topic: str, partition: int, day: str) -> str | None:
        """Why the end of a day is out of sequence; "" for a repetition, None if it is right."""
        if not DAY_ID.fullmatch(day):
            return "the id of a day has 1 to 64 of A-Z a-z 0-9 _ . : -"
        if day in self.withdrawn:
            return f"the end of {day} was withdrawn"
        if day in (self.last, self.reached.get((topic, partition))):
            return ""
        if self.last is not None and day < self.last:
            return f"the end of {day} comes after that of {self.last}; days' ids are in order"
        if self.open not in (None, day):
            return f"the end of {day} comes while {self.open} has not ended in all partitions"
        return None

    def doubt(self, day: str) -> str | None:
        """Why a day may be mistyped, by the open day, or else the last one."""
        known = self.open or self.last
        if day in self.withdrawn:
            return f"{day} was withdrawn"
        if known is None or day in (self.open, self.last):
            return None
        if day < known:
            return f"{day} is before {known}"
        if _shape(day) != _shape(known):
            return f"{day} is not written as {known} is"
        with suppress(ValueError):
            if date.fromisoformat(day) - date.fromisoformat(known) > _YEAR:
                return f"{day} is more than a year behind {known}"
        return None

    def after(self, topic: str, partition: int, day: str) -> "DayState":
        """The state when a partition has the end of a day."""
        return replace(self, open=day, reached={**self.reached, (topic, partition): day})

    @property
    def missing(self) -> list[str]:
        """The partitions, and topics that nobody consumes, without the end of the open day."""
        if self.open is None:
            return []
        known = {topic for topic, _ in self.reached}
        late = [
            f"{topic}/{number}" for (topic, number), day in self.reached.items() if day != self.open
        ]
        return sorted([*(self.topics - known), *late])

    @property
    def complete(self) -> bool:
        """Whether all partitions have the end of the open day."""
        return self.open is not None and not self.missing


class Passing(Enum):
    """What the publisher of a pair does at the end of a day."""

    WAITS = "it waits"
    LEADS = "it tells the destinations, and goes on"
    FOLLOWS = "it goes on"


class Days:
    """The days of a router, in the ledger's database.

    Args:
        ledger: of its segments.
        topics: all that it consumes.
        transports: all that it publishes by.
    """

    def __init__(
        self, ledger: SegmentLedger, topics: Collection[str], transports: Collection[str]
    ) -> None:
        self._engine, self._router = ledger.engine, ledger.router
        self._topics, self.transports = frozenset(topics), tuple(sorted(transports))

    def know(self, topic: str, partitions: Iterable[int]) -> None:
        """Note which partitions a topic has."""
        with self._engine.begin() as connection:
            begin_writing(connection)
            line = insert(connection, DAYS).values(router=self._router)
            connection.execute(line.on_conflict_do_nothing())
            for number in partitions:
                of = {"router": self._router, "topic": topic, "partition": number}
                row = insert(connection, REACHED).values(**of, day="")
                connection.execute(row.on_conflict_do_nothing())

    def state(self) -> DayState:
        """Read what the partitions have reached."""
        mine = {"router": self._router}
        with self._engine.connect() as connection:
            day = connection.execute(select(DAYS).filter_by(**mine)).one_or_none()
            rows = connection.execute(select(REACHED).filter_by(**mine)).all()
            places = connection.execute(select(PLACES.c.topic, PLACES.c.day).filter_by(**mine))
            open_, last = (day.open_day, day.last_day) if day else (None, None)
            reached = {(r.topic, r.partition): r.day for r in rows if r.topic in self._topics}
            written = frozenset(topic for topic, of in places if of == open_)
            gone = connection.execute(select(WITHDRAWN.c.day).filter_by(**mine)).scalars()
            return DayState(self._topics, open_, last, reached, written, frozenset(gone))

    def reach(self, connection: Connection, topic: str, reached: Mapping[int, str]) -> None:
        """Note that partitions have the end of a day, in the transaction that promises it.

        Raises:
            SegmentError: it was withdrawn meanwhile, or another day is open; start over.
        """
        for number, day in reached.items():
            opened = (
                update(DAYS)
                .filter_by(router=self._router)
                .where(or_(DAYS.c.open_day.is_(None), DAYS.c.open_day == day))
                .where(or_(DAYS.c.last_day.is_(None), DAYS.c.last_day < day))
            )
            if connection.execute(opened.values(open_day=day)).rowcount != 1:
                raise SegmentError(f"{topic}/{number}: another day is open by now; start over")
            of = {"router": self._router, "topic": topic, "partition": number}
            connection.execute(update(REACHED).filter_by(**of).values(day=day))
        gone = select(WITHDRAWN.c.day).filter_by(router=self._router)
        if connection.execute(gone.where(WITHDRAWN.c.day.in_(reached.values()))).first():
            raise SegmentError(f"{topic}: its day was withdrawn meanwhile; start over")

    def write(
        self, connection: Connection, day: str, places: Mapping[Pair, tuple[Place, int]]
    ) -> None:
        """Note where a day ends in a topic's segments; the last topic ends the day.

        Args:
            connection: of the transaction that promises these places.
            day: which.
            places: pair → where its end begins, and the offset behind it.

        Raises:
            SegmentError: it was withdrawn meanwhile; start over.
        """
        mine = {"router": self._router}
        # First the line that all write, so that one of two topics sees the other's places.
        opened = update(DAYS).filter_by(**mine, open_day=day).values(open_day=day)
        if connection.execute(opened).rowcount != 1:
            raise SegmentError(f"{day} is no longer open; start over")
        for pair, (before, behind) in places.items():
            where = {"number": before.number, "before": before.offset, "behind": behind}
            connection.execute(PLACES.insert().values(**mine, **pair._asdict(), day=day, **where))
        self._close(connection, day)

    def close(self, day: str) -> None:
        """End a day that all topics have written; one that had not may be gone since."""
        with self._engine.begin() as connection:
            begin_writing(connection)
            open_ = update(DAYS).filter_by(router=self._router, open_day=day)
            if connection.execute(open_.values(open_day=day)).rowcount:
                self._close(connection, day)

    def _close(self, connection: Connection, day: str) -> None:
        mine = {"router": self._router}
        asked = select(func.count(func.distinct(PLACES.c.topic))).filter_by(**mine, day=day)
        there = connection.execute(asked.where(PLACES.c.topic.in_(self._topics))).scalar_one()
        if there == len(self._topics):
            connection.execute(update(DAYS).filter_by(**mine).values(open_day=None, last_day=day))

    def passing(self, pair: Pair, day: str) -> Passing:
        """Whether the publisher of a pair may go on behind the end of a day.

        Who takes part is who had that end in its segments when the day ended, whatever sources and
        transports there are by now; the first of these topics leads. It may go on, and tells the
        destinations, when everything before it is confirmed for all of them; the others may when
        the leader has.
        """
        of = {"router": self._router, "transport": pair.transport, "day": day}
        with self._engine.connect() as connection:
            last = connection.execute(select(DAYS.c.last_day).filter_by(router=self._router))
            if (last.scalar_one_or_none() or "") < day:
                return Passing.WAITS
            places = {p.topic: p for p in connection.execute(select(PLACES).filter_by(**of))}
            leader = min(places, default=pair.topic)
            leads = pair.topic == leader
            for topic in places.keys() - {pair.topic} if leads else {leader}:
                at = places[topic]
                if not self._is_behind(
                    connection, topic, pair.transport, at.number, at.before if leads else at.behind
                ):
                    return Passing.WAITS
        return Passing.LEADS if leads else Passing.FOLLOWS

    def withdraw(self, day: str, reason: str) -> None:
        """Take an end back: of the open day, or of the last one, once it is published everywhere.

        Its partitions go on, its end is refused wherever it comes from now on, and any day may be
        the next one.

        Args:
            day: which.
            reason: why, which is kept in SQL.

        Raises:
            SegmentError: it is neither, or is on its way to the destinations.
        """
        mine = {"router": self._router}
        with self._engine.begin() as connection:
            begin_writing(connection)
            # First the line that all write, see `write`.
            connection.execute(update(DAYS).filter_by(**mine).values(router=self._router))
            row = connection.execute(select(DAYS).filter_by(**mine)).one_or_none()
            open_, last = (row.open_day, row.last_day) if row else (None, None)
            if day not in (open_, last):
                raise SegmentError(
                    f"{day} can not be withdrawn: the open day is {open_ or 'none'}, and the last "
                    f"one {last or 'none'}"
                )
            places = connection.execute(select(PLACES).filter_by(**mine, day=day)).all()
            if (day == open_ and places) or not all(
                self._is_behind(connection, at.topic, at.transport, at.number, at.behind)
                for at in places
            ):
                raise SegmentError(
                    f"the end of {day} is on its way to the destinations; withdraw it once "
                    "`sequitur route segments` has nothing to publish"
                )
            end = {"open_day": None} if day == open_ else {"last_day": None}
            connection.execute(update(DAYS).filter_by(**mine).values(**end))
            connection.execute(update(REACHED).filter_by(**mine, day=day).values(day=""))
            connection.execute(delete(PLACES).filter_by(**mine, day=day))
            now = connection.execute(select(Now())).scalar_one()
            row_of = {**mine, "day": day, "at": now, "reason": reason}
            connection.execute(WITHDRAWN.insert().values(**row_of))

    def allow(self, day: str) -> None:
        """Take the ends of a day again, if it was withdrawn."""
        with self._engine.begin() as connection:
            connection.execute(delete(WITHDRAWN).filter_by(router=self._router, day=day))

    def forget(self, pair: Pair, day: str) -> None:
        """Strike out the places of the days before one that all have passed."""
        of = {"router": self._router, "transport": pair.transport}
        with self._engine.begin() as connection:
            connection.execute(delete(PLACES).filter_by(**of).where(PLACES.c.day < day))

    def _is_behind(
        self, connection: Connection, topic: str, transport: str, number: int, offset: int
    ) -> bool:
        of = {"router": self._router, "topic": topic, "transport": transport}
        asked = select(SEGMENTS).filter_by(**of).where(SEGMENTS.c.number <= number)
        return all(
            each.start_offset >= (offset if each.number == number else each.end_offset)
            for each in connection.execute(asked)
        )


def _shape(day: str) -> str:
    return re.sub("[A-Za-z]+", "a", re.sub("[0-9]", "0", day))
