"""Capture in all the ways that a producer may have a transaction: a suite for each database."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    insert,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft, MessageLogError, MessageRefused
from tests.contracts.message_log.base import places, read_on

OWN = Table("own", MetaData(), Column("number", Integer, primary_key=True), Column("name", Text))
_INSERT = "INSERT INTO own (name) VALUES ('x')"


class OutboxContract:
    """The fixture `engine` is of a new, empty database, `async_engine` of the same one.

    raw: makes a plain connection.
    """

    db: Engine
    raw: Callable[[], Any]
    begin: str
    """What begins a transaction of a plain connection in autocommit."""

    @pytest.fixture(autouse=True)
    def _outbox(self, engine: Engine) -> None:
        self.db = engine
        self.outbox = Outbox(MessageLog())
        self.outbox.log.create(engine)
        OWN.metadata.create_all(engine)

    def agree(self, number: int) -> None:
        """The producer's own rows and the messages are that many."""
        with self.db.connect() as connection:
            own = connection.execute(select(func.count()).select_from(OWN)).scalar()
            found = read_on(self.outbox.log, connection)
        assert (own, places(found)) == (number, [("a", n) for n in range(1, number + 1)])

    def capture(self, connection: Any) -> int:
        return self.outbox.capture(connection, "orders", "a", "Placed", {"total": 5})

    def test_a_connection_of_sqlalchemy(self) -> None:
        with self.db.begin() as connection:
            connection.execute(insert(OWN))
            assert self.capture(connection) == 1
        with self.db.connect() as connection:
            assert self.capture(connection) == 2
            connection.execute(insert(OWN))
            connection.rollback()
            assert self.capture(connection) == 2
            connection.execute(insert(OWN))
            connection.commit()
        self.agree(2)

    def test_a_session_of_the_orm(self) -> None:
        with Session(self.db) as session:
            session.execute(insert(OWN))
            assert self.capture(session) == 1
            session.commit()
            session.execute(insert(OWN))
            assert self.capture(session) == 2
            session.rollback()
        scoped = scoped_session(sessionmaker(self.db))
        assert self.capture(scoped) == 2
        scoped.execute(insert(OWN))
        scoped.commit()
        scoped.remove()
        self.agree(2)

    async def test_an_asynchronous_connection(self, async_engine: AsyncEngine) -> None:
        capture = self.outbox.acapture
        async with async_engine.begin() as connection:
            await connection.execute(insert(OWN))
            assert await capture(connection, "orders", "a", "Placed", b"") == 1
        async with async_engine.connect() as connection:
            await connection.execute(insert(OWN))
            assert await capture(connection, "orders", "a", "Placed", b"") == 2
            await connection.rollback()
        async with AsyncSession(async_engine) as session:
            await session.execute(insert(OWN))
            drafts = [Draft("orders", "a", None, b"")]
            assert await self.outbox.acapture_many(session, drafts) == [2]
            await session.commit()
        await async_engine.dispose()
        self.agree(2)

    def test_a_plain_connection(self) -> None:
        connection = self.raw()
        connection.execute(_INSERT)
        assert self.capture(connection) == 1
        connection.commit()
        connection.execute(_INSERT)
        assert self.capture(connection) == 2
        connection.rollback()
        drafts = [Draft("orders", "a", None, b"\x00"), Draft("orders", "a", "k", b"", {"h": "1"})]
        assert self.outbox.capture_many(connection, drafts) == [2, 3]
        connection.execute(_INSERT)
        connection.execute(_INSERT)
        connection.commit()
        connection.close()
        self.agree(3)

    def test_a_connection_in_autocommit_is_refused(self) -> None:
        engine = self.db.execution_options(isolation_level="AUTOCOMMIT")
        refused = pytest.raises(MessageLogError, match=r"autocommit.*begin a transaction first")
        with engine.connect() as connection, refused:
            self.capture(connection)
        raw = self.raw_autocommit()
        with pytest.raises(MessageLogError, match="autocommit"):
            self.capture(raw)
        raw.execute(self.begin)
        raw.execute(_INSERT)
        assert self.capture(raw) == 1
        raw.execute("COMMIT")
        raw.close()
        self.agree(1)

    def raw_autocommit(self) -> Any:
        raise NotImplementedError

    def test_a_log_that_is_not_there_is_named(self) -> None:
        outbox = Outbox(MessageLog("none"))
        for connection in (self.db.connect(), self.raw()):
            with pytest.raises(MessageLogError, match=r"'none' is not in this database.*create"):
                outbox.capture(connection, "orders", "a", None, b"")
            connection.rollback()
            connection.close()

    def test_other_errors_are_the_database_s_own(self) -> None:
        with self.db.begin() as connection:
            connection.execute(text("DROP TABLE sequitur_messages"))
            connection.execute(text("CREATE TABLE sequitur_messages (id INTEGER)"))
        with self.db.connect() as connection:
            with pytest.raises(Exception, match="column"):
                self.capture(connection)
            connection.rollback()

    def test_what_cannot_be_a_message_leaves_the_transaction_as_it_was(self) -> None:
        with self.db.begin() as connection:
            connection.execute(insert(OWN))
            with pytest.raises(MessageRefused):
                self.outbox.capture(connection, "orders", "", None, b"")
            assert self.outbox.capture_many(connection, []) == []
            assert self.capture(connection) == 1
        self.agree(1)

    def test_what_is_no_connection_is_refused(self, async_engine: AsyncEngine) -> None:
        with pytest.raises(TypeError, match=r"Engine: give a Connection"):
            self.capture(self.db)
        with pytest.raises(TypeError, match="await outbox"):
            self.capture(AsyncSession(async_engine))
