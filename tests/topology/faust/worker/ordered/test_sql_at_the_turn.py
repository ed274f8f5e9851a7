"""SQL on a lent connection: committed at the turn, rolled back otherwise, once over a crash."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import event, text

from checkout.postgres import Postgres
from stores.db.engines import open_engine
from stores.view_state.table import TableFenced
from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import Emit, Event, Inspector, Topology, key, park, wait_and_roll_back
from topology.declaration.ordered_stage import RELEASE
from topology.engine.commit_unit import CommitUnit
from topology.faust.worker.ordered import lent_database

TABLES = ("create table booked (id text, n int)", "create table sums (id text primary key, n int)")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def url(request: pytest.FixtureRequest, tmp_path: Path, unique: Callable[[str], str]) -> str:
    found = f"sqlite:///{tmp_path / 'shop.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        found = server.new_database(unique("turns"))
    engine = open_engine(found)
    with engine.begin() as connection:
        for table in TABLES:
            connection.execute(text(table))
        connection.execute(text("insert into sums values ('all', 0)"))
    engine.dispose()
    return found


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = open_engine(url)
    try:
        with engine.begin() as connection:
            found = connection.execute(text(statement))
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        engine.dispose()


def booked(url: str) -> list[tuple[Any, ...]]:
    return rows(url, "select id, n from booked order by n, id")


def partition(handler: Any, **options: Any) -> Partition:
    topology = Topology("t")
    given = {"workers": 8, "commit": "arrival", **options}
    topology.parallel("work", topic="in", handler=handler, database="shop", **given)
    return Partition(topology)


async def book(event: Event) -> AsyncIterator[Emit]:
    number = orjson.loads(event.content)
    values = {"id": event.stream, "n": number}
    await event.connection.execute("insert into booked values (:id, :n)", values)  # type: ignore[attr-defined]
    yield Emit("out", event.stream, number)


async def test_sql_is_committed_with_the_output_at_the_turn(url: str) -> None:
    gate = asyncio.Event()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if event.content == b"0":
            await gate.wait()
        async for each in book(event):
            yield each

    held = partition(handler)
    await held.new_sql_run(url)
    for number in range(4):
        held.log.append(f"s{number}", number)
    held.start()
    await asyncio.sleep(0.3)
    assert booked(url) == [], "the first one's turn has not come"
    gate.set()
    await held.until(lambda: held.runner.core.position == 4)
    assert booked(url) == [(f"s{number}", number) for number in range(4)]
    assert held.out("out") == [0, 1, 2, 3]
    await held.runner.stop(1)


@pytest.mark.integration
async def test_who_waits_for_an_older_event_s_lock_fails_by_nothing_but_time(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After four times of ten seconds the error policy had it, though nothing was wrong."""
    monkeypatch.setitem(lent_database._LIMITS, "lock", "300ms")
    rows(server_url, TABLES[1])
    rows(server_url, "insert into sums values ('all', 0)")
    gate, attempts = asyncio.Event(), list[bytes]()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        attempts.append(event.content)
        await event.connection.execute("update sums set n = n + 1 where id = 'all'")  # type: ignore[attr-defined]
        if event.content == b"0":
            await gate.wait()
        yield Emit("out", event.stream, int(event.content))

    held = partition(handler)
    await held.new_sql_run(server_url)
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: attempts == [b"0"])
    held.log.append("b", 1)
    await held.until(lambda: attempts.count(b"1") > 6)
    gate.set()
    await held.until(lambda: held.runner.core.position == 2)
    assert rows(server_url, "select n from sums") == [(2,)]
    assert held.out("out") == [0, 1]
    assert not held.out("t.errors")
    await held.runner.stop(1)


async def test_what_fails_leaves_nothing_in_the_database(url: str) -> None:
    attempts = 0

    async def handler(event: Event) -> AsyncIterator[Emit]:
        nonlocal attempts
        attempts += 1
        async for each in book(event):
            if attempts < 3:
                raise TimeoutError("a call")
            yield each

    held = partition(handler)
    await held.new_sql_run(url)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert booked(url) == [("a", 1)]
    assert attempts == 3
    await held.runner.stop(1)


async def test_after_a_crash_between_the_two_commits_sql_is_not_run_again_and_outputs_are_the_same(
    url: str,
) -> None:
    runs = 0

    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Emit]:
        nonlocal runs
        runs += 1
        state["runs"] = [*state.get("runs", ()), runs]
        async for _ in book(event):
            yield Emit("out", event.stream, [runs, state["runs"]])

    held = partition(handler)
    await held.new_sql_run(url)

    def crash(unit: CommitUnit) -> None:
        held.tried = unit  # type: ignore[attr-defined]
        raise ConnectionError("killed")

    held.on_commit = crash
    for number in range(3):
        held.log.append(f"s{number % 2}", number)
    held.start()
    with pytest.raises(ConnectionError, match="killed"):
        await held.until(lambda: False)
    assert held.out("out") == []
    before = booked(url)
    assert before
    tried = held.tried.keyed["out"]  # type: ignore[attr-defined]

    held.on_commit = lambda unit: None
    await held.new_sql_run(url)
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    await held.runner.stop(1)
    assert booked(url) == [("s0", 0), ("s1", 1), ("s0", 2)]
    first = [record for unit in held.units for record in unit.keyed.get("out", ())]
    assert first[: len(tried)] == tried, "byte for byte what the crashed run was to put out"
    states = dict(zip(("s0", "s1", "s0"), held.out("out"), strict=True))
    assert len(states["s0"][1]) == 2, "the next event stands on the state that was kept"


async def test_a_partition_that_stops_while_a_turn_is_committed_has_all_of_it_or_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, rolled_back, done = (threading.Event() for _ in range(3))
    held = partition(book)
    lent = (await held.new_sql_run(url)).lent
    assert lent is not None
    driver = lent._database._engine.dialect
    roll_back, commit = driver.do_rollback, driver.do_commit

    def hold(*arguments: Any) -> None:
        if "INTO sequitur_turns" in arguments[2]:
            reached.set()
            rolled_back.wait(1)  # nobody may do so before this thread is through

    def wait_for_it(connection: Any) -> None:
        roll_back(connection)
        if reached.is_set():
            rolled_back.set()
            done.wait(1)

    def note(connection: Any) -> None:
        commit(connection)
        done.set()

    event.listen(lent._database._engine, "before_cursor_execute", hold)
    monkeypatch.setattr(driver, "do_rollback", wait_for_it)
    monkeypatch.setattr(driver, "do_commit", note)
    held.log.append("a", 1)
    held.start()
    await held.until(reached.is_set)
    await held.runner.stop(0)

    await held.new_sql_run(url)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    await held.runner.stop(1)
    assert booked(url) == [("a", 1)]
    assert held.out("out") == [1]


async def test_a_statement_that_fails_fails_the_attempt_though_the_handler_catches_it(
    url: str,
) -> None:
    tried = 0

    async def handler(event: Event) -> AsyncIterator[Emit]:
        nonlocal tried
        tried += 1
        async for each in book(event):
            try:
                await event.connection.execute("select * from nowhere")  # type: ignore[attr-defined]
            except Exception:
                yield each

    held = partition(handler)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    await held.new_sql_run(url)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert booked(url) == [] == held.out("out")
    assert len(held.out("t.errors")) == 1 == tried
    await held.runner.stop(1)


@pytest.mark.parametrize("threads", [False, True])
async def test_who_is_later_gives_way_to_who_is_older_and_needs_its_lock(
    url: str, threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lent_database._LIMITS, "lock", "1h")
    add = "update sums set n = n + 1 where id = 'all'"
    later = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if event.content == b"0":
            await later.wait()
        await event.connection.execute(add)  # type: ignore[attr-defined]
        later.set()
        yield Emit("out", event.stream, event.content)

    def in_thread(event: Event) -> Iterator[Emit]:
        if event.content == b"0":
            asyncio.run_coroutine_threadsafe(later.wait(), loop).result(150)
        event.connection.execute(add)  # type: ignore[attr-defined]
        loop.call_soon_threadsafe(later.set)
        yield Emit("out", event.stream, event.content)

    held = partition(
        in_thread if threads else handler, workers=4, older=wait_and_roll_back(wait=30)
    )
    await held.new_sql_run(url)
    for number in range(6):
        held.log.append(f"s{number}", number)
    held.start()
    await held.until(lambda: held.runner.core.position == 6)
    assert rows(url, "select n from sums") == [(6,)]
    assert held.out("out") == list(range(6))
    counts = held.runner.core.counts
    assert counts.rolled_back >= 1
    assert counts.failed == counts.unsettled == 0, "nobody waited until a time-out"
    await held.runner.stop(1)


async def test_a_partition_that_was_taken_over_commits_nothing_any_more(url: str) -> None:
    held = partition(book)
    await held.new_sql_run(url)
    zombie = held.runner
    held.log.append("a", 1)
    await held.new_sql_run(url)
    newer = held.runner
    held.runner = zombie
    held.start()
    with pytest.raises(TableFenced, match="taken over"):
        await held.until(lambda: False)
    assert booked(url) == [] == held.units
    held.runner = newer
    held.log.at = 0
    held.start()
    await held.until(lambda: newer.core.position == 1)
    assert booked(url) == [("a", 1)]
    await newer.stop(1)


async def test_rows_of_turns_are_deleted_once_kafka_is_past_them(url: str) -> None:
    held = partition(book)
    await held.new_sql_run(url)
    held.start()
    for number in range(20):
        held.log.append("a", number)
        await held.until(lambda until=number + 1: held.runner.core.position == until)  # type: ignore[misc]
    await held.runner.stop(1)
    assert rows(url, "select count(*) from sequitur_turns where position >= 0") == [(1,)]
    await held.new_sql_run(url)
    assert rows(url, "select count(*) from sequitur_turns where position >= 0") == [(0,)]
    assert held.runner.lent is not None
    await held.runner.lent.close()


async def test_the_next_event_of_a_stream_sees_what_the_one_before_it_has_written(url: str) -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        found = await event.connection.execute("select count(*) from booked")  # type: ignore[attr-defined]
        before = found.scalar()
        async for _ in book(event):
            yield Emit("out", event.stream, before)

    held = partition(handler)
    await held.new_sql_run(url)
    for number in range(5):
        held.log.append("a", number)
    held.start()
    await held.until(lambda: held.runner.core.position == 5)
    assert held.out("out") == [0, 1, 2, 3, 4]
    await held.runner.stop(1)


@pytest.mark.parametrize("statement", ["commit", " ROLLBACK", "begin", "End;"])
async def test_a_handler_cannot_end_the_transaction(tmp_path: Path, statement: str) -> None:
    said: list[str] = []

    async def handler(event: Event) -> AsyncIterator[Emit]:
        try:
            await event.connection.execute(statement)  # type: ignore[attr-defined]
        except ValueError as error:
            said.append(str(error))
        yield Emit("out", event.stream, 1)

    held = partition(handler)
    await held.new_sql_run(f"sqlite:///{tmp_path / 'x.db'}")
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert "ordering manager's" in said[0]
    await held.runner.stop(1)


@pytest.fixture
def server_url(postgres: Postgres, unique: Callable[[str], str]) -> str:
    """A database of PostgreSQL's with the tables."""
    found = postgres.new_database(unique("turns"))
    rows(found, "create table booked (id text, n int)")
    return found


def end_all(url: str) -> None:
    """The server ends all connections to the database but this one."""
    rows(
        url,
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()",
    )


async def test_a_connection_that_is_lost_fails_no_event(server_url: str) -> None:
    lost = 0

    async def handler(event: Event) -> AsyncIterator[Emit]:
        nonlocal lost
        async for each in book(event):
            if lost < 2:
                lost += 1
                await asyncio.to_thread(end_all, server_url)
                await event.connection.execute("select 1")  # type: ignore[attr-defined]
            yield each

    held = partition(handler)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    await held.new_sql_run(server_url)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert booked(server_url) == [("a", 1)]
    assert held.runner.core.counts.failed == 0
    assert held.out("out") == [1]
    await held.runner.stop(1)


async def test_who_has_lost_its_connection_before_its_turn_is_handled_again(
    server_url: str,
) -> None:
    gate, begun = asyncio.Event(), set[bytes]()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if event.content == b"0":
            await gate.wait()
        async for each in book(event):
            begun.add(event.content)
            yield each

    held = partition(handler)
    await held.new_sql_run(server_url)
    for number in range(3):
        held.log.append(f"s{number}", number)
    held.start()
    await held.until(lambda: len(begun) == 2)
    await asyncio.to_thread(end_all, server_url)
    gate.set()
    await held.until(lambda: held.runner.core.position == 3)
    assert booked(server_url) == [(f"s{number}", number) for number in range(3)]
    assert held.out("out") == [0, 1, 2]
    await held.runner.stop(1)


async def test_an_attempt_over_its_time_limit_is_interrupted_in_its_statement(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(lent_database._LIMITS, "statement", "1h")
    begun = 0

    async def handler(event: Event) -> AsyncIterator[Emit]:
        nonlocal begun
        begun += 1
        async for each in book(event):
            if begun == 1:
                await event.connection.execute("select pg_sleep(600)")  # type: ignore[attr-defined]
            yield each

    held = partition(handler, time_limit=1.0)
    await held.new_sql_run(server_url)
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert booked(server_url) == [("a", 1)]
    active = "select query from pg_stat_activity where state = 'active' and pid <> pg_backend_pid()"
    # The server ends it by itself, once it was asked to.
    await held.until(lambda: rows(server_url, f"{active} and query like '%sleep%'") == [])
    assert held.runner.core.counts.timed_out
    await held.runner.stop(1)


async def test_what_the_database_refuses_at_the_turn_is_the_error_policys_after_three_rollbacks(
    server_url: str,
) -> None:
    rows(
        server_url,
        "alter table booked add constraint one unique (n) deferrable initially deferred",
    )
    first = asyncio.Event()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if event.stream == "b":
            await first.wait()  # so that its commit finds the row of the older one
        async for each in book(event):
            first.set()
            yield each

    held = partition(handler, workers=2)
    await held.new_sql_run(server_url)
    for name, number in (("a", 1), ("b", 1), ("c", 2)):
        held.log.append(name, number)
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    assert booked(server_url) == [("a", 1), ("c", 2)]
    assert held.out("out") == [1, 2]
    assert len(held.out("t.errors")) == 1
    await held.runner.stop(1)


async def test_a_runner_that_is_stopped_before_it_ran_keeps_no_connection(server_url: str) -> None:
    held = partition(book)
    runner = await held.new_sql_run(server_url)
    await runner.stop(0)
    others = (
        "select count(*) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid()"
    )
    # The server ends what has no client any more a moment later.
    async with asyncio.timeout(60):
        while rows(server_url, others) != [(0,)]:
            await asyncio.sleep(0.05)


async def test_the_effects_of_another_log_at_the_same_offset_are_not_taken(server_url: str) -> None:
    held = partition(book)
    await held.new_sql_run(server_url)

    def crash(unit: CommitUnit) -> None:
        raise ConnectionError("killed")

    held.on_commit = crash
    held.log.append("a", 1)
    held.start()
    with pytest.raises(ConnectionError, match="killed"):
        await held.until(lambda: False)
    held.log.records.clear()
    held.log.append("b", 2)
    held.on_commit = lambda unit: None
    await held.new_sql_run(server_url)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert held.out("out") == [2]
    assert booked(server_url) == [("a", 1), ("b", 2)]
    await held.runner.stop(1)


async def test_what_is_parked_leaves_no_sql_and_what_fails_when_it_is_redriven_takes_back_its_own(
    url: str,
) -> None:
    fails, cancelled = {1, 3}, list[int]()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        await event.compensate("cancel", event.sequence)  # type: ignore[attr-defined]
        values = {"id": event.stream, "n": event.sequence}
        await event.connection.execute("insert into booked values (:id, :n)", values)  # type: ignore[attr-defined]
        if event.sequence in fails:
            await event.connection.execute("select * from nowhere")  # type: ignore[attr-defined]
        yield Emit("out", event.stream, event.sequence)

    def cancel(arguments: Any, _: str) -> None:
        cancelled.append(arguments)

    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)
    topology.view(
        "work", of=source, workers=8, commit="stream", error=park(), handler=handler,
        database="shop", compensations={"cancel": cancel},
    )  # fmt: skip
    held = Partition(topology)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    await held.new_sql_run(url)
    for number in (1, 2, 3):
        held.log.append("a", {"n": number})
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    assert booked(url) == []
    await held.until(lambda: cancelled == [1])
    fails.remove(1)
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    await held.until(lambda: held.runner.core.position == 4 and len(cancelled) == 2)
    assert held.out("out") == [1, 2]
    assert booked(url) == [("a", 1), ("a", 2)]
    assert cancelled == [1, 3]
    await held.runner.stop(1)
