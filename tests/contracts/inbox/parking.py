"""Parking: what fails too often is set aside in order with the rest of its stream."""

import pytest
from sqlalchemy import Connection, Engine, update

from stores.inbox.commands import commands, counts, parked, redrive, unpark
from stores.inbox.inbox import Inbox, InboxError
from stores.inbox.tables import STREAMS
from stores.message import Message
from tests.contracts.inbox.parts import consume, done, make_table, message


def fail(inbox: Inbox, times: int) -> None:
    with inbox.engine.connect() as connection:
        for _ in range(times):
            with pytest.raises(ValueError, match="amount"):
                _fail(inbox, connection, "amount is missing")


def _fail(inbox: Inbox, connection: Connection, reason: str) -> None:
    with inbox.delivery(connection) as found:
        assert found is not None
        raise ValueError(reason)


def set_back(inbox: Inbox, seconds: int) -> None:
    """As if the database's clock had been set back after what is due was written."""
    with inbox.engine.begin() as connection:
        connection.execute(update(STREAMS).values(due=STREAMS.c.due + seconds * 1000))


class Parking:
    @pytest.mark.parametrize("seconds", [5, 3600, 10**8])
    def test_a_clock_that_was_set_back_does_not_stall_deliveries(
        self, engine: Engine, seconds: int
    ) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(1), message(2), message(1, "b")])
        set_back(inbox, seconds)
        assert sorted(consume(inbox)) == ["a1", "a2", "b1"]

    def test_a_backoff_that_was_to_end_before_the_clock_was_set_back_ends(
        self, engine: Engine
    ) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=3, backoff=30)
        inbox.receive([message(1)])
        fail(inbox, 1)
        assert consume(Inbox(engine, attempts=3, backoff=30)) == [], "it has to wait"
        set_back(inbox, 3600)
        assert consume(Inbox(engine, attempts=3, backoff=30)) == ["a1"]

    def test_attempts_are_counted_although_they_are_rolled_back(self, engine: Engine) -> None:
        make_table(engine)
        Inbox(engine).receive([message(1), message(2)])
        fail(Inbox(engine, attempts=3, backoff=0), 1)
        # By whichever process.
        fail(Inbox(engine, attempts=3, backoff=0), 2)
        inbox = Inbox(engine, attempts=3, backoff=0)
        assert consume(inbox) == []
        (found,) = parked(inbox)
        assert found.attempts == 3
        assert found.reason == "ValueError: amount is missing"
        assert (found.topic, found.stream, found.sequence, found.messages) == ("orders", "a", 1, 2)

    def test_a_success_begins_the_count_anew(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=2, backoff=0)
        inbox.receive([message(1), message(2)])
        fail(inbox, 1)
        assert consume(inbox, 1) == ["a1"]
        fail(inbox, 1)
        assert parked(inbox) == []
        assert consume(inbox) == ["a2"]

    def test_other_streams_go_on_and_the_tail_stays_in_order(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1)
        inbox.receive([message(1), message(2)])
        fail(inbox, 1)
        inbox.receive([message(4), message(3), message(1, "b")])
        assert consume(inbox) == ["b1"]
        redrive(inbox, "orders", "a", who="ann", why="it is \0 mended \ud800")
        (told,) = commands(inbox)
        assert (told.command, told.stream, told.sequence, told.who) == ("redrive", "a", 1, "ann")
        assert told.why.startswith("it is")
        assert consume(inbox) == ["a1", "a2", "a3", "a4"]
        assert done(engine) == ["a1", "a2", "a3", "a4", "b1"]

    def test_unparked_it_goes_on_without_the_failed_one(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1)
        inbox.receive([message(1), message(2)])
        fail(inbox, 1)
        assert unpark(inbox, "orders", "a") == 1
        assert consume(inbox) == ["a2"]
        assert counts(inbox).dead == 1
        assert inbox.receive([message(1)]).duplicates == 1

    def test_the_failed_message_is_the_first_by_epoch(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, order="monotonic", attempts=1)
        inbox.receive([message(5), message(1, epoch=1), message(7, epoch=1)])
        fail(inbox, 1)
        assert [(each.sequence, each.messages) for each in parked(inbox)] == [(5, 3)]
        redrive(inbox, "orders", "a")
        fail(inbox, 1)
        assert unpark(inbox, "orders", "a") == 5
        assert [each.sequence for each in commands(inbox)] == [5, 5]
        fail(inbox, 1)
        assert [(each.sequence, each.messages) for each in parked(inbox)] == [(1, 2)]

    def test_only_what_is_parked_is_released(self, engine: Engine) -> None:
        inbox = Inbox(engine)
        inbox.receive([message(1)])
        for command in (redrive, unpark):
            with pytest.raises(InboxError, match="is not parked"):
                command(inbox, "orders", "a")
            with pytest.raises(InboxError, match="there is no stream"):
                command(inbox, "orders", "zebra")

    def test_a_reason_that_no_database_takes_is_no_obstacle(self, engine: Engine) -> None:
        inbox = Inbox(engine, attempts=1)
        inbox.receive([Message("orders", "a", 1, None, b"")])
        with engine.connect() as connection, pytest.raises(ValueError, match="NUL"):
            _fail(inbox, connection, "a NUL \0 and half a character \ud800")
        (found,) = parked(inbox)
        assert found.reason.startswith("ValueError: a NUL")
