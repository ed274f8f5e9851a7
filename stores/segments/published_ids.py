"""The ids of what one process has published and not yet acknowledged; or may be given again."""

from collections.abc import Collection, Iterable
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


class KeptId(NamedTuple):
    """An id, for how many seconds it is kept (None: ever), and whose positions pass it."""

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

    def forget(self, owner: SegmentOwner, topic: str) -> None:
        """Forget ids of a topic which cannot come again, since SQL's positions are behind them."""
        with self._engine.begin() as connection:
            owner.check(connection)
            connection.execute(delete(IDS).filter_by(router=self._router, passing=topic))
