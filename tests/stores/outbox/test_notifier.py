"""A reader that sleeps is woken by the next message; one that is awake costs producers nothing."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.notifier import Notifier

pytestmark = pytest.mark.integration

LONG = 300.0
"""Seconds that no test waits for: nothing but the notifier ends a sleep of this."""


class Sleeper:
    """A reader that sleeps in a thread of its own."""

    def __init__(self, engine: Engine, log: MessageLog) -> None:
        self.asleep = threading.Event()
        self.notifier = Notifier(engine, log)
        self.engine, self.log = engine, log
        self.thread = threading.Thread(target=self._sleep, daemon=True)

    def _idle(self) -> bool:
        with self.engine.connect() as connection:
            idle = not self.log.read_after(connection).messages
        self.asleep.set()
        return idle

    def _sleep(self) -> None:
        while not self.asleep.is_set():
            self.notifier.wait(LONG, self._idle)

    def __enter__(self) -> "Sleeper":
        self.thread.start()
        assert self.asleep.wait(60)
        return self

    def __exit__(self, *error: object) -> None:
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.notifier.close()


@pytest.fixture(params=["postgresql", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    if request.param == "postgresql":
        yield request.getfixturevalue("engine")
        return
    engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite")
    yield engine
    engine.dispose()


@pytest.fixture
def log() -> MessageLog:
    return MessageLog()


def test_a_capture_wakes_the_reader_when_it_is_committed(place: Engine, log: MessageLog) -> None:
    log.create(place)
    with Sleeper(place, log) as sleeper, place.connect() as connection:
        Outbox(log).capture(connection, "orders", "a", "Placed", {})
        assert sleeper.thread.is_alive()
        connection.commit()


def test_a_rolled_back_capture_does_not_end_the_sleep(engine: Engine, log: MessageLog) -> None:
    log.create(engine)
    with Sleeper(engine, log) as sleeper, engine.connect() as connection:
        Outbox(log).capture(connection, "orders", "a", "Placed", {})
        connection.rollback()
        assert sleeper.thread.is_alive()
        Outbox(log).capture(connection, "orders", "a", "Placed", {})
        connection.commit()


def test_a_reader_does_not_fall_asleep_while_a_capture_is_open(
    engine: Engine, log: MessageLog
) -> None:
    log.create(engine)
    notifier = Notifier(engine, log)
    with engine.connect() as connection:
        Outbox(log).capture(connection, "orders", "a", "Placed", {})
        notifier.wait(LONG, lambda: pytest.fail("it would fall asleep"))
        connection.commit()
    looked: list[int] = []

    def look() -> bool:
        looked.append(1)
        return False

    notifier.wait(LONG, look)
    assert looked == [1]
    notifier.close()


def notices(engine: Engine, do: Callable[[Any], object]) -> list[str]:
    """The channels on which something was notified while `do` ran."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as listening:
        listening.execute(text('LISTEN "sequitur_messages"'))
        with engine.begin() as connection:
            do(connection)
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_notify('sequitur_messages', 'the end')"))
        driver = listening.connection.driver_connection
        assert driver is not None
        found: list[str] = []
        for notice in driver.notifies(timeout=60):
            if notice.payload == "the end":
                return found
            found.append(notice.channel)
        raise TimeoutError


def test_nobody_is_notified_while_the_reader_is_awake(engine: Engine, log: MessageLog) -> None:
    log.create(engine)
    outbox = Outbox(log)

    def capture(connection: Any) -> None:
        outbox.capture(connection, "orders", "a", "Placed", {})

    assert notices(engine, capture) == []
    with engine.connect() as reader:
        number = Notifier(engine, log)._notification["lock"]
        reader.execute(text("SELECT pg_advisory_lock(:number)"), {"number": number})
        assert notices(engine, capture) == ["sequitur_messages"]
        quiet = Outbox(log, notify=False)
        assert notices(engine, lambda c: quiet.capture(c, "orders", "a", None, b"")) == []


def test_a_second_reader_takes_short_naps(engine: Engine, log: MessageLog) -> None:
    log.create(engine)
    other = Notifier(engine, log)
    with Sleeper(engine, log), engine.connect() as connection:
        other.wait(LONG, lambda: pytest.fail("two are asleep"))
        Outbox(log).capture(connection, "orders", "a", "Placed", {})
        connection.commit()
    other.close()


def test_a_notifier_whose_connection_broke_is_mended(engine: Engine, log: MessageLog) -> None:
    log.create(engine)
    notifier = Notifier(engine, log)
    notifier.wait(0.0, lambda: True)
    with engine.begin() as connection:
        killed = connection.execute(
            text(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        ).scalar()
    assert killed
    looked: list[int] = []

    def look() -> bool:
        looked.append(1)
        return True

    for _ in range(5):
        notifier.wait(0.0, look)
    assert looked
    notifier.close()
