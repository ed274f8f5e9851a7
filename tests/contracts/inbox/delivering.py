"""Delivering: a message and what it causes commit together, or neither does."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import (
    IntegrityError,
    InvalidRequestError,
    NoResultFound,
    OperationalError,
    ResourceClosedError,
)

from stores.inbox.commands import counts, parked
from stores.inbox.consumer import run_consumer
from stores.inbox.delivery_queue import Delivery, DeliveryQueue
from stores.inbox.inbox import Inbox, InboxError
from stores.message import Message
from tests.contracts.inbox.parts import (
    consume,
    done,
    make_table,
    message,
    named,
    refuse,
    write,
)


class Crash(BaseException):
    """Ends a delivery as the end of the process would: nothing more is done."""


class Delivering:
    def test_a_failure_rolls_both_back_and_it_comes_again_in_order(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, backoff=0)
        inbox.receive([message(1), message(2)])
        with engine.connect() as connection, pytest.raises(ValueError, match="no"):
            refuse(inbox, connection, ValueError("no"))
        assert done(engine) == []
        assert consume(inbox) == ["a1", "a2"]
        assert done(engine) == ["a1", "a2"]

    def test_a_stream_with_a_backlog_does_not_keep_others_from_batches(
        self, engine: Engine
    ) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(n, "a") for n in range(1, 101)] + [message(1, "b"), message(1, "c")])
        came = consume(inbox, batch=10)
        assert max(came.index("b1"), came.index("c1")) < 50  # came in the end, when "a" was done
        assert [each for each in came if each[0] == "a"] == [f"a{n}" for n in range(1, 101)]

    def test_a_crash_leaves_nothing_of_a_delivery(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(1)])
        with engine.connect() as connection, pytest.raises(Crash):
            refuse(inbox, connection, Crash())
        assert done(engine) == []
        assert counts(inbox).parked == 0
        assert consume(inbox) == ["a1"]

    def test_a_failed_message_holds_back_its_own_stream_alone(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, backoff=3600)
        inbox.receive([message(1), message(2), message(1, "b"), message(2, "b")])
        with engine.connect() as connection, pytest.raises(ValueError, match="no"):
            refuse(inbox, connection, ValueError("no"))
        came = consume(inbox)
        assert len(came) == 2
        assert came in (["a1", "a2"], ["b1", "b2"])

    def test_nothing_is_delivered_where_nothing_is(self, engine: Engine) -> None:
        inbox = Inbox(engine)
        with engine.connect() as connection:
            with inbox.delivery(connection) as found:
                assert found is None
            with inbox.batch(connection) as messages:
                assert messages == []
            assert not connection.in_transaction()

    def test_a_connection_has_to_be_free(self, engine: Engine) -> None:
        inbox = Inbox(engine)
        with engine.connect() as connection, connection.begin():
            delivery = inbox.delivery(connection)
            with pytest.raises(InboxError, match="in a transaction already"):
                delivery.__enter__()

    def test_a_block_that_ends_the_transaction_is_told(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(1), message(2)])

        def end_it(connection: Connection) -> None:
            with inbox.delivery(connection) as found:
                assert found is not None
                write(connection, found)
                connection.commit()

        with engine.connect() as connection, pytest.raises(InboxError, match="was ended"):
            end_it(connection)
        # What was committed was committed together.
        assert done(engine) == ["a1"]
        assert consume(inbox) == ["a2"]

    def test_what_the_database_refuses_at_the_end_is_the_message_s_failure(
        self, engine: Engine
    ) -> None:
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE parent (id INTEGER PRIMARY KEY)"))
            reference = "REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED"
            connection.execute(text(f"CREATE TABLE child (parent INTEGER {reference})"))
        inbox = Inbox(engine, attempts=1)
        inbox.receive([message(1)])
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                connection.execute(text("PRAGMA foreign_keys = ON"))
                connection.commit()
            with pytest.raises(IntegrityError), inbox.delivery(connection):
                connection.execute(text("INSERT INTO child VALUES (1)"))
        assert [each.sequence for each in parked(inbox)] == [1]

    def test_what_the_database_says_of_a_statement_is_the_message_s_failure(
        self, engine: Engine
    ) -> None:
        faults = {
            "sqlite": ("SELECT json_extract('{', '$.a')", "SELECT abs(-9223372036854775808)"),
            "postgresql": ("SELECT repeat('x', 2000000000)", "SELECT pg_sleep(60)"),
        }
        inbox = Inbox(engine, attempts=1)
        for n, statement in enumerate(faults[engine.dialect.name], 1):
            inbox.receive([message(1, f"s{n}")])
            with engine.connect() as connection:
                if engine.dialect.name == "postgresql":
                    connection.execute(text("SET statement_timeout = 2000"))
                    connection.commit()
                with pytest.raises(OperationalError), inbox.delivery(connection):
                    connection.execute(text(statement)).all()
                connection.invalidate()
            assert len(parked(inbox)) == n

    def test_a_failure_that_does_not_count_lets_other_streams_go_first(
        self, engine: Engine
    ) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1)
        for stream in "abc":
            inbox.receive([message(1, stream)])
            time.sleep(0.01)
        gone = OperationalError("SELECT", {}, Exception("the server is gone"))
        for error in (gone, InboxError("the connection is not as it should be")):
            with engine.connect() as connection, pytest.raises(type(error)):
                refuse(inbox, connection, error)
        assert consume(inbox, 1) == ["c1"]
        assert parked(inbox) == []
        time.sleep(1.1)
        assert sorted(consume(inbox)) == ["a1", "b1"]

    def test_how_the_connection_was_used_is_not_the_message_s_failure(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1, backoff=0.2)
        inbox.receive([message(1), message(1, "b")])

        def begin(connection: Connection) -> None:
            connection.begin()

        def close(connection: Connection) -> None:
            connection.close()
            connection.execute(text("SELECT 1"))

        def find(connection: Connection) -> None:
            connection.execute(text("SELECT 1 FROM done WHERE stream = 'x'")).one()

        def fails(use: Callable[[Connection], None]) -> type[Exception] | None:
            with engine.connect() as connection:
                try:
                    with inbox.delivery(connection):
                        use(connection)
                except InvalidRequestError as error:
                    return type(error)
            return None

        assert fails(begin) is InvalidRequestError
        assert fails(close) is ResourceClosedError
        assert parked(inbox) == []
        time.sleep(0.5)
        assert sorted(consume(inbox)) == ["a1", "b1"]
        inbox.receive([message(2)])
        assert fails(find) is NoResultFound
        assert [each.sequence for each in parked(inbox)] == [2]

    def test_a_message_that_fails_beside_a_void_one_comes_again_alone(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1)
        inbox.receive([message(1), message(1, "b", void=True), message(2, "b")])
        bad = message(1).content
        failures = 0
        with engine.connect() as connection:
            for _ in range(6):
                try:
                    with inbox.batch(connection, 2) as messages:
                        for each in messages:
                            write(connection, each)
                            if each.content == bad:
                                raise KeyError("a fails")
                except KeyError:
                    failures += 1
        assert failures == 2
        assert [each.stream for each in parked(inbox)] == ["a"]
        assert done(engine) == ["b2"]

    def test_the_loop_waits_a_little_after_a_failure(self, engine: Engine) -> None:
        inbox, stopped = Inbox(engine, backoff=0), threading.Event()
        inbox.receive([message(1)])
        failed: list[float] = []

        def handle(_: Connection, found: Message) -> None:
            failed.append(time.monotonic())
            if len(failed) == 3:
                stopped.set()
            raise ValueError(found.stream)

        assert run_consumer(inbox, handle, stopped, nap=0.3) == 0
        assert failed[2] - failed[0] >= 0.6

    def test_a_batch_is_one_transaction_in_order_per_stream(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(n, stream) for n in range(1, 6) for stream in "ab"])
        with engine.connect() as connection:
            with inbox.batch(connection, 7) as messages:
                assert len(messages) == 7
                for stream in "ab":
                    mine = [each.sequence for each in messages if each.stream == stream]
                    assert mine == list(range(1, len(mine) + 1))
                for each in messages:
                    write(connection, each)
            with inbox.batch(connection, 7) as messages:
                assert len(messages) == 3
                for each in messages:
                    write(connection, each)
        assert done(engine) == named("a", range(1, 6)) + named("b", range(1, 6))

    def test_a_batch_that_fails_comes_again_one_by_one(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1)
        inbox.receive([message(1, "a"), message(1, "b"), message(2, "b"), message(1, "c")])
        failures = 0
        with engine.connect() as connection:
            for _ in range(20):
                try:
                    with inbox.batch(connection) as messages:
                        for each in messages:
                            if each.stream == "b":
                                raise ValueError("b fails")
                            write(connection, each)
                except ValueError:
                    failures += 1
        assert failures == 2
        assert done(engine) == ["a1", "c1"]
        (found,) = parked(inbox)
        assert (found.stream, found.sequence, found.messages) == ("b", 1, 2)

    def test_a_failure_of_what_another_one_delivers_meanwhile_sets_nothing_aside(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1)
        inbox.receive([message(1), message(2)])
        note = DeliveryQueue.failed

        def failed(queue: DeliveryQueue, *noted: Any) -> None:
            with engine.connect() as other, inbox.delivery(other) as found:
                assert found is not None
                write(other, found)
            note(queue, *noted)

        monkeypatch.setattr(DeliveryQueue, "failed", failed)
        with engine.connect() as connection, pytest.raises(ValueError, match="no"):
            refuse(inbox, connection, ValueError("no"))
        assert parked(inbox) == []
        assert consume(inbox) == ["a2"]

    def test_a_stream_that_is_parked_keeps_the_first_reason(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_table(engine)
        inbox = Inbox(engine, attempts=1)
        inbox.receive([message(1)])
        note = DeliveryQueue.failed

        def failed(queue: DeliveryQueue, connection: Connection, found: Delivery, _: str) -> None:
            for reason in ("first", "second"):
                note(queue, connection, found, reason)

        monkeypatch.setattr(DeliveryQueue, "failed", failed)
        with engine.connect() as connection, pytest.raises(ValueError, match="no"):
            refuse(inbox, connection, ValueError("no"))
        assert [each.reason for each in parked(inbox)] == ["first"]

    def test_what_is_received_meanwhile_is_not_forgotten(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        came = list(_while_receiving(inbox, 300))
        assert came == named("a", range(1, 301))
        assert done(engine) == sorted(came, key=lambda each: int(each[1:]))


def _while_receiving(inbox: Inbox, count: int) -> Iterator[str]:
    """Deliver while another thread receives, message by message."""

    def receive() -> None:
        for number in range(1, count + 1):
            inbox.receive([message(number)])

    thread = threading.Thread(target=receive)
    thread.start()
    while thread.is_alive():
        yield from consume(inbox)
    thread.join()
    yield from consume(inbox)
