"""A lease: of several processes one at a time does a job, in turns that have numbers.

The line of a lease is in the database that the job is about, and that database's clock counts. Who
holds it renews it; who does not, within `seconds`, may lose it to another. The number of the turn
(the epoch) is what a holder is known by: one that was stopped, and goes on after another took over,
is refused wherever the epoch is checked.

That clock may be set back, and then a line of a dead holder would stand for as long. So who waits
goes by its own clock too: a line that nobody renews for as long as it was to hold is free.
"""

import time
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    MetaData,
    Table,
    Text,
    Update,
    exists,
    literal,
    select,
    update,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.clock import Now
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import create_missing

LEASES = Table(
    "sequitur_leases",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)
DATABASE = Table("sequitur_database", LEASES.metadata, Column("id", Text, primary_key=True))
"""What tells the database from all others; its one line is made with the first lease."""

PLAUSIBLE = 60.0
"""Seconds that any line may hold on; one that says more was written by another clock."""


class LeaseLost(RuntimeError):
    """Somebody else holds the lease now."""


class Lease:
    """The lease `name` in the database of `engine`, for `holder`. Raises SQLAlchemyError.

    seconds: for how long it holds without being renewed.
    """

    def __init__(self, engine: Engine, name: str, holder: str, seconds: float = 10.0) -> None:
        self.engine, self.name, self.holder, self.seconds = engine, name, holder, seconds
        self._seen: tuple[int, int] | None = None
        self._free = 0.0

    def make(self) -> None:
        """Make the tables, and the lease's line, held by nobody."""
        with self.engine.begin() as connection:
            begin_writing(connection)
            if DATABASE.name in create_missing(connection, LEASES.metadata, AdvisoryLock.LEASES):
                new = select(literal(uuid4().hex)).where(~exists(select(DATABASE)))
                connection.execute(DATABASE.insert().from_select(["id"], new))
            line = insert(connection, LEASES).values(name=self.name, epoch=0, holder="", until=0)
            connection.execute(line.on_conflict_do_nothing())

    def identity(self) -> str:
        """What tells this lease from those of its name in other databases; `make` comes before."""
        with self.engine.connect() as connection:
            found = connection.execute(select(DATABASE.c.id)).scalars().first()
        return f"{self.name}-{found}"

    def acquire(self) -> int | None:
        """Take the lease if nobody holds it; returns the epoch, None if somebody does."""
        line = select(LEASES.c.epoch, LEASES.c.until, Now()).where(LEASES.c.name == self.name)
        with self.engine.begin() as connection:
            begin_writing(connection)
            row = connection.execute(line).one_or_none()
            if row is None or not self._is_free(*row):
                return None
            taken = (
                self._mine(row[0])
                .where(LEASES.c.until == row[1])
                .values(epoch=LEASES.c.epoch + 1, holder=self.holder, until=self._until())
                .returning(LEASES.c.epoch)
            )
            found: int | None = connection.execute(taken).scalar_one_or_none()
        return found

    def _is_free(self, epoch: int, until: int, now: int) -> bool:
        """By the database's clock, or by this process's if that one was set back meanwhile."""
        here = time.monotonic()
        if (epoch, until) != self._seen:
            self._seen = epoch, until
            self._free = here + min((until - now) / 1000, max(PLAUSIBLE, 4 * self.seconds))
        return until < now or here > self._free

    def renew(self, epoch: int) -> None:
        """Hold it on. Raises LeaseLost if another has it, however short it was, or if it was let go
        of: a renewal that comes late does not take it again.
        """
        with self.engine.begin() as connection:
            begin_writing(connection)
            mine = self._mine(epoch).where(LEASES.c.until != 0).values(until=self._until())
            if connection.execute(mine).rowcount != 1:
                raise self._lost(connection, epoch)

    def check(self, connection: Connection, epoch: int) -> None:
        """Let the connection's transaction be one of this epoch: nobody takes over until it ends.

        Raises LeaseLost. In SQLite nobody else writes from here on, whether or not it has read.
        """
        begin_writing(connection)
        line = select(LEASES.c.epoch).where(LEASES.c.name == self.name)
        if connection.execute(line.with_for_update(read=True)).scalar_one_or_none() != epoch:
            raise self._lost(connection, epoch)

    def verify(self, epoch: int) -> None:
        """Ask whether it is held in this turn, without a lock or a write. Raises LeaseLost."""
        line = select(LEASES.c.epoch).where(LEASES.c.name == self.name)
        with self.engine.connect() as connection:
            if connection.execute(line).scalar_one_or_none() != epoch:
                raise self._lost(connection, epoch)

    def release(self, epoch: int) -> None:
        """Let go of it at once, if it is still held."""
        with self.engine.begin() as connection:
            begin_writing(connection)
            connection.execute(self._mine(epoch).values(until=0))

    def _mine(self, epoch: int) -> Update:
        return update(LEASES).where(LEASES.c.name == self.name, LEASES.c.epoch == epoch)

    def _until(self) -> ColumnElement[int]:
        return Now() + round(self.seconds * 1000)

    def _lost(self, connection: Connection, epoch: int) -> LeaseLost:
        line = select(LEASES.c.holder, LEASES.c.epoch).where(LEASES.c.name == self.name)
        holder, found = connection.execute(line).one_or_none() or ("nobody", 0)
        if found == epoch:
            return LeaseLost(f"lease {self.name}: {self.holder} let go of it in turn {epoch}")
        return LeaseLost(
            f"lease {self.name}: {self.holder} held it in turn {epoch}; in turn {found} it is "
            f"{holder}'s"
        )
