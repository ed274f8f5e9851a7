"""A database that is away: what is told of it, and what is an event's own doing after all."""

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.topology.faust.worker.ordered.in_memory import TOPIC, Partition
from tests.topology.faust.worker.ordered.test_sql_at_the_turn import (
    book,
    booked,
    partition,
    rows,
    url,  # noqa: F401
)
from topology import Emit
from topology.engine.state.rows import WORK
from topology.engine.state.work_status import decode_work_status
from topology.faust.worker.ordered.lease import DatabaseAway
from topology.faust.worker.watch.worker_metrics import databases

on_sqlite, on_postgresql = (
    pytest.mark.parametrize("url", [which], indirect=True)
    for which in ("sqlite", pytest.param("postgresql", marks=pytest.mark.integration))
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("topology.faust.worker.ordered.settling.AWAY", 0.01)


def away(held: Partition) -> str | None:
    return decode_work_status(held.table.get(WORK)).away


@on_sqlite
async def test_it_is_told_until_it_is_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("topology.faust.worker.ordered.stage_status.EVERY", 0.01)
    held = partition(book)
    lent = (await held.new_sql_run(url)).lent
    assert lent is not None
    database, begun, lost = lent._database, lent._database.begun, True

    def starts() -> None:
        raise DatabaseAway("is starting up")

    def refused(lease: Any) -> Any:
        return database.in_thread(starts) if lost else begun(lease)

    monkeypatch.setattr(database, "begun", refused)
    held.log.append("a", 1)
    held.start()
    worker: Any = [SimpleNamespace(runners={TOPIC: held.runner})]
    await held.until(lambda: away(held) == "is starting up")
    assert databases(worker) == {"work": "is starting up"}
    lost = False
    await held.until(lambda: held.runner.core.position == 1)
    await held.until(lambda: away(held) is None)
    assert databases(worker) == {"work": None}
    lent.away = "an event that has failed ended its connection"
    assert databases(worker) == {"work": None}, "nothing is in hand that would ask again"
    await held.runner.stop(1)
    assert held.out("out") == [1]


@on_sqlite
async def test_who_else_locks_the_file_fails_no_event(
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stores.db.engines.BUSY", 0.01)
    held = partition(book)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    await held.new_sql_run(url)
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("begin immediate")
    held.log.append("a", 1)
    held.start()
    await held.until(lambda: "locked" in (away(held) or ""))
    await asyncio.sleep(0.1)
    other.execute("rollback")
    await held.until(lambda: held.runner.core.position == 1)
    await held.runner.stop(1)
    assert booked(url) == [("a", 1)]
    assert held.out("out") == [1]
    assert held.runner.core.counts.failed == 0


@on_postgresql
async def test_an_event_that_ends_its_connection_each_time_has_failed(
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("topology.faust.worker.ordered.lent_connections.LOST", 3)

    async def handler(event: Any) -> AsyncIterator[Emit]:
        if event.stream == "a":
            await event.connection.execute("select pg_terminate_backend(pg_backend_pid())")
        async for each in book(event):
            yield each

    held = partition(handler)
    await held.new_sql_run(url)
    held.log.append("a", 1)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 2)
    await held.runner.stop(1)
    assert "terminating connection" in held.out("t.errors")[0]["error"]
    assert booked(url) == [("b", 1)]
    assert held.runner.lent is not None
    assert held.runner.lent.away is None, "it was the event's own doing"


@on_postgresql
async def test_only_the_event_that_crashes_the_server_has_failed(
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those beside it lose their connections as often, and so does what waits for its turn."""
    monkeypatch.setattr("topology.faust.worker.ordered.lent_connections.LOST", 3)
    crashes = 0

    async def handler(event: Any) -> AsyncIterator[Emit]:
        nonlocal crashes
        execute = event.connection.execute
        if event.stream == "bad":
            await asyncio.sleep(0.2)
            process = (await execute("select pg_backend_pid()")).scalar()
            crashes += 1
            os.kill(process, signal.SIGKILL)
            await execute("select 1")
        elif event.stream == "slow":
            await execute("select pg_sleep(0.4)")
        async for each in book(event):
            yield each

    held = partition(handler)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    for number, name in enumerate(("a", "slow", "b", "bad", "c", "slow")):
        held.log.append(name, number)
    async with asyncio.timeout(120):
        while held.runner.core.position < 6:
            try:
                await held.new_sql_run(url)
                held.start()
                await held.until(lambda: held.runner.core.position == 6)
            except DatabaseAway:
                await asyncio.sleep(0.1)
            finally:
                await held.runner.stop(1)
    assert {each["stream"] for each in held.out("t.errors")} == {"bad"}
    assert crashes == 4
    assert booked(url) == [("a", 0), ("slow", 1), ("b", 2), ("c", 4), ("slow", 5)]
    assert held.losses[TOPIC] == {}


@on_postgresql
async def test_an_event_whose_commit_ends_its_connection_each_time_has_failed(
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a commit has done is known when the partition has started again."""
    monkeypatch.setattr("topology.faust.worker.ordered.lent_connections.LOST", 2)
    for statement in (
        "create function ends() returns trigger language plpgsql as $$ begin "
        "perform pg_terminate_backend(pg_backend_pid()); return null; end $$",
        "create constraint trigger ends after insert on booked deferrable initially deferred "
        "for each row when (new.id = 'bad') execute function ends()",
    ):
        rows(url, statement)
    held, starts = partition(book), 0
    for number, name in enumerate(("a", "bad", "b")):
        held.log.append(name, number)
    async with asyncio.timeout(60):
        while held.runner.core.position < 3:
            try:
                starts += 1
                await held.new_sql_run(url)
                held.start()
                await held.until(lambda: held.runner.core.position == 3)
            except DatabaseAway:
                await asyncio.sleep(0.05)
            finally:
                await held.runner.stop(1)
    assert starts == 4
    assert [each["stream"] for each in held.out("t.errors")] == ["bad"]
    assert booked(url) == [("a", 0), ("b", 2)]


@on_postgresql
async def test_a_turn_that_is_refused_on_a_connection_that_is_there_starts_the_partition_again(
    url: str,  # noqa: F811
) -> None:
    """As on a server that only reads by now: to try again at once would be for ever."""
    only_reads = True

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.connection.execute("select 1")
        if only_reads:
            await event.connection.execute("set transaction read only")
        yield Emit("out", event.stream, 1)

    held = partition(handler)
    await held.new_sql_run(url)
    held.log.append("a", 1)
    held.start()
    with pytest.raises(DatabaseAway, match="read-only"):
        await held.until(lambda: held.runner.core.position == 1)
    await held.runner.stop(1)
    only_reads = False
    await held.new_sql_run(url)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    await held.runner.stop(1)
    assert held.out("out") == [1]
