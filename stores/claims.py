"""Claims: who works on something in a read store just now, so that two at once are refused.

A claim is a line in the store, which its owner renews while it works. One that is not renewed for a
while is that of a dead process, and can be taken over. The line also names the side that the work
is done in, so that what a dead process left is recognised.
"""

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable

from stores.sink import StoreError
from stores.urls import without_password

SECONDS = 30.0
"""For how long a claim holds that is not renewed."""

CLAIMS = Table(
    "_claims",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("side", Text, nullable=False),
)
_MAKING = 0x5E91A1  # any number that nobody else uses for a lock


def claims_of(url: str) -> str | None:
    """The database URL in which claims on a read store are kept, None if it has no database."""
    if url.startswith(("postgresql://", "postgres://")):
        return "postgresql+psycopg://" + url.partition("://")[2]
    return url if url.startswith("sqlite:///") else None


class Claim:
    """Claims names together. Methods raise StoreError.

    left: name → the side that an earlier owner left, where it did. seconds: until a claim that is
    not renewed is void.
    """

    def __init__(self, url: str, names: Iterable[str], seconds: float = SECONDS) -> None:
        self.names = sorted(names)
        self.owner = f"process {os.getpid()} on {socket.gethostname()}"
        self.left: dict[str, str] = {}
        self._seconds = seconds
        self._shown = without_password(url)
        self._engine = _engine(make_url(claims_of(url) or url))
        self._id = f"{self.owner}, since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        self._ended = threading.Event()
        self._lost = False
        self._thread = threading.Thread(target=self._renew_on, name="claim", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._take()
        except SQLAlchemyError as error:
            self._engine.dispose()
            raise StoreError(f"read store {self._shown}: {error}") from error
        except BaseException:
            self._engine.dispose()
            raise
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        with suppress(SQLAlchemyError):
            self._set(until=0)
        self._engine.dispose()

    def check(self) -> None:
        """Raise StoreError if somebody else has the claim by now."""
        if self._lost:
            raise StoreError(
                "this process was out of touch with the read store for so long that another one "
                "has taken its work over; look at that one"
            )

    def note(self, side: str) -> None:
        """The work is done in this side, '' for none any more."""
        self.check()
        try:
            self._set(side=side)
        except SQLAlchemyError as error:
            raise StoreError(f"read store {self._shown}: {error}") from error

    def _take(self) -> None:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                lock = text("SELECT pg_advisory_xact_lock(:number)")
                connection.execute(lock, {"number": _MAKING})
            connection.execute(CreateTable(CLAIMS, if_not_exists=True))
            now = _now(connection)
            held = CLAIMS.c.name.in_(self.names)
            for name, owner, until, side in connection.execute(select(CLAIMS).where(held)).all():
                if until > now:
                    raise StoreError(
                        f"{name} is being rebuilt by {owner}; wait for it, or stop it. If it died "
                        f"it can be taken over in {(until - now) / 1000:.0f} s"
                    )
                if side:
                    self.left[name] = side
            connection.execute(CLAIMS.delete().where(held))
            until = now + round(self._seconds * 1000)
            connection.execute(
                CLAIMS.insert(),
                [
                    {"name": n, "owner": self._id, "until": until, "side": self.left.get(n, "")}
                    for n in self.names
                ],
            )

    def _set(self, **values: int | str) -> int:
        mine = CLAIMS.c.name.in_(self.names) & (CLAIMS.c.owner == self._id)
        with self._engine.begin() as connection:
            return connection.execute(CLAIMS.update().where(mine).values(**values)).rowcount

    def _renew_on(self) -> None:
        while not self._ended.wait(self._seconds / 4):
            with suppress(SQLAlchemyError):  # it is tried again
                with self._engine.begin() as connection:
                    until = _now(connection) + round(self._seconds * 1000)
                if self._set(until=until) != len(self.names):
                    self._lost = True
                    return


def _engine(url: URL) -> Engine:
    engine = create_engine(url)
    if url.get_backend_name() == "sqlite":

        @event.listens_for(engine, "connect")
        def on_connect(connection: object, _: object) -> None:
            connection.isolation_level = None  # type: ignore[attr-defined]
            connection.execute("PRAGMA busy_timeout = 30000")  # type: ignore[attr-defined]

        @event.listens_for(engine, "begin")
        def on_begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _now(connection: Connection) -> int:
    """The time (ms), of the database where it has a clock of its own."""
    if connection.dialect.name == "postgresql":
        return int(
            connection.execute(
                text("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
            ).scalar_one()
        )
    return time.time_ns() // 1_000_000
