"""The bench of the replay log: ingest, counts and pages, on SQLite and PostgreSQL, beside goals."""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import orjson
from rich.console import Console
from sqlalchemy import text

from bench import machine
from bench.cluster import Cluster, Sent
from bench.delivery.stage import SETTINGS
from bench.engine import broker_of
from bench.options import Options
from bench.report import Grid, machine_grid, number
from checkout.postgres import Postgres
from sequitur.replay.capture import inbound
from sequitur.replay.content import Contents
from sequitur.replay.replay_file import ReplayFile
from stores.replay import CapturedMessage, Query, ReplayLog
from stores.replay.capture import TopicCapture
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replaying import Replaying
from stores.replay.replays import ReplayRequest, Replays
from stores.replay.writing import PERIOD
from stores.segments.transports.kafka import KafkaOutbound
from topology.model.collector import collect_seldom

SIZE, BATCH, PARTITIONS, PLANES = 500, 5_000, 4, 4_000
REPLAYED = 200_000
"""Messages, at most, that are replayed; of those captured from Kafka one ends a period."""
INGEST, COUNT, COUNTED = 37_500, 1.0, 10_000_000
"""Goals: messages a second, at least, on one core; seconds of a count of so many, below."""
PARTS = 5
"""Of what is appended, by which is seen whether it becomes slower."""
QUERIES: Mapping[str, dict[str, Any]] = {
    "a text, one message of 4,000": {"where": [["tail", "=", "N7"]]},
    "a number, nearly all of them": {"where": [["delay", ">=", 0]]},
    "a number, in a topic": {"where": [["delay", ">=", 0]], "topics": ["moves"]},
    "two fields": {"where": [["tail", "=", "N7"], ["delay", ">", 60]]},
    "a stream, ten sequences": {"streams": ["N7"], "sequences": [10, 19]},
}


def run(options: Options, console: Console) -> int:
    """Returns the exit status."""
    collect_seldom()  # as the processes do that capture and replay
    before = machine.load()
    with (
        broker_of(options, console) as broker,
        tempfile.TemporaryDirectory(dir=options.folder, prefix="replay-") as folder,
        Postgres(SETTINGS) as server,
    ):
        urls = {"SQLite": f"sqlite:///{folder}/log.db", "PostgreSQL": server.new_database("log")}
        used = {"SQLite": lambda: 0.0, "PostgreSQL": lambda: machine.family_cpu(server.pid)}
        found = {
            name: _measured(url, broker, options.events, used[name], console)
            for name, url in urls.items()
        }
    goals, counts, rates = [], [], []
    for name, each in found.items():
        for what, words in (("cpu", "into the log"), ("kafka cpu", "captured from Kafka")):
            met = "met" if each[what] >= INGEST else "not met"
            goals.append([f"{name}: messages per second of CPU, {words}", f"at least {INGEST:,}",
                          number(each[what], 0), met])  # fmt: skip
        slowest = max(each[query] for query in QUERIES)
        met = "met" if slowest < COUNT else "not met"
        met = met if options.events >= COUNTED else f"{met}, but of {options.events:,} only"
        goals.append([f"{name}: count of {COUNTED:,} by metadata, s", f"below {COUNT:.0f}",
                      number(slowest, 2), met])  # fmt: skip
        counts.append([name, *(number(each[query] * 1000, 1) for query in QUERIES)])
        whole = (number(each[what], 0) for what in _WHOLE)
        rates.append([name, *whole, *(number(each[what] * 1000, 1) for what in ("first", "deep"))])
    facts = machine.facts() | {
        "messages": f"{options.events:,}",
        "PostgreSQL": "18, " + ", ".join(f"{name}={value}" for name, value in SETTINGS.items()),
        "load average before and after": f"{before}, {machine.load()}",
    }
    grids = {
        "Goals": Grid(["goal", "bound", "measured", ""], goals),
        "Counts, in milliseconds": Grid(["by", *QUERIES], counts),
        "Ingest, replay, size and pages": Grid(
            ["", "messages/s", "per second of CPU", "in the first fifth", "in the last fifth",
             "captured from Kafka, messages/s", "per second of CPU",
             "replayed into Kafka, messages/s", "bytes of a message", "page of 100, ms",
             "the last page, ms"], rates
        ),
        "Where": machine_grid(facts),
    }  # fmt: skip
    for title, grid in grids.items():
        console.print(grid.rich(title))
    parts = [f"## {title}\n\n{grid.markdown()}" for title, grid in grids.items()]
    options.page.write_text("\n\n".join([_HEAD, *parts]) + "\n")
    console.print(f"written: {options.page}")
    return 0


def _measured(
    url: str, broker: str, count: int, used: Callable[[], float], console: Console
) -> dict[str, float]:
    file = ReplayFile.model_validate(
        {
            "replay": {"database": url, "site": "ewr"},
            "field": {"tail": {"path": "tail"}, "delay": {"kind": "integer", "path": "delay"}},
            "stream": {"*": {"stream": "tail", "sequence": "leg"}},
        }
    )
    log = file.log()
    parts = [each for each in _fill(log, count, used) if each[1]]
    seconds, cpu = (sum(each) for each in zip(*parts, strict=True))
    found = {"rate": count / seconds, "cpu": count / cpu, "bytes": _bytes(log, url) / count}
    for name, each in (("early", parts[0]), ("late", parts[-1])):
        found[name] = count / len(parts) / each[1]
    _settle(log)
    for name, given in QUERIES.items():
        query = Query.from_json(given)
        found[name] = _seconds(lambda query=query: log.count(query))  # type: ignore[misc]
    found["first"] = _seconds(lambda: log.page(Query(), 100))
    found["deep"] = _seconds(lambda: log.page(Query(after=count - 100), 100))
    captured = _captured(file, log, broker, min(count, PERIOD), used)
    found["kafka"], found["kafka cpu"] = asyncio.run(captured)
    found["replay"] = asyncio.run(_replayed(log, broker, min(count, REPLAYED)))
    log.engine.dispose()
    console.print(f"{url.partition(':')[0]}: {found['rate']:,.0f}/s into the log")
    return found


def _body(number: int, chance: random.Random) -> dict[str, Any]:
    tail = f"N{number % PLANES}"
    body = {"tail": tail, "leg": number // PLANES, "delay": chance.randrange(-20, 500)}
    return {**body, "pad": "x" * (SIZE - len(orjson.dumps(body)) - 9)}


def _fill(log: ReplayLog, count: int, used: Callable[[], float]) -> list[tuple[float, float]]:
    """Returns the seconds, and those of CPU, of appending alone, of each fifth.

    used: seconds of CPU of a server, whatever it does.
    """
    chance, parts, served = random.Random(16), [(0.0, 0.0)] * PARTS, used()
    for first in range(0, count, BATCH):
        bodies = [_body(n, chance) for n in range(first, min(first + BATCH, count))]
        some = [
            CapturedMessage(
                *("moves", n % PARTITIONS, n // PARTITIONS, orjson.dumps(body)),
                time=1_357_000_000_000 + n * 10,
                key=body["tail"].encode(),
                site="ewr",
                stream=body["tail"],
                sequence=body["leg"],
                metadata={"tail": body["tail"], "delay": body["delay"]},
            )
            for n, body in enumerate(bodies, first)
        ]
        begun, before = time.perf_counter(), time.process_time()
        log.append("moves", some, {0: first})
        seconds, cpu = parts[part := first * PARTS // count]
        seconds, cpu = seconds + time.perf_counter() - begun, cpu + time.process_time() - before
        if (first + BATCH) * PARTS // count > part:
            served, before = used(), served
            cpu += served - before
        parts[part] = seconds, cpu
    return parts


def _settle(log: ReplayLog) -> None:
    """What a database does by itself a minute later."""
    statement = "VACUUM ANALYZE" if log.engine.dialect.name == "postgresql" else "ANALYZE"
    with log.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text(statement))


def _seconds(work: Callable[[], object]) -> float:
    """The median of five; the first one does not count."""
    work()
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return median(found)


def _bytes(log: ReplayLog, url: str) -> float:
    if log.engine.dialect.name != "postgresql":
        return float(Path(url.removeprefix("sqlite:///")).stat().st_size)
    with log.engine.connect() as connection:
        found: int = connection.execute(
            text("SELECT pg_database_size(current_database())")
        ).scalar_one()
    return float(found)


async def _captured(
    file: ReplayFile, log: ReplayLog, broker: str, count: int, used: Callable[[], float]
) -> tuple[float, float]:
    """Messages a second, and per second of CPU, from Kafka into the log, fields found."""
    topic, chance = f"moves-{uuid4().hex[:8]}", random.Random(17)

    def messages() -> Iterator[Sent]:
        for n in range(count):
            yield b"N%d" % (n % PLANES), orjson.dumps(_body(n, chance))

    cluster = Cluster(broker)
    cluster.create({topic: PARTITIONS})
    cluster.fill(topic, messages())
    reading = inbound(topic, {"bootstrap_servers": broker})
    work = TopicCapture(log, reading, Contents(file, topic).find, site="ewr")
    begun, before = 0.0, time.process_time() + used()
    while work.counts["captured"] < count:
        await work.step(5)
        begun = begun or time.perf_counter()
    rate = (count - min(BATCH, count // 2)) / (time.perf_counter() - begun)
    per_cpu = count / (time.process_time() + used() - before)
    await work.stop()
    return rate, per_cpu


async def _replayed(log: ReplayLog, broker: str, count: int) -> float:
    """Messages a second out of the log into Kafka, each once."""
    topic, replays = f"again-{uuid4().hex[:8]}", Replays(log)
    replays.create()
    Cluster(broker).create({topic: PARTITIONS})
    query = Query(topics=("moves",), through=count)
    made = replays.preview(ReplayRequest(query, {"*": topic}, "bench", "to measure it"))
    replays.act(made.id, ReplayAction.START, "bench", "to measure it")
    replaying = Replaying(replays, made.id, KafkaOutbound({"bootstrap_servers": broker}, "bench"))
    begun = time.perf_counter()
    await replaying.run()
    seconds, ended = time.perf_counter() - begun, replays.get(made.id)
    if (ended.state, ended.done) != (ReplayState.DONE, count):
        raise RuntimeError(f"the replay is {ended.state} after {ended.done} of {count} messages")
    return count / seconds


_WHOLE = ("rate", "cpu", "early", "late", "kafka", "kafka cpu", "replay", "bytes")
_HEAD = f"""# Benchmarks of replaying

`scripts/bench replay` writes this page. A message has {SIZE} bytes of JSON; its stream, its
sequence and two fields ({PLANES:,} texts, and numbers) are columns with indexes. Batches of
{BATCH:,} messages are appended to the replay log, each in a synced transaction; then messages are
counted and pages are read, the median of five, in one process. Captured from Kafka is all of it:
consumed, fields found in the content, appended to the log that is that large already:
{PERIOD:,} messages, one of which ends a period, with its indexes and tallies. Replayed is
all of it: read, published page by page in transactions, its progress kept. Seconds of CPU are
those of this process and of the database server. Servers and
broker have the same cores as what is measured, and so has whatever else the machine does: the
load average says how far what goes by the clock is too low. The goal of ingest is what the
[router](benchmarks-routing.md) does on one core."""
