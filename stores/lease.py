"""A lease: of several processes one at a time does a job, in turns that have numbers.

The line of a lease is in the database that the job is about, and that database's clock counts. Who
holds it renews it; who does not, within `seconds`, may lose it to another. The number of the turn
(the epoch) is what a holder is known by: one that was stopped, and goes on after another took over,
is refused wherever the epoch is checked.
"""

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
    select,
    text,
    update,
)
from sqlalchemy.schema import CreateTable

from stores.clock import Now
from stores.cursor_tables import begin_writing, insert

LEASES = Table(
    "sequitur_leases",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)
_MAKING = 0x5E901A  # any number that nobody else uses for a lock


class LeaseLost(RuntimeError):
    """Somebody else holds the lease now."""


class Lease:
    """The lease `name` in the database of `engine`, for `holder`. Raises SQLAlchemyError.

    seconds: for how long it holds without being renewed.
    """

    def __init__(self, engine: Engine, name: str, holder: str, seconds: float = 10.0) -> None:
        self.engine, self.name, self.holder, self.seconds = engine, name, holder, seconds

    def make(self) -> None:
        """Make the table, and the lease's line, held by nobody."""
        with self.engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                lock = text("SELECT pg_advisory_xact_lock(:number)")
                connection.execute(lock, {"number": _MAKING})
            connection.execute(CreateTable(LEASES, if_not_exists=True))
            line = insert(connection, LEASES).values(name=self.name, epoch=0, holder="", until=0)
            connection.execute(line.on_conflict_do_nothing())

    def acquire(self) -> int | None:
        """Take the lease if nobody holds it; returns the epoch, None if somebody does."""
        taken = (
            update(LEASES)
            .where(LEASES.c.name == self.name, LEASES.c.until < Now())
            .values(epoch=LEASES.c.epoch + 1, holder=self.holder, until=self._until())
            .returning(LEASES.c.epoch)
        )
        with self.engine.begin() as connection:
            begin_writing(connection)
            found: int | None = connection.execute(taken).scalar_one_or_none()
        return found

    def renew(self, epoch: int) -> None:
        """Hold it on. Raises LeaseLost if another has it, however short it was."""
        with self.engine.begin() as connection:
            begin_writing(connection)
            mine = self._mine(epoch).values(until=self._until())
            if connection.execute(mine).rowcount != 1:
                raise self._lost(connection, epoch)

    def check(self, connection: Connection, epoch: int) -> None:
        """Let the connection's transaction be one of this epoch: nobody takes over until it ends.

        Raises LeaseLost.
        """
        line = select(LEASES.c.epoch).where(LEASES.c.name == self.name)
        if connection.execute(line.with_for_update(read=True)).scalar_one_or_none() != epoch:
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
        return LeaseLost(
            f"lease {self.name}: {self.holder} held it in turn {epoch}; in turn {found} it is "
            f"{holder}'s"
        )
