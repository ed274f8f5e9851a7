"""SQL at the turn: what is no event's doing fails none, and what would commit early is refused."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from aiokafka import TopicPartition
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from stores.db.engines import parsed_url
from tests.topology.faust.worker.ordered.in_memory import Partition
from tests.topology.faust.worker.ordered.test_sql_at_the_turn import (
    book,
    booked,
    partition,
    rows,
    url,  # noqa: F401
)
from topology import Emit, Event, Inspector, Topology, key, park
from topology.declaration.ordered_stage import RELEASE
from topology.faust.worker.ordered import lent_database
from topology.faust.worker.ordered.lease import DatabaseAway, checked_statement, or_away
from topology.faust.worker.ordered.lent_connections import LentConnections
from topology.ordered_commit import Grant

on_postgresql = pytest.mark.parametrize(
    "url", [pytest.param("postgresql", marks=pytest.mark.integration)], indirect=True
)


@pytest.mark.parametrize(
    "statement",
    [
        "/* a */ COMMIT",
        "-- a\nrollback",
        " ; End",
        "select 'a''b'; commit",
        text("COMMIT"),
        "prepare transaction 'x'",
    ],
)
def test_what_ends_the_transaction_is_refused_wherever_it_stands(statement: Any) -> None:
    with pytest.raises(ValueError, match="ordering manager"):
        checked_statement(statement)


@pytest.mark.parametrize(
    "statement",
    ["select '; commit'", "rollback to savepoint a", "select $a$ ; commit $a$", "/*;end*/ select"],
)
def test_what_only_speaks_of_it_is_not(statement: str) -> None:
    checked_statement(statement)


async def test_a_statement_that_runs_on_when_its_handler_ends_fails_the_attempt(
    url: str,  # noqa: F811
) -> None:
    running = set()

    async def handler(event: Any) -> list[Emit]:
        running.add(asyncio.create_task(event.connection.execute("select 1")))
        await asyncio.sleep(0)
        return []

    held = partition(handler)
    await held.new_sql_run(url)
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert "await each of them" in held.out("t.errors")[0]["error"]
    await held.runner.stop(1)
    await asyncio.gather(*running, return_exceptions=True)


async def test_a_statement_that_was_cancelled_goes_before_the_one_that_takes_it_back(
    url: str,  # noqa: F811
) -> None:
    lent = LentConnections(url, "t.work", TopicPartition("in", 0), 1)
    await lent.open(lambda offset: False)
    reached, overtaken, order = threading.Event(), threading.Event(), []

    def hold(*arguments: Any) -> None:
        if "ROLLBACK TO" in arguments[2]:
            overtaken.set()
        elif "insert" in arguments[2]:
            reached.set()
            overtaken.wait(0.5)

    event.listen(lent._database._engine, "before_cursor_execute", hold)
    event.listen(
        lent._database._engine, "after_cursor_execute", lambda *given: order.append(given[2])
    )
    grant = Grant(1, (cast(Any, SimpleNamespace(offset=0)),), 0.0)
    back = await lent.savepoint(grant)
    insert = asyncio.create_task(lent.execute(grant, "insert into booked values ('a', 1)"))
    await asyncio.to_thread(reached.wait)
    insert.cancel()
    await asyncio.gather(insert, return_exceptions=True)
    await back()
    found = await lent.execute(grant, "select * from booked")
    assert [statement.split()[0] for statement in order][-3:] == ["insert", "ROLLBACK", "select"]
    assert found.all() == []
    await lent.close()


@pytest.mark.parametrize("wraps", [False, True])
async def test_what_a_server_can_do_for_no_event_fails_none(
    url: str,  # noqa: F811
    wraps: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("topology.faust.worker.ordered.settling.AWAY", 0.01)
    limit = "set transaction read only" if url.startswith("p") else "pragma max_page_count = 1"
    limits = [limit] * 6 + ["select 1" if url.startswith("p") else "pragma max_page_count = 9999"]

    async def handler(event: Any) -> AsyncIterator[Emit]:
        await event.connection.execute(limits.pop(0))
        try:
            await event.connection.execute(
                "insert into booked values (:x, 1)", {"x": "x" * 100_000}
            )
        except Exception as error:
            if wraps:
                raise RuntimeError("could not book") from error
            raise
        yield Emit("out", event.stream, 1)

    held = partition(handler)
    await held.new_sql_run(url)
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert held.out("out") == [1]
    await held.runner.stop(1)


async def test_a_redrive_while_the_database_is_away_is_made_once_it_is_back(
    url: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("topology.faust.worker.ordered.settling.AWAY", 0.01)
    topology, tries = Topology("t"), itertools.count()
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)

    async def handler(event: Any) -> AsyncIterator[Emit]:
        if held.runner.core.position == 0:
            raise ValueError("boom")
        if next(tries) < 6:
            raise DatabaseAway("is starting up")
        await event.connection.execute("insert into booked values ('a', 1)")
        yield Emit("out", event.stream, 1)

    topology.view(
        "work", of=source, workers=2, database="shop", error=park(), handler=handler
    )  # fmt: skip
    held = Partition(topology)
    await held.new_sql_run(url)
    held.log.append("a", {"n": 1})
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    await held.until(lambda: held.runner.core.position == 2)
    assert held.out("out") == [1]
    assert booked(url) == [("a", 1)]
    await held.runner.stop(1)


@on_postgresql
@pytest.mark.parametrize("where", ["handler", "turn"])
async def test_a_transaction_that_the_server_ends_as_idle_is_its_attempts_failure(
    url: str,  # noqa: F811
    where: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(lent_database._LIMITS, "idle", "200ms")

    async def handler(event: Event) -> AsyncIterator[Emit]:
        number = orjson.loads(event.content)
        if where == "turn" and number == 0:
            await asyncio.sleep(0.8)
        async for each in book(event):
            if where == "handler" and number == 0:
                await asyncio.sleep(0.5)
                await event.connection.execute("select 1")  # type: ignore[attr-defined]
            yield each

    held = partition(handler)
    await held.new_sql_run(url)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: held.runner.core.position == 2)
    assert held.out("out") == ([1] if where == "handler" else [0, 1])
    assert len(held.out("t.errors")) == (where == "handler")
    await held.runner.stop(1)


@on_postgresql
async def test_a_database_whose_default_is_stricter_rolls_no_turn_back_for_the_one_before_it(
    url: str,  # noqa: F811
) -> None:
    name = parsed_url(url).database
    rows(url, f"alter database \"{name}\" set default_transaction_isolation = 'repeatable read'")
    held = partition(book)
    await held.new_sql_run(url)
    for number in range(50):
        held.log.append(f"k{number}", number)
    held.start()
    await held.until(lambda: held.runner.core.position == 50)
    assert held.runner.core.counts.rolled_back == 0
    assert len(booked(url)) == 50
    await held.runner.stop(1)


@on_postgresql
async def test_locks_of_an_owner_whose_host_is_gone_go_with_the_partition(
    url: str,  # noqa: F811
) -> None:
    """It said nothing when it went, so the server goes on with its transactions."""
    source = TopicPartition("in", 0)
    gone, other, heir = (
        LentConnections(url, "t.work", each, 2)
        for each in (source, TopicPartition("in", 1), source)
    )
    grant = Grant(1, (cast(Any, SimpleNamespace(offset=0)),), 0.0)
    add = "update sums set n = n + 1"
    for lent in (gone, other):
        await lent.open(lambda offset: False)
    await other.execute(grant, "insert into booked values ('b', 2)")
    await gone.execute(grant, add)
    await heir.open(lambda offset: False)
    await heir.execute(grant, add)
    assert (await heir.execute(grant, "select n from sums")).scalar() == 1
    assert len((await other.execute(grant, "select * from booked")).all()) == 1
    for lent in (gone, other, heir):
        await lent.close()


def test_a_statement_that_the_driver_refuses_is_no_database_that_is_away() -> None:
    """As one with more than 65,535 parameters: it would be tried for ever."""

    def refuses() -> None:
        raise OperationalError("SELECT", {}, Unsaid("number of parameters must be below 65536"))

    def away() -> None:
        raise OperationalError(None, None, Unsaid("connection refused"))

    with pytest.raises(OperationalError, match="number of parameters"):
        or_away(refuses)
    with pytest.raises(DatabaseAway, match="refused"):
        or_away(away)


class Unsaid(Exception):
    """As psycopg says what no server has said."""

    sqlstate = None
