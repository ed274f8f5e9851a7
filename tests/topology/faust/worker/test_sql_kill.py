"""A worker killed between the commit of the database and Kafka's: exactly once on both."""

import random
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from checkout.postgres import Postgres
from stores.db.engines import open_engine
from tests.topology.faust.worker_process import Worker

pytestmark = pytest.mark.integration

APP = """
import asyncio, os, random, signal, uuid
from pathlib import Path
from topology import Emit, Inspector, Topology, key
from topology.faust import compile
from topology.faust.worker.ordered.ordered_runner import OrderedRunner

prefix, folder = os.environ["PREFIX"], Path(__file__).parent
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq"), keyed=True, partitions=2
)


def cancel(arguments, key):
    with (folder / "cancelled").open("a") as file:
        file.write(f"{key} {arguments['token']}\\n")


@topology.view(
    "board", of=source, workers=8, commit=os.environ["COMMIT"], database="shop",
    compensations={"cancel": cancel},
)
async def board(event, state):
    token = uuid.uuid4().hex  # no two attempts put out the same
    await event.compensate("cancel", {"token": token})
    with (folder / "called").open("a") as file:
        file.write(f"{event.idempotency_key} {token}\\n")
    execute = event.connection.execute
    await execute("update sums set n = n + 1 where id = :id", {"id": event.stream})
    await asyncio.sleep(random.random() / 100)
    values = {"stream": event.stream, "seq": event.sequence, "token": token}
    await execute("insert into done values (:stream, :seq, :token)", values)
    state["tokens"] = [*state.get("tokens", ()), token]
    yield Emit(prefix + ".out", event.stream, {"seq": event.sequence, "tokens": state["tokens"]})


commit_sql, turns = OrderedRunner._commit_sql, 0


async def then_die(self, lent, taken):
    global turns
    done = await commit_sql(self, lent, taken)
    turns += len(taken)
    if turns >= int(os.environ["DIES_AFTER"]) and lent.committed:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


OrderedRunner._commit_sql = then_die
app = compile(topology, group=prefix, session_timeout=60)
"""
STREAMS, EACH = 10, 12


@pytest.mark.parametrize(("kind", "commit"), [("postgresql", "arrival"), ("sqlite", "stream")])
def test_a_kill_between_the_two_commits_does_nothing_twice_and_loses_nothing(
    worker: Worker, kind: str, commit: str, unique: Callable[[str], str],
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    url = database(kind, worker.folder, unique, request)
    given = {"COMMIT": commit, "SEQUITUR_DATABASE_SHOP": url}
    worker.start(**given, DIES_AFTER="20")
    chance = random.Random(8)
    names = [f"s{number}" for number in range(STREAMS) for _ in range(EACH)]
    chance.shuffle(names)
    last: dict[str, int] = defaultdict(int)
    messages: list[tuple[bytes, bytes]] = []
    for name in names:
        last[name] += 1
        messages.append((name.encode(), orjson.dumps({"seq": last[name]})))
    worker.send(*messages)
    assert worker.process is not None
    assert worker.process.wait(150) == -signal.SIGKILL
    assert len(rows(url, "select * from done")) > len(worker.records("out"))
    worker.start(**given, DIES_AFTER="100000")
    out = [orjson.loads(record.value() or b"") for record in worker.wait("out", STREAMS * EACH)]

    done = rows(url, "select stream, seq, token from done")
    assert len(done) == STREAMS * EACH
    assert {(stream, seq) for stream, seq, _ in done} == {
        (stream, seq) for stream in last for seq in range(1, EACH + 1)
    }
    assert rows(url, "select distinct n from sums") == [(EACH,)]
    tokens = {(stream, seq): token for stream, seq, token in done}
    for record, value in zip(worker.records("out"), out, strict=True):
        stream = (record.key() or b"").decode()
        assert value["tokens"] == [tokens[stream, seq] for seq in range(1, value["seq"] + 1)]
    # Each call is of what is committed, or it has been compensated.
    called = set((worker.folder / "called").read_text().splitlines())
    kept = {call for call in called if call.split()[1] in set(tokens.values())}
    worker.wait_until(lambda: cancelled(worker) >= called - kept)
    assert not cancelled(worker) & kept
    assert len(kept) == STREAMS * EACH
    assert worker.end(signal.SIGTERM) == 0


def cancelled(worker: Worker) -> set[str]:
    file = worker.folder / "cancelled"
    return set(file.read_text().splitlines()) if file.exists() else set()


def database(
    kind: str, folder: Path, unique: Callable[[str], str], request: pytest.FixtureRequest
) -> str:
    url = f"sqlite:///{folder / 'shop.db'}"
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.new_database(unique("kill"))
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table done (stream text, seq int, token text)"))
        connection.execute(text("create table sums (id text primary key, n int)"))
        for number in range(STREAMS):
            connection.execute(text("insert into sums values (:id, 0)"), {"id": f"s{number}"})
    engine.dispose()
    return url


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = open_engine(url)
    try:
        with engine.begin() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()


def test_a_worker_without_the_url_of_its_database_says_which_variable_is_missing(
    worker: Worker,
) -> None:
    worker.start(COMMIT="stream", DIES_AFTER="1")
    assert worker.process is not None
    assert worker.process.wait(150) != 0
    said = worker.log_file.read_text()
    assert "SEQUITUR_DATABASE_SHOP is not set" in said
    worker.process = None


def test_a_database_that_is_away_at_the_start_is_told_until_it_is_there(
    worker: Worker, nobody: str, unique: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    away = {
        "COMMIT": "stream", "DIES_AFTER": "100000",
        "SEQUITUR_DATABASE_SHOP": f"postgresql://shop@{nobody}/shop",
    }  # fmt: skip
    worker.start(**away)
    worker.send((b"s0", b'{"seq": 1}'))
    worker.wait_until(lambda: "its database is away" in worker.run("gaps", **away).stdout)
    explained = worker.run("explain", "s0", **away)
    assert explained.returncode == 1
    assert "the database of view board is away: connection failed" in explained.stdout
    assert worker.end(signal.SIGTERM) == 0
    url = database("sqlite", worker.folder, unique, request)
    worker.start(**{**away, "SEQUITUR_DATABASE_SHOP": url})
    worker.wait("out", 1)
    worker.wait_until(lambda: worker.run("gaps", **away).returncode == 0)
