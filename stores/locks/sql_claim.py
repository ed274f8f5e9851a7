"""Claims as the rows of a table in the read store's database."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable

from stores.db.advisory_locks import AdvisoryLock, lock_until_commit
from stores.db.clock import Now
from stores.db.dialect import begin_writing
from stores.db.engines import open_engine
from stores.db.urls import UrlError, said, without_password
from stores.locks.claim_store import HeldClaim, taken_over
from stores.sinks import StoreError

CLAIMS = Table(
    "_claims",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("shadow", Text, nullable=False),
)


class SqlClaimStore:
    """See `ClaimStore`; the time is the database's, where it has a clock of its own."""

    def __init__(self, url: str) -> None:
        self._shown = without_password(url)
        self._url = url
        try:
            self._engine = open_engine(url)
        except UrlError as error:
            raise StoreError(f"read store: {error}") from None

    def take(
        self, names: Sequence[str], owner: str, seconds: float, void: Collection[HeldClaim] = ()
    ) -> dict[str, str]:
        """See `ClaimStore.take`."""
        with self._transaction() as connection:
            lock_until_commit(connection, AdvisoryLock.CLAIMS)
            connection.execute(CreateTable(CLAIMS, if_not_exists=True))
            if any(each["name"] == "side" for each in inspect(connection).get_columns("_claims")):
                # As it was called before the first release.
                connection.execute(text("ALTER TABLE _claims RENAME COLUMN side TO shadow"))
            now = connection.execute(select(Now())).scalar_one()
            asked = CLAIMS.c.name.in_(names)
            found = connection.execute(select(CLAIMS).where(asked)).all()
            left = taken_over(names, {name: HeldClaim(*held) for name, *held in found}, now, void)
            connection.execute(CLAIMS.delete().where(asked))
            until = now + round(seconds * 1000)
            rows = [
                {"name": n, "owner": owner, "until": until, "shadow": left.get(n, "")}
                for n in names
            ]
            connection.execute(CLAIMS.insert(), rows)
        return left

    def renew(self, names: Sequence[str], owner: str, seconds: float) -> bool:
        """See `ClaimStore.renew`."""
        with self._transaction() as connection:
            until = connection.execute(select(Now())).scalar_one() + round(seconds * 1000)
            return _set(connection, names, owner, until=until) == len(names)

    def note(self, names: Sequence[str], owner: str, shadow: str) -> None:
        """See `ClaimStore.note`."""
        with self._transaction() as connection:
            _set(connection, names, owner, shadow=shadow)

    def release(self, names: Sequence[str], owner: str) -> None:
        """See `ClaimStore.release`."""
        with self._transaction() as connection:
            _set(connection, names, owner, until=0)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                begin_writing(connection)
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"read store {self._shown}: {said(error, self._url)}") from error


def _set(connection: Connection, names: Sequence[str], owner: str, **values: int | str) -> int:
    mine = CLAIMS.c.name.in_(names) & (CLAIMS.c.owner == owner)
    return connection.execute(CLAIMS.update().where(mine).values(**values)).rowcount
