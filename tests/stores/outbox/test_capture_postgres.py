"""Capture in PostgreSQL keeps the contract, and does not make transactions wait for each other."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, insert, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from stores.outbox.message import Draft
from tests.contracts.outbox import OWN, OutboxContract

pytestmark = pytest.mark.integration


class TestPostgres(OutboxContract):
    begin = "BEGIN"

    @pytest.fixture
    def engine(self, database: str) -> Iterator[Engine]:
        self.url = database
        engine = create_engine(make_url(database).set(drivername="postgresql+psycopg"))
        yield engine
        engine.dispose()

    @pytest.fixture
    def async_engine(self) -> AsyncEngine:
        return create_async_engine(make_url(self.url).set(drivername="postgresql+psycopg"))

    def raw(self) -> Any:
        return psycopg.connect(self.url)

    def raw_autocommit(self) -> Any:
        return psycopg.connect(self.url, autocommit=True)

    def test_a_plain_connection_with_rows_of_its_own_kind(self) -> None:
        with psycopg.connect(self.url, row_factory=psycopg.rows.dict_row) as connection:
            connection.execute("INSERT INTO own (name) VALUES ('x')")
            assert self.capture(connection) == 1
        self.agree(1)

    def test_captures_that_go_by_many_cannot_lock_each_other_out(self) -> None:
        """Each captures for two streams, half of them in the other order."""

        def order(number: int) -> None:
            streams = ["a", "b"] if number % 2 else ["b", "a"]
            with self.db.begin() as connection:
                connection.execute(text("SET LOCAL deadlock_timeout = '10ms'"))
                self.outbox.capture_many(
                    connection, [Draft("orders", stream, None, b"") for stream in streams]
                )

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(order, range(200)))
        with self.db.connect() as connection:
            assert self.outbox.log.last(connection, "orders", "a") == 200

    def test_one_by_one_they_can_and_one_of_them_is_refused(self) -> None:
        """What the advice is about; the transaction that was refused leaves no gap."""
        with self.db.connect() as one, self.db.connect() as other:
            self.outbox.capture(one, "orders", "a", None, b"")
            self.outbox.capture(other, "orders", "b", None, b"")
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(self.outbox.capture, one, "orders", "b", None, b"")
                both = [self._outcome(other, "a"), waiting.exception(60)]
            refused = [str(error) for error in both if error is not None]
            assert len(refused) == 1
            assert "deadlock detected" in refused[0]
            for connection, error in zip((other, one), both, strict=True):
                if error is None:
                    connection.commit()
                else:
                    connection.rollback()
        with self.db.connect() as connection:
            assert self.outbox.log.last(connection, "orders", "a") == 1
            assert self.outbox.log.last(connection, "orders", "b") == 1

    def _outcome(self, connection: Any, stream: str) -> Exception | None:
        try:
            self.outbox.capture(connection, "orders", stream, None, b"")
        except DBAPIError as error:
            connection.rollback()
            return error
        return None

    def test_a_serializable_transaction_that_lost_is_refused_and_may_try_again(self) -> None:
        engine = self.db.execution_options(isolation_level="SERIALIZABLE")
        with engine.connect() as one, engine.connect() as other:
            one.execute(text("SELECT 1"))
            other.execute(insert(OWN))
            self.capture(other)
            other.commit()
            with pytest.raises(DBAPIError, match="could not serialize"):
                self.capture(one)
            one.rollback()
            one.execute(insert(OWN))
            assert self.capture(one) == 2
            one.commit()
        self.agree(2)
