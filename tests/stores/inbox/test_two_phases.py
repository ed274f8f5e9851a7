"""Deliveries where the consumer's tables are in another database than the inbox."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from checkout.postgres import Postgres
from stores.db.engines import open_engine
from stores.inbox.commands import parked
from stores.inbox.inbox import Inbox, InboxError
from stores.inbox.two_phases import two_phase_batch, two_phase_delivery
from stores.two_phase.coordinator import Coordinator
from stores.two_phase.prepared import prepare
from stores.two_phase.running_transaction import RunningTransaction
from tests.contracts.inbox.parts import done, make_table, message, write

pytestmark = pytest.mark.integration


class Crash(BaseException):
    pass


@pytest.fixture(autouse=True)
def _close(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No coordinator goes on behind its test: it would log that its databases are away."""
    made: list[Coordinator] = []
    begin = Coordinator.__init__

    def noted(coordinator: Coordinator, *arguments: Any, **more: Any) -> None:
        begin(coordinator, *arguments, **more)
        made.append(coordinator)

    monkeypatch.setattr(Coordinator, "__init__", noted)
    yield
    for coordinator in made:
        coordinator.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    settings = {"fsync": "off", "full_page_writes": "off", "max_prepared_transactions": "10"}
    with Postgres(settings) as server:
        yield server


@pytest.fixture
def other(server: Postgres, unique: Callable[[str], str]) -> Iterator[Engine]:
    engine = open_engine(server.new_database(unique("data")))
    make_table(engine)
    yield engine
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(
    request: pytest.FixtureRequest,
    server: Postgres,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[Engine]:
    """Of the inbox."""
    url = f"sqlite:///{tmp_path}/inbox.sqlite"
    engine = open_engine(url if request.param == "sqlite" else server.new_database(unique("inbox")))
    yield engine
    engine.dispose()


def deliver(inbox: Inbox, coordinator: Coordinator, error: Exception | None = None) -> None:
    """Process the next message, and fail at the end of that if there is an error to raise."""
    with two_phase_delivery(inbox, coordinator) as (found, connections):
        assert found is not None
        write(connections[1], found)
        if error is not None:
            raise error


def deliver_two(inbox: Inbox, coordinator: Coordinator) -> None:
    with two_phase_batch(inbox, coordinator, 2) as (found, connections):
        assert len(found) == 2
        for each in found:
            write(connections[1], each)


def consume(inbox: Inbox, coordinator: Coordinator) -> list[str]:
    came: list[str] = []
    while True:
        with two_phase_delivery(inbox, coordinator) as (found, connections):
            if found is None:
                return came
            write(connections[1], found)
            came.append(found.content.decode())


def test_the_message_and_the_updates_commit_together(engine: Engine, other: Engine) -> None:
    inbox, coordinator = Inbox(engine, backoff=0), Coordinator(engine, {"data": other})
    inbox.receive([message(1), message(2), message(3, void=True), message(4)])
    with pytest.raises(ValueError, match="no"):
        deliver(inbox, coordinator, ValueError("no"))
    assert done(other) == []
    assert consume(inbox, coordinator) == ["a1", "a2", "a4"]
    assert done(other) == ["a1", "a2", "a4"]


def test_a_failing_message_is_parked(engine: Engine, other: Engine) -> None:
    inbox = Inbox(engine, attempts=2, backoff=0)
    coordinator = Coordinator(engine, {"data": other})
    inbox.receive([message(1), message(2)])
    for _ in range(2):
        with pytest.raises(ValueError, match="no"), two_phase_delivery(inbox, coordinator):
            raise ValueError("no")
    assert [each.attempts for each in parked(inbox)] == [2]
    assert consume(inbox, coordinator) == []


@pytest.mark.parametrize(("take", "taken"), [(deliver, 1), (deliver_two, 2)])
@pytest.mark.parametrize("after", ["prepared data", "decided"])
def test_a_crash_between_the_two_is_resolved_one_way(
    engine: Engine,
    other: Engine,
    after: str,
    take: Callable[[Inbox, Coordinator], None],
    taken: int,
) -> None:
    def step(what: str) -> None:
        if what == after:
            raise Crash

    inbox = Inbox(engine)
    crashing = Coordinator(engine, {"data": other}, step=step)
    inbox.receive([message(1), message(2), message(3)])
    with pytest.raises(Crash):
        take(inbox, crashing)
    # The next process resolves what this one left, and goes on.
    coordinator = Coordinator(engine, {"data": other})
    came = consume(inbox, coordinator)
    assert came == ["a1", "a2", "a3"][taken if after == "decided" else 0 :]
    assert done(other) == ["a1", "a2", "a3"]


def test_a_batch_commits_together_and_comes_again_one_by_one_if_it_fails(
    engine: Engine, other: Engine
) -> None:
    inbox = Inbox(engine, attempts=1, backoff=0)
    coordinator = Coordinator(engine, {"data": other})
    inbox.receive([message(n, stream=stream) for stream in "ab" for n in (1, 2, 3, 4)])
    came: list[list[str]] = []

    def take() -> None:
        with two_phase_batch(inbox, coordinator, 6) as (found, connections):
            came.append([each.content.decode() for each in found])
            for each in found:
                write(connections[1], each)
                if each.content == b"b2":
                    raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        take()
    assert len(came[0]) == 6
    assert done(other) == []
    failed = 0
    while came[-1]:
        try:
            take()
        except ValueError:
            failed += 1
    assert failed == 1, "only the one that caused it"
    assert sorted(done(other)) == ["a1", "a2", "a3", "a4", "b1"]
    assert [(each.stream, each.attempts) for each in parked(inbox)] == [("b", 1)]
    assert max(map(len, came[1:])) == 1, "one by one"
    with two_phase_batch(inbox, coordinator) as (found, connections):
        assert (found, connections) == ([], ())


def test_where_the_tables_decide_a_stream_goes_on_only_with_what_was_processed(
    server: Postgres, other: Engine, unique: Callable[[str], str]
) -> None:
    """Else the next message could be processed before the last one's updates are seen."""
    engine = open_engine(server.new_database(unique("inbox")))
    inbox, second = Inbox(engine), Coordinator(other, {"inbox": engine})
    seen: list[tuple[list[str], bool]] = []

    def step(what: str) -> None:
        if what == "decided":
            with two_phase_delivery(inbox, second) as (found, _):
                seen.append((done(other), found is None))

    inbox.receive([message(1), message(2)])
    first = Coordinator(other, {"inbox": engine}, step=step)
    for _ in range(2):
        with two_phase_delivery(inbox, first) as (found, connections):
            assert found is not None
            write(connections[0], found)
    assert seen == [(["a1"], True), (["a1", "a2"], True)]
    engine.dispose()


def test_what_a_killed_consumer_left_prepared_holds_up_no_start(
    server: Postgres, other: Engine, unique: Callable[[str], str]
) -> None:
    """The coordinator that resolves it needs the inbox, which waits for nothing where all is."""
    url = server.new_database(unique("inbox"))
    # Whatever waits for a lock fails, rather than to wait for ever.
    engine = open_engine(url + ("&" if "?" in url else "?") + "options=-c%20lock_timeout%3D5000")

    inbox = Inbox(engine)
    inbox.receive([message(1), message(2)])
    killed = RunningTransaction(Coordinator(other, {"inbox": engine}), ("inbox",))
    taken = inbox.queue.take(killed.connections[1], 1, 1)
    assert taken is not None
    inbox.queue.settle(killed.connections[1], taken)
    prepare("inbox", killed._parts["inbox"][1])
    for connection in killed.connections:
        connection.invalidate()
        connection.close()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM pg_prepared_xacts")).scalar() == 1
    Inbox(engine, "another").receive([message(1)])
    again = Inbox(engine)
    coordinator = Coordinator(other, {"inbox": engine})
    came = []
    for _ in range(2):
        with two_phase_delivery(again, coordinator) as (found, connections):
            assert found is not None
            write(connections[0], found)
            came.append(found.content.decode())
    assert came == ["a1", "a2"]
    engine.dispose()


def test_a_coordinator_without_the_inbox_s_database_is_refused(
    engine: Engine, other: Engine, tmp_path: Path
) -> None:
    elsewhere = open_engine(f"sqlite:///{tmp_path}/elsewhere.sqlite")
    coordinator = Coordinator(elsewhere, {"data": other})
    with pytest.raises(InboxError, match="none of the coordinator's"):
        deliver(Inbox(engine), coordinator)
