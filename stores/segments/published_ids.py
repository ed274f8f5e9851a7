"""The ids of what is published, or consumed, and may be delivered again."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Connection, Engine, MetaData, Table, Text, delete, select

from stores.db.advisory_locks import AdvisoryLock
from stores.db.clock import Now
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import create_missing
from stores.segments.ledger import SegmentOwner

IDS = Table(
    "sequitur_published_ids",
    MetaData(),
    Column("router", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("until", BigInteger, index=True),
    Column("passing", Text, index=True),
)
_MANY = 500
_POSITION = re.compile(r".*/(\d+)/(\d+)/\d+", re.DOTALL)
"""An id of what has a position: partition, offset, number of the output."""


class KeptId(NamedTuple):
    """An id, for how many seconds it is kept (None: ever), and the topic that passes it.

    What a topic has passed does not come again: its id is forgotten before its time.
    """

    id: str
    seconds: float | None
    passing: str | None


class PublishedIds:
    """Ids in SQL, for ever or for a window.

    Args:
        engine: of SQLite or PostgreSQL, from `stores.db.engines`.
        router: whose.
    """

    def __init__(self, engine: Engine, router: str = "router") -> None:
        self._engine, self._router = engine, router

    def create(self) -> None:
        """Make the table if it is not there."""
        with self._engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, IDS.metadata, AdvisoryLock.SEGMENTS)

    def among(self, ids: Iterable[str]) -> set[str]:
        """Return those of the ids that are published."""
        listed, found = list(ids), set[str]()
        with self._engine.connect() as connection:
            for at in range(0, len(listed), _MANY):
                asked = select(IDS.c.id).filter_by(router=self._router)
                some = asked.where(IDS.c.id.in_(listed[at : at + _MANY]))
                found.update(connection.execute(some).scalars())
        return found

    def add(self, owner: SegmentOwner, ids: Collection[KeptId]) -> None:
        """Store ids.

        Raises:
            StaleOwner: another generation owns the topic.
        """
        with self._engine.begin() as connection:
            owner.check(connection)
            self.note(connection, ids)

    def note(self, connection: Connection, ids: Collection[KeptId]) -> None:
        """Store ids in a transaction that is the owner's already."""
        now = connection.execute(select(Now())).scalar_one()
        connection.execute(delete(IDS).filter_by(router=self._router).where(IDS.c.until < now))
        rows = [
            {
                "router": self._router,
                "id": each.id,
                "until": None if each.seconds is None else now + round(each.seconds * 1000),
                "passing": each.passing,
            }
            for each in ids
        ]
        if rows:
            connection.execute(insert(connection, IDS).on_conflict_do_nothing(), rows)

    def passed(self, topic: str, positions: Mapping[int, int]) -> list[str]:
        """Return those of a topic's ids that have a position which is consumed.

        Args:
            topic: whose.
            positions: partition → where SQL goes on; ids of others are not passed.
        """
        asked = select(IDS.c.id).filter_by(router=self._router, passing=topic)
        with self._engine.connect() as connection:
            found = [_POSITION.fullmatch(each) for each in connection.execute(asked).scalars()]
        return [each[0] for each in found if each and int(each[2]) < positions.get(int(each[1]), 0)]

    def forget(self, owner: SegmentOwner, ids: Sequence[str]) -> None:
        """Forget ids of messages which cannot come again."""
        with self._engine.begin() as connection:
            owner.check(connection)
            for at in range(0, len(ids), _MANY):
                mine = delete(IDS).filter_by(router=self._router)
                connection.execute(mine.where(IDS.c.id.in_(ids[at : at + _MANY])))
