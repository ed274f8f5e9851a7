"""The replay log: what was published, in the order in which it was captured, and its queries."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import NamedTuple, Self

from sqlalchemy import Connection, Engine, delete, func, select
from sqlalchemy.exc import OperationalError, ProgrammingError

from stores.db.advisory_locks import AdvisoryLock
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import add_missing_column, create_missing
from stores.replay.conditions import matching, may_have
from stores.replay.errors import Busy, ReplayError
from stores.replay.message import CapturedMessage, FieldKind
from stores.replay.query import Query
from stores.replay.query_limit import QueryLimit
from stores.replay.retention import Hole, holes, messages_gone, note_lost, retain
from stores.replay.tables import (
    END,
    METADATA,
    PERIODS,
    POSITIONS,
    SOURCES,
    Period,
    message_of,
    periods,
)
from stores.replay.tallies import tallied
from stores.replay.writing import write

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_CHUNK = 32
_BYTES = 8_000_000
MOST = 10_000
"""Messages of a page."""


class Page(NamedTuple):
    """Messages in the order of the log, and the id to go on after; None: there are no more."""

    messages: list[CapturedMessage]
    after: int | None


class ReplayLog:
    """Published messages in a database.

    Args:
        engine: of SQLite or PostgreSQL, from `stores.db.engines`.
        fields: declared metadata: name → kind. Others than before hold for what comes from now on.

    Raises:
        ReplayError: a field's name is none.
    """

    def __init__(self, engine: Engine, fields: Mapping[str, FieldKind] | None = None) -> None:
        self.engine, self.fields = engine, dict(fields or {})
        self._postgres = engine.dialect.name == "postgresql"
        self._seconds: float | None = None
        for name in self.fields:
            if not _NAME.fullmatch(name):
                raise ReplayError(
                    f"field {name!r}: a name has small letters, digits and _, at most 40"
                )

    def limited(self, seconds: float) -> Self:
        """This log, whose counts and pages end with a ReplayError if they take longer.

        Args:
            seconds: each of them may take.
        """
        found = copy(self)
        found._seconds = seconds
        return found

    def create(self) -> None:
        """Make the tables that are missing."""
        with self.engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, METADATA, AdvisoryLock.REPLAY)
            add_missing_column(connection, PERIODS.c.size, "0", AdvisoryLock.REPLAY)
            line = insert(connection, END).values(one=1, id=0)
            connection.execute(line.on_conflict_do_nothing())

    def append(
        self,
        topic: str,
        messages: Sequence[CapturedMessage],
        positions: Mapping[int, int],
        check: Callable[[Connection], None] | None = None,
        lost: Mapping[int, tuple[int, int]] | None = None,
    ) -> int:
        """Keep messages, and how far their topic is captured, in one transaction.

        Args:
            topic: whose positions these are.
            messages: in order per partition.
            positions: partition → the offset behind what is captured.
            check: raises if somebody else captures the topic now.
            lost: partition → the first offset that went before it was captured, and the one
                behind the last; a hole from now on.

        Returns:
            The last id.

        Raises:
            SQLAlchemyError: nothing is kept.
        """
        with self.engine.begin() as connection:
            if check is not None:
                check(connection)
            last = self.note(connection, messages)
            if lost:
                note_lost(connection, topic, lost, last)
            for partition, position in positions.items():
                of = {"topic": topic, "partition": partition}
                line = insert(connection, POSITIONS).values(**of, position=position)
                connection.execute(
                    line.on_conflict_do_update(index_elements=list(of), set_={"position": position})
                )
        return last

    def note(self, connection: Connection, messages: Sequence[CapturedMessage]) -> int:
        """Keep messages in somebody's transaction; the next writer waits for its end.

        Args:
            connection: of this database.
            messages: in order per partition.

        Returns:
            The last id.
        """
        return write(connection, self.fields, messages)

    def end(self) -> int:
        """The last id; what is up to it does not grow any more."""
        with self.engine.connect() as connection:
            last: int = connection.execute(select(END.c.id)).scalar_one()
        return last

    def positions(self, topic: str) -> dict[int, int]:
        """Partition → the offset behind what is captured of a topic."""
        with self.engine.connect() as connection:
            return positions_of(connection, topic)

    def topics(self) -> list[str]:
        """The topics that are captured."""
        asked = select(POSITIONS.c.topic).distinct().order_by(POSITIONS.c.topic)
        with self.engine.connect() as connection:
            return list(connection.execute(asked).scalars())

    def source(self, topic: str) -> str | None:
        """By what a topic is told from others of its name; None: nothing is known."""
        asked = select(SOURCES.c.known).filter_by(topic=topic)
        with self.engine.connect() as connection:
            return connection.execute(asked).scalar_one_or_none()

    def forget(self, connection: Connection, topic: str) -> None:
        """Capture a topic from its first message on: it was deleted, and made again.

        Args:
            connection: of a transaction that owns the topic's capture.
            topic: whose positions are forgotten; its messages stay.
        """
        for table in (POSITIONS, SOURCES):
            connection.execute(delete(table).filter_by(topic=topic))

    def keep_source(self, topic: str, known: str) -> None:
        """Keep by what a topic is told from others of its name."""
        with self.engine.begin() as connection:
            line = insert(connection, SOURCES).values(topic=topic, known=known)
            connection.execute(
                line.on_conflict_do_update(index_elements=["topic"], set_={"known": known})
            )

    def declared(self) -> dict[str, FieldKind]:
        """The fields of all periods, each in its last kind."""
        with self.engine.connect() as connection:
            return self._declared(periods(connection))

    def count(self, query: Query) -> int:
        """Count what a query finds.

        Raises:
            ReplayError: it asks for a field that is not there, or takes too long.
        """
        total = 0
        with self._reading(query) as (connection, found, fitted, limit):
            known = tallied(connection, found, fitted, limit)
            for period, behind in found:
                if period.number not in known:
                    limit.begin_statement()
                    condition = matching(period, fitted, behind, self._postgres)
                    asked = select(func.count()).select_from(period.table).where(condition)
                    total += connection.execute(asked).scalar_one()
        total += sum(known.values())
        return total

    def page(self, query: Query, limit: int = 100, *, content: bool = True) -> Page:
        """Read messages in the order of the log; `query.after` goes on behind a page.

        Args:
            query: what is asked for.
            limit: messages at most; a page may have less, as its bytes are limited too.
            content: whether to read the content.

        Raises:
            ReplayError: it asks for a field that is not there, or takes too long.
        """
        limit, messages, size = min(max(limit, 1), MOST), list[CapturedMessage](), 0
        with self._reading(query) as (connection, found, fitted, time_limit):
            for period, behind in found:
                time_limit.begin_statement()
                of = period.table.c
                asked = select(*(each for each in of if content or each.name != "value"))
                condition = matching(period, fitted, behind, self._postgres)
                asked = asked.where(condition).order_by(of.id)
                # Large messages are not in memory all at once.
                with connection.execute(
                    asked.limit(limit - len(messages)), execution_options={"yield_per": _CHUNK}
                ) as rows:
                    for part in rows.mappings().partitions():
                        for row in part:
                            messages.append(message_of(row, period))
                            size += _size(messages[-1])
                            if len(messages) == limit or size > _BYTES:
                                return Page(messages, messages[-1].id)
                        # To PostgreSQL each part is a statement, with a time of its own.
                        time_limit.begin_statement()
        return Page(messages, None)

    def message(self, id: int) -> CapturedMessage | None:
        """One message, None if it is not there, or no longer."""
        found = self.page(Query(after=id - 1, through=id), 1).messages
        return found[0] if found else None

    def retain(
        self, seconds: float, *, dry_run: bool = False, at_most: int | None = None
    ) -> list[Hole]:
        """Drop the periods that ended longer ago than this.

        Args:
            seconds: to keep what was captured; periods go whole, so up to a day more.
            dry_run: only say what would go.
            at_most: what it is now at most, in milliseconds since 1970; None: the database's
                clock alone counts.

        Returns:
            What is gone.

        Raises:
            ReplayError: somebody reads what is to go, and does not end.
        """
        return retain(self.engine, seconds, dry_run, at_most)

    def holes(self, query: Query) -> list[Hole]:
        """What retention took of the topics and positions that a query names.

        Args:
            query: its topics, partitions, offsets and `after` count.
        """
        with self.engine.connect() as connection:
            return holes(connection, query)

    def messages_gone(self, query: Query) -> int:
        """How many messages are gone of the topics and partitions that a query names.

        Args:
            query: its topics, partitions and `after` count.
        """
        with self.engine.connect() as connection:
            return messages_gone(connection, query)

    def _declared(self, there: Sequence[Period]) -> dict[str, FieldKind]:
        kinds = dict[str, FieldKind]()
        for period in there:
            kinds |= period.fields
        return kinds | self.fields

    @contextmanager
    def _reading(
        self, query: Query
    ) -> Iterator[tuple[Connection, list[tuple[Period, int]], Query, QueryLimit]]:
        """The periods to look into, and the ids behind them, as they are at one moment."""
        with self.engine.connect() as connection:
            if self._postgres:
                connection.execution_options(isolation_level="REPEATABLE READ")
            else:
                connection.exec_driver_sql("BEGIN")
            last: int = connection.execute(select(END.c.id)).scalar_one()
            there = periods(connection)
            kinds = self._declared(there)
            fitted = replace(query, where=tuple(each.fitted(kinds) for each in query.where))
            ends = [*(each.first_id for each in there[1:]), last + 1]
            found = [
                (period, behind)
                for period, behind in zip(there, ends, strict=False)
                if behind > query.after + 1
                and (query.through is None or period.first_id <= query.through)
                and may_have(period, query)
            ]
            limit = QueryLimit(connection, self._seconds)
            try:
                with limit.watching():
                    yield connection, found, fitted, limit
            except (OperationalError, ProgrammingError) as error:
                if not any(str(each.table.name) in str(error.orig) for each, _ in found):
                    raise
                raise Busy("retention took a part while it was read; try again") from error


def _size(message: CapturedMessage) -> int:
    """Bytes that a message takes, more or less."""
    headers = sum(len(name) + len(value) for name, value in message.headers)
    return len(message.value or b"") + len(message.key or b"") + headers


def positions_of(connection: Connection, topic: str) -> dict[int, int]:
    """See `ReplayLog.positions`, in somebody's transaction."""
    asked = select(POSITIONS.c.partition, POSITIONS.c.position).filter_by(topic=topic)
    return {row.partition: row.position for row in connection.execute(asked)}
