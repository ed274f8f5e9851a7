"""Chaos with SQL and compensations: the database has what was put out, once and in order."""

import asyncio
import itertools
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import orjson
import pytest
from sqlalchemy import text

from checkout.postgres import Postgres
from stores.db.engines import open_engine
from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import Emit, Topology, wait_and_roll_back
from topology.engine.commit_unit import CommitUnit
from topology.engine.state.rows import INTENTS

EVENTS = 30


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def url(request: pytest.FixtureRequest, tmp_path: Path, unique: Callable[[str], str]) -> str:
    found = f"sqlite:///{tmp_path / 'shop.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        found = server.new_database(unique("chaos"))
    return found


@pytest.mark.parametrize("commit", ["arrival", "stream"])
@pytest.mark.parametrize("seed", [7, 8, 9])
async def test_the_database_and_the_outputs_are_the_same_whatever_happens(
    seed: int, commit: Literal["arrival", "stream"], url: str
) -> None:
    chance = random.Random(seed)
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table done (stream text, n int, attempt int)"))
        connection.execute(text("create table sums (id text primary key, n int)"))
        connection.execute(text("insert into sums values ('a', 0), ('b', 0)"))
    called: list[int] = []
    numbers = itertools.count()
    cancelled: list[int] = []

    async def cancel(arguments: Any, key: str) -> None:
        if chance.random() < 0.2:
            raise ConnectionError("away")
        cancelled.append(arguments)

    async def handler(event: Any, state: dict[str, Any]) -> AsyncIterator[Emit]:
        attempt = next(numbers)
        await event.compensate("cancel", attempt)
        called.append(attempt)
        # Two rows that are locked in either order.
        for name in chance.sample(("a", "b"), 2):
            await event.connection.execute("update sums set n = n + 1 where id = :id", {"id": name})
            await asyncio.sleep(chance.choice((0, 0.001, 0.005)))
        if chance.random() < 0.1:
            raise TimeoutError("a call")
        values = {"stream": event.stream, "n": orjson.loads(event.content), "attempt": attempt}
        await event.connection.execute("insert into done values (:stream, :n, :attempt)", values)
        state["seen"] = [*state.get("seen", ()), attempt]
        yield Emit("out", event.stream, [event.stream, values["n"], state["seen"]])

    topology = Topology("t")
    topology.parallel(
        "work", topic="in", workers=6, commit=commit, handler=handler, database="shop",
        older=wait_and_roll_back(0.2), compensations={"cancel": cancel},
    )  # fmt: skip
    held = Partition(topology)
    for name in ("retries", "rollbacks"):
        object.__setattr__(held.stage.work.rules, name, 1_000)
    object.__setattr__(held.stage.work.rules, "backoff", 0.001)

    def breaks(_: CommitUnit) -> None:
        if chance.random() < 0.05:
            raise ConnectionError("the broker is gone")

    for number in range(EVENTS):
        held.log.append(f"s{chance.randrange(6)}", number)
    held.on_commit = breaks
    for _ in range(4):
        await held.new_sql_run(url)
        held.start()
        await asyncio.sleep(chance.random() * 0.3)
        await held.runner.stop(chance.choice((0, 1)))
    held.on_commit = lambda unit: None
    await held.new_sql_run(url)
    held.start()
    await held.until(
        lambda: held.runner.core.position == EVENTS and not list(held.table.scan(*INTENTS))
    )
    await held.runner.stop(1)

    with engine.begin() as connection:
        done = [tuple(row) for row in connection.execute(text("select * from done"))]
        sums = [row.n for row in connection.execute(text("select n from sums"))]
    engine.dispose()
    out = held.out("out")
    assert sums == [EVENTS, EVENTS]
    assert sorted(n for _, n, _ in done) == list(range(EVENTS))
    attempts = {n: attempt for _, n, attempt in done}
    by_stream: dict[str, list[int]] = defaultdict(list)
    for stream, n, seen in out:
        by_stream[stream].append(n)
        assert seen == [attempts[each] for each in by_stream[stream]]
    expected: dict[str, list[int]] = defaultdict(list)
    for number, record in enumerate(held.log.records):
        expected[(record.key or b"").decode()].append(number)
    assert by_stream == expected
    if commit == "arrival":
        assert [n for _, n, _ in out] == list(range(EVENTS))
    kept = set(attempts.values())
    assert set(called) - kept <= set(cancelled), "what came to nothing is compensated"
    assert not kept & set(cancelled), "what is committed is not"
