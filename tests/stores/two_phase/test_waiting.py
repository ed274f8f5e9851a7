"""What is prepared and not committed holds up its own streams alone, and not for ever."""

import threading
from typing import Any

import pytest
from sqlalchemy import Engine, text

from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import START
from stores.outbox.notifier import Notifier
from stores.two_phase import coordinator as module
from stores.two_phase.prepared import prepare
from stores.two_phase.running_transaction import RunningTransaction
from tests.stores.two_phase.parts import (
    At,
    Coordinator,
    insert,
    rows,
)

pytestmark = pytest.mark.integration


def test_it_is_looked_now_and_then_for_what_others_have_left(
    shop: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who is in no transaction of several databases may be waiting for that."""
    looked = threading.Event()
    monkeypatch.setattr(module, "AGAIN", 0.01)
    monkeypatch.setattr(module, "LOOK", 0.1)
    coordinator = Coordinator(shop, {"other": other})
    with coordinator.transaction() as (first, _):
        insert(first, "a")
    recover = coordinator._recover

    def seen(age: float) -> Any:
        looked.set()
        return recover(age)

    monkeypatch.setattr(coordinator, "_recover", seen)
    assert looked.wait(60)


def test_a_capture_into_another_database_wakes_its_reader(shop: Engine, other: Engine) -> None:
    log = MessageLog()
    log.create(other)
    notifier, asleep = Notifier(other, log), threading.Event()

    def idle() -> bool:
        with other.connect() as connection:
            none = not log.read_after(connection, START).messages
        asleep.set()
        return none

    def sleep() -> None:
        while not asleep.is_set():
            notifier.wait(300, idle)

    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    assert asleep.wait(60)
    with Coordinator(shop, {"log": other}).transaction() as (_, connection):
        assert Outbox(log).capture(connection, "orders", "a", "Placed", {}) == 1
        assert Outbox(log).capture(connection, "orders", "a", "Paid", {}) == 2
    thread.join(60)
    assert not thread.is_alive()
    notifier.close()


def test_one_that_waits_for_what_another_left_in_doubt_has_it_resolved(
    shop: Engine, other: Engine
) -> None:
    """And it has the right to write that recovery needs in SQLite."""
    log = MessageLog()
    log.create(other)
    dead, alive = (Coordinator(shop, {"other": other}) for _ in range(2))
    running = RunningTransaction(dead, ("other",))
    Outbox(log).capture(running.connections[1], "orders", "a", None, b"gone")
    prepare("other", running._parts["other"][1])
    for connection in running.connections:
        connection.invalidate()
        connection.close()
    with alive.transaction() as (one, two):
        insert(one)
        assert Outbox(log).capture(two, "orders", "a", None, b"kept") == 1
    assert rows(shop) == [1]


def test_writers_of_other_streams_do_not_wait_for_what_is_in_doubt(
    shop: Engine, other: Engine
) -> None:
    log = MessageLog()
    log.create(other)
    coordinator = Coordinator(shop, {"log": other})
    seen: list[Any] = []

    def meanwhile() -> None:
        with other.begin() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '5s'"))
            seen.append(Outbox(log).capture(connection, "orders", "b", None, b""))
        with other.connect() as connection:
            seen.append([m.stream for m in log.read_after(connection).messages])

    coordinator.step = At("prepared log", meanwhile)
    with coordinator.transaction() as (_, connection):
        Outbox(log).capture(connection, "orders", "a", None, b"")
    assert seen == [1, ["b"]]
