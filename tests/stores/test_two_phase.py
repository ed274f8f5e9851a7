"""Two databases commit together or not at all, whoever decides and whatever fails."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

from apps.local.postgres import Postgres
from apps.soak_capture.producer import engine_of
from stores.message import START
from stores.message_bell import Bell
from stores.message_log import MessageLog
from stores.outbox import Outbox
from stores.two_phase import Coordinator as _Coordinator
from stores.two_phase import OutcomeUnknown, TwoPhase
from stores.two_phase_log import DecisionLog, TwoPhaseError
from stores.two_phase_prepared import gid, prepare, prepared
from stores.two_phase_recovery import recover
from tests.contracts.schema import new_schema

pytestmark = pytest.mark.integration

_made: list[_Coordinator] = []


class Coordinator(_Coordinator):
    """One that is closed when the test is over."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        _made.append(self)


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    for coordinator in _made:
        coordinator.close()
    _made.clear()


_ROWS = "CREATE TABLE own (name text)"


@pytest.fixture(scope="module")
def databases(postgres: Postgres) -> tuple[str, str]:
    """Two that the module's tests share, each with schemas of its own."""
    name = uuid4().hex[:8]
    return postgres.new_database(f"shop-{name}"), postgres.new_database(f"other-{name}")


@pytest.fixture
def database(databases: tuple[str, str]) -> str:
    return new_schema(databases[0])


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(
    request: pytest.FixtureRequest, tmp_path: Path, databases: tuple[str, str]
) -> Iterator[Engine]:
    """The database that keeps the decisions."""
    url = f"sqlite:///{tmp_path}/shop.sqlite"
    if request.param == "postgresql":
        url = new_schema(databases[0])
    yield from with_rows(url)


@pytest.fixture
def other(databases: tuple[str, str]) -> Iterator[Engine]:
    """A participant."""
    yield from with_rows(new_schema(databases[1]))


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


class At:
    """Does something at the step of that name, once."""

    def __init__(self, name: str, do: Callable[[], Any]) -> None:
        self.name, self.do = name, do

    def __call__(self, done: str) -> None:
        if done == self.name:
            self.name = ""
            self.do()


def test_both_are_committed_or_neither(shop: Engine, other: Engine) -> None:
    coordinator = Coordinator(shop, {"other": other})
    both(coordinator)
    assert rows(shop, other) == [1, 1]

    def change_one_s_mind(touched: int) -> None:
        with coordinator.transaction() as connections:
            insert(connections[touched])
            raise LookupError

    for touched in (0, 1):
        with pytest.raises(LookupError):
            change_one_s_mind(touched)
    assert rows(shop, other) == [1, 1]
    assert prepared("other", other) == []


def test_three_databases(shop: Engine, other: Engine, database: str) -> None:
    third = next(with_rows(database))
    coordinator = Coordinator(shop, {"other": other, "third": third})
    both(coordinator)
    assert rows(shop, other, third) == [1, 1, 1]
    with coordinator.transaction("third") as (first, last):
        insert(first)
        insert(last)
    assert rows(shop, other, third) == [2, 1, 2]
    with coordinator.transaction("third", "other") as (_, one, two):
        insert(one)
        insert(one)
        insert(two)
    assert rows(shop, other, third) == [2, 2, 4]
    third.dispose()


def test_a_part_that_cannot_be_prepared_undoes_all(shop: Engine, other: Engine) -> None:
    with other.begin() as connection:
        connection.execute(
            text("CREATE TABLE child (p int PRIMARY KEY, c int REFERENCES child "
                 "DEFERRABLE INITIALLY DEFERRED)")
        )  # fmt: skip
    coordinator = Coordinator(shop, {"other": other})

    def orphan() -> None:
        with coordinator.transaction() as (one, two):
            insert(one)
            insert(two)
            two.execute(text("INSERT INTO child VALUES (1, 2)"))

    with pytest.raises(DBAPIError, match="foreign key"):
        orphan()
    assert rows(shop, other) == [0, 0]
    both(coordinator)
    assert rows(shop, other) == [1, 1]


def test_a_decision_that_fails_undoes_all(other: Engine, database: str) -> None:
    shop = next(with_rows(database))
    with shop.begin() as connection:
        connection.execute(
            text("CREATE TABLE child (p int PRIMARY KEY, c int REFERENCES child "
                 "DEFERRABLE INITIALLY DEFERRED)")
        )  # fmt: skip
    coordinator = Coordinator(shop, {"other": other})

    def orphan() -> None:
        with coordinator.transaction() as (one, two):
            insert(two)
            one.execute(text("INSERT INTO child VALUES (1, 2)"))

    with pytest.raises(DBAPIError, match="foreign key"):
        orphan()
    assert rows(shop, other) == [0, 0]
    assert prepared("other", other) == []
    shop.dispose()


def test_one_who_may_still_decide_is_left_alone(shop: Engine, other: Engine) -> None:
    seen: list[Any] = []
    recoverer = Coordinator(shop, {"other": other})

    def look() -> None:
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(recoverer.recover).result(60)
        seen.append(([one.participant for one in found.open], found.rolled_back))

    both(Coordinator(shop, {"other": other}, step=At("prepared other", look)))
    assert seen == [(["other"], [])]
    assert rows(shop, other) == [1, 1]


def test_recovery_between_any_two_steps_changes_nothing(shop: Engine, other: Engine) -> None:
    recoverer = Coordinator(shop, {"other": other})
    steps = []

    def step(done: str) -> None:
        steps.append(done)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(recoverer.recover).result(60)

    both(Coordinator(shop, {"other": other}, step=step))
    assert rows(shop, other) == [1, 1]
    assert steps == [
        "begun", "joined", "worked", "prepared other", "decided", "committed other", "ended",
    ]  # fmt: skip
    recover(recoverer.decisions, {"other": other}, keep=-60)
    assert lines(recoverer) == 0


def test_what_is_younger_than_asked_for_is_left_alone(shop: Engine, other: Engine) -> None:
    leave_in_doubt(shop, other, "prepared other")
    recoverer = DecisionLog(shop)
    assert len(recover(recoverer, {"other": other}, age=3600).open) == 1
    assert len(recover(recoverer, {"other": other}).rolled_back) == 1


def leave_in_doubt(shop: Engine, other: Engine, step: str, coordinator: Any = None) -> TwoPhase:
    """As a producer that is killed at a step: its connections break, and it does nothing more."""

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    coordinator = coordinator or Coordinator(shop, {"other": other})
    coordinator.step = At(step, kill)
    running = TwoPhase(coordinator, ("other",))
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


@pytest.mark.parametrize(("step", "committed"), [("prepared other", 0), ("decided", 1)])
def test_the_next_one_resolves_what_a_killed_one_left(
    shop: Engine, other: Engine, step: str, committed: int
) -> None:
    running = leave_in_doubt(shop, other, step)
    assert len(prepared("other", other)) == 1
    assert rows(other) == [0]
    coordinator = Coordinator(shop, {"other": other})  # which recovers
    assert rows(shop, other) == [committed, committed]
    assert prepared("other", other) == []
    # The outcome can be asked for a day, though no participant needs it.
    assert coordinator.outcome(running.id) == ("committed" if committed else "aborted")
    assert lines(coordinator) == committed
    assert recover(coordinator.decisions, {"other": other}, keep=-60).forgotten == committed
    assert lines(coordinator) == 0
    both(coordinator)
    assert rows(shop, other) == [committed + 1, committed + 1]


def test_many_recover_at_once(shop: Engine, other: Engine) -> None:
    coordinator = Coordinator(shop, {"other": other})
    for step in ("prepared other", "decided") * 3:
        leave_in_doubt(shop, other, step, coordinator)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: Coordinator(shop, {"other": other}), range(6)))
    Coordinator(shop, {"other": other})
    assert rows(shop, other) == [3, 3]
    assert prepared("other", other) == []


def test_a_participant_that_is_away_at_the_end_is_caught_up(shop: Engine, other: Engine) -> None:
    coordinator = Coordinator(shop, {"other": other})

    def cut() -> None:
        with other.connect() as connection:
            connection.execute(text(_CUT))

    coordinator.step = At("decided", cut)
    both(coordinator)  # it is committed, so it does not raise
    assert rows(shop, other) == [1, 0]
    assert [one.participant for one in coordinator.recover().committed] == ["other"]
    assert rows(shop, other) == [1, 1]


_CUT = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def test_one_whose_decision_is_cut_off_cannot_decide_any_more(other: Engine, database: str) -> None:
    shop = next(with_rows(database))
    recoverer = Coordinator(shop, {"other": other})
    seen = []

    def cut() -> None:
        with shop.connect() as connection:
            connection.execute(text(_CUT))
        seen.append(len(recoverer.recover().rolled_back))

    with pytest.raises(DBAPIError):
        both(Coordinator(shop, {"other": other}, step=At("prepared other", cut)))
    assert seen == [1]
    assert rows(shop, other) == [0, 0]
    shop.dispose()


def test_a_commit_whose_answer_was_lost_is_looked_up(
    shop: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(shop, {"other": other})
    for took_place in (True, False):
        running = TwoPhase(coordinator, ("other",))
        for connection in running.connections:
            insert(connection)
        commit = running._root.commit

        def lost(commit: Any = commit, took_place: bool = took_place) -> None:
            if took_place:
                commit()
            raise OperationalError("COMMIT", {}, Exception("the answer was lost"))

        running._root = type("Root", (), {"commit": staticmethod(lost), "is_active": True})()
        if took_place:
            running.commit()
        else:
            with pytest.raises(OperationalError, match="the answer was lost"):
                running.commit()
        assert rows(shop, other) == [1, 1]


@pytest.mark.parametrize("took_place", [True, False])
def test_an_outcome_that_cannot_be_looked_up_is_said_to_be_unknown(
    shop: Engine, other: Engine, took_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(shop, {"other": other})
    running = TwoPhase(coordinator, ("other",))
    for connection in running.connections:
        insert(connection)
    commit, outcome = running._root.commit, coordinator.outcome

    def lost(*_: Any) -> Any:
        if took_place:
            commit()
        raise OperationalError("COMMIT", {}, Exception("the answer was lost"))

    running._root = type("Root", (), {"commit": staticmethod(lost), "is_active": True})()
    monkeypatch.setattr(coordinator, "outcome", lambda _: "open")
    with pytest.raises(OutcomeUnknown, match=r"all databases or in none.*Coordinator\.outcome"):
        running.commit()
    assert len(prepared("other", other)) == 1
    monkeypatch.setattr(coordinator, "outcome", outcome)
    assert coordinator.outcome(running.id) == ("committed" if took_place else "aborted")
    coordinator.recover()
    both(coordinator)
    assert rows(shop, other) == ([2, 2] if took_place else [1, 1])


def test_decisions_that_are_not_needed_any_more_are_deleted(
    shop: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.two_phase.FORGET", 3)
    coordinator = Coordinator(shop, {"other": other})
    for count in (1, 2, 0, 1):
        both(coordinator)
        assert lines(coordinator) == count
    coordinator.close()
    assert lines(coordinator) == 0
    both(coordinator)
    assert recover(coordinator.decisions, {"other": other}).forgotten == 0  # it is too young
    assert recover(coordinator.decisions, {"other": other}, keep=-60).forgotten == 1
    assert lines(coordinator) == 0


def test_a_decision_is_kept_for_a_participant_that_is_not_known(
    shop: Engine, other: Engine
) -> None:
    leave_in_doubt(shop, other, "decided")
    decisions = DecisionLog(shop)
    assert recover(decisions, {}, keep=-60).forgotten == 0
    # Nor can it know that another name is of the same database.
    assert recover(decisions, {"renamed": other}, keep=-60).forgotten == 0
    assert rows(shop, other) == [1, 1]
    assert recover(decisions, {"other": other}, keep=-60).forgotten == 1


def test_transactions_of_other_decisions_are_left_alone(shop: Engine, other: Engine) -> None:
    with other.connect() as connection:
        part = connection.begin_twophase(gid("f" * 32, uuid4().hex, "other"))
        insert(connection)
        part.prepare()
        found = Coordinator(shop, {"other": other}).recover()
        assert [one.log for one in found.foreign] == ["f" * 32]
        assert found.rolled_back == []
        part.commit()
    assert rows(other) == [1]


def test_a_participant_that_cannot_be_reached_does_not_keep_one_from_starting(
    shop: Engine, other: Engine
) -> None:
    nowhere = create_engine("postgresql+psycopg://postgres@/x?host=/nonexistent")
    coordinator = Coordinator(shop, {"nowhere": nowhere, "other": other})
    assert list(coordinator.recover().unreachable) == ["nowhere"]
    with pytest.raises(OperationalError):
        both(coordinator)
    with coordinator.transaction("other") as connections:
        insert(connections[1])
    assert rows(shop, other) == [0, 1]


@pytest.mark.parametrize("way", ["commit", "rollback"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_transaction_that_is_ended_within_the_block_is_refused(
    shop: Engine, other: Engine, way: str, which: int
) -> None:
    coordinator = Coordinator(shop, {"other": other})

    def end_early() -> None:
        with coordinator.transaction() as connections:
            insert(connections[0])
            insert(connections[1])
            getattr(connections[which], way)()

    with pytest.raises(TwoPhaseError, match=r"leave that to the block's end"):
        end_early()
    assert rows(shop, other) == [0, 0]


def test_what_cannot_take_part_is_refused(tmp_path: Path, other: Engine) -> None:
    lite = create_engine(f"sqlite:///{tmp_path}/x.sqlite")
    with pytest.raises(TwoPhaseError, match=r"'log'.*'sqlite', which cannot prepare.*one file"):
        Coordinator(other, {"log": lite})
    with pytest.raises(TwoPhaseError, match="give it another name"):
        Coordinator(other, {"a b": other})
    with (
        pytest.raises(TwoPhaseError, match=r"'none' is not among its participants: other"),
        Coordinator(lite, {"other": other}).transaction("none"),
    ):
        pass


def test_a_server_that_is_not_set_up_for_it_is_named(tmp_path: Path) -> None:
    shop = next(with_rows(f"sqlite:///{tmp_path}/shop.sqlite"))
    with Postgres({"max_prepared_transactions": "0", "fsync": "off"}) as server:
        other = next(with_rows(server.new_database("other")))
        with pytest.raises(TwoPhaseError, match=r"'other'.*max_prepared_transactions.*restart"):
            both(Coordinator(shop, {"other": other}))
        assert rows(shop, other) == [0, 0]
        other.dispose()


def test_a_capture_into_another_database_wakes_its_reader(shop: Engine, other: Engine) -> None:
    log = MessageLog()
    log.create(other)
    bell, asleep = Bell(other, log), threading.Event()

    def idle() -> bool:
        with other.connect() as connection:
            none = not log.read_after(connection, START).messages
        asleep.set()
        return none

    def sleep() -> None:
        while not asleep.is_set():
            bell.wait(300, idle)

    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    assert asleep.wait(60)
    with Coordinator(shop, {"log": other}).transaction() as (_, connection):
        assert Outbox(log).capture(connection, "orders", "a", "Placed", {}) == 1
        assert Outbox(log).capture(connection, "orders", "a", "Paid", {}) == 2
    thread.join(60)
    assert not thread.is_alive()
    bell.close()


def test_one_that_waits_for_what_another_left_in_doubt_has_it_resolved(
    shop: Engine, other: Engine
) -> None:
    """And it has the right to write that recovery needs in SQLite."""
    log = MessageLog()
    log.create(other)
    dead, alive = (Coordinator(shop, {"other": other}) for _ in range(2))
    running = TwoPhase(dead, ("other",))
    Outbox(log).capture(running.connections[1], "orders", "a", None, b"gone")
    prepare("other", running._parts["other"][1])
    for connection in running.connections:
        connection.invalidate()
        connection.close()
    with alive.transaction() as (one, two):
        insert(one)
        assert Outbox(log).capture(two, "orders", "a", None, b"kept") == 1
    assert rows(shop) == [1]


@pytest.mark.parametrize("way", ["rolled back", "invalidated"])
def test_one_who_gave_up_his_line_does_not_judge_others(
    other: Engine, tmp_path: Path, way: str
) -> None:
    """In SQLite he would know by his right to write, which he does not have any more."""
    shop = next(with_rows(f"sqlite:///{tmp_path}/shop.sqlite"))
    gave_up = Coordinator(shop, {"other": other})
    running = TwoPhase(gave_up, ("other",))
    if way == "rolled back":
        running.connections[0].rollback()
    else:
        running.connections[0].invalidate()
    seen = []

    def look() -> None:
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(gave_up.recover).result(60)
        seen.append((len(found.open), len(found.rolled_back)))

    both(Coordinator(shop, {"other": other}, step=At("prepared other", look)))
    assert seen == [(1, 0)]
    assert rows(shop, other) == [1, 1]
    running.rollback()
    shop.dispose()


def test_writers_of_other_streams_do_not_wait_for_what_is_in_doubt(
    shop: Engine, other: Engine
) -> None:
    log = MessageLog()
    log.create(other)
    coordinator = Coordinator(shop, {"log": other})
    seen: list[Any] = []

    def meanwhile() -> None:
        with other.begin() as connection:
            connection.execute(text("SET LOCAL lock_timeout = '10ms'"))
            seen.append(log.append(connection, "orders", "b", None, b""))
        with other.connect() as connection:
            seen.append([m.stream for m in log.read_after(connection).messages])

    coordinator.step = At("prepared log", meanwhile)
    with coordinator.transaction() as (_, connection):
        Outbox(log).capture(connection, "orders", "a", None, b"")
    assert seen == [1, ["b"]]
