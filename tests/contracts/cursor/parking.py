"""Parking: what fails too often is set aside in order with the rest of its stream."""

import pytest
from sqlalchemy import Connection, Engine, update

from stores.inbox.commands import counts, parked, redrive, unpark
from stores.inbox.inbox import Cursor, CursorError, Message
from stores.inbox.tables import STREAMS
from tests.contracts.cursor.parts import consume, done, make_table, message


def fail(cursor: Cursor, times: int) -> None:
    with cursor.engine.connect() as connection:
        for _ in range(times):
            with pytest.raises(ValueError, match="amount"):
                _fail(cursor, connection, "amount is missing")


def _fail(cursor: Cursor, connection: Connection, reason: str) -> None:
    with cursor.delivery(connection) as found:
        assert found is not None
        raise ValueError(reason)


def set_back(cursor: Cursor, seconds: int) -> None:
    """As if the database's clock had been set back after what is due was written."""
    with cursor.engine.begin() as connection:
        connection.execute(update(STREAMS).values(due=STREAMS.c.due + seconds * 1000))


class Parking:
    @pytest.mark.parametrize("seconds", [5, 3600, 10**8])
    def test_a_clock_that_was_set_back_does_not_stall_deliveries(
        self, engine: Engine, seconds: int
    ) -> None:
        make_table(engine)
        cursor = Cursor(engine)
        cursor.receive([message(1), message(2), message(1, "b")])
        set_back(cursor, seconds)
        assert sorted(consume(cursor)) == ["a1", "a2", "b1"]

    def test_a_backoff_that_was_to_end_before_the_clock_was_set_back_ends(
        self, engine: Engine
    ) -> None:
        make_table(engine)
        cursor = Cursor(engine, attempts=3, backoff=30)
        cursor.receive([message(1)])
        fail(cursor, 1)
        assert consume(Cursor(engine, attempts=3, backoff=30)) == [], "it has to wait"
        set_back(cursor, 3600)
        assert consume(Cursor(engine, attempts=3, backoff=30)) == ["a1"]

    def test_attempts_are_counted_although_they_are_rolled_back(self, engine: Engine) -> None:
        make_table(engine)
        Cursor(engine).receive([message(1), message(2)])
        fail(Cursor(engine, attempts=3, backoff=0), 1)
        # By whichever process.
        fail(Cursor(engine, attempts=3, backoff=0), 2)
        cursor = Cursor(engine, attempts=3, backoff=0)
        assert consume(cursor) == []
        (found,) = parked(cursor)
        assert found.attempts == 3
        assert found.reason == "ValueError: amount is missing"
        assert (found.topic, found.stream, found.sequence, found.messages) == ("orders", "a", 1, 2)

    def test_a_success_begins_the_count_anew(self, engine: Engine) -> None:
        make_table(engine)
        cursor = Cursor(engine, attempts=2, backoff=0)
        cursor.receive([message(1), message(2)])
        fail(cursor, 1)
        assert consume(cursor, 1) == ["a1"]
        fail(cursor, 1)
        assert parked(cursor) == []
        assert consume(cursor) == ["a2"]

    def test_other_streams_go_on_and_the_tail_stays_in_order(self, engine: Engine) -> None:
        make_table(engine)
        cursor = Cursor(engine, attempts=1)
        cursor.receive([message(1), message(2)])
        fail(cursor, 1)
        cursor.receive([message(4), message(3), message(1, "b")])
        assert consume(cursor) == ["b1"]
        redrive(cursor, "orders", "a")
        assert consume(cursor) == ["a1", "a2", "a3", "a4"]
        assert done(engine) == ["a1", "a2", "a3", "a4", "b1"]

    def test_unparked_it_goes_on_without_the_failed_one(self, engine: Engine) -> None:
        make_table(engine)
        cursor = Cursor(engine, attempts=1)
        cursor.receive([message(1), message(2)])
        fail(cursor, 1)
        assert unpark(cursor, "orders", "a") == 1
        assert consume(cursor) == ["a2"]
        assert counts(cursor).dead == 1
        assert cursor.receive([message(1)]).duplicates == 1

    def test_only_what_is_parked_is_released(self, engine: Engine) -> None:
        cursor = Cursor(engine)
        cursor.receive([message(1)])
        for command in (redrive, unpark):
            with pytest.raises(CursorError, match="is not parked"):
                command(cursor, "orders", "a")
            with pytest.raises(CursorError, match="there is no stream"):
                command(cursor, "orders", "zebra")

    def test_a_reason_that_no_database_takes_is_no_obstacle(self, engine: Engine) -> None:
        cursor = Cursor(engine, attempts=1)
        cursor.receive([Message("orders", "a", 1, None, b"")])
        with engine.connect() as connection, pytest.raises(ValueError, match="NUL"):
            _fail(cursor, connection, "a NUL \0 and half a character \ud800")
        (found,) = parked(cursor)
        assert found.reason.startswith("ValueError: a NUL")
