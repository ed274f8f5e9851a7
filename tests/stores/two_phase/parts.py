"""What tests of two-phase commit share."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from soak_capture.producer import engine_of
from stores.two_phase.coordinator import Coordinator as _Coordinator
from stores.two_phase.running_transaction import RunningTransaction

made: list[_Coordinator] = []


class Coordinator(_Coordinator):
    """One that is closed when the test is over."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        made.append(self)


_ROWS = "CREATE TABLE own (name text)"
CUT = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


class At:
    """Does something at the step of that name, once."""

    def __init__(self, name: str, do: Callable[[], Any]) -> None:
        self.name, self.do = name, do

    def __call__(self, done: str) -> None:
        if done == self.name:
            self.name = ""
            self.do()


def with_rows(url: str) -> Iterator[Engine]:
    engine = engine_of(url)
    with engine.begin() as connection:
        connection.execute(text(_ROWS))
    yield engine
    engine.dispose()


def insert(connection: Connection, name: str = "x") -> None:
    connection.execute(text("INSERT INTO own VALUES (:name)"), {"name": name})


def rows(*engines: Engine) -> list[int]:
    found = []
    for engine in engines:
        with engine.connect() as connection:
            found.append(int(connection.execute(text("SELECT count(*) FROM own")).scalar_one()))
    return found


def both(coordinator: Coordinator) -> None:
    with coordinator.transaction() as connections:
        for connection in connections:
            insert(connection)


def lines(coordinator: Coordinator) -> int:
    return len(coordinator.decisions.lines())


def leave_in_doubt(
    shop: Engine, other: Engine, step: str, coordinator: Any = None
) -> RunningTransaction:
    """As a producer that is killed at a step: its connections break, and it does nothing more."""

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    coordinator = coordinator or Coordinator(shop, {"other": other})
    coordinator.step = At(step, kill)
    running = RunningTransaction(coordinator, ("other",))
    running.rollback = lambda: None  # type: ignore[method-assign]
    for connection in running.connections:
        insert(connection)
    parts = dict(running._parts)
    with pytest.raises(Killed):
        running.commit()
    for connection in (running._decision, *(part[0] for part in parts.values())):
        if not connection.closed:
            connection.invalidate()
            connection.close()
    return running
