"""A topology live on Spark: the same as on Faust's runtime, and right after kills."""

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from confluent_kafka import Message as KafkaMessage
from confluent_kafka import Producer

from sequitur.local.process import tail
from stores.sinks import open_sink
from tests.conftest import BrokerAddress
from tests.topology.faust.worker_process import Worker
from tests.topology.spark.disorder import Message, disorder, encoded
from tests.topology.spark.live_process import TOLD_TO_END, LiveProcess, records, rows
from tests.topology.spark.shops import make
from topology import Topology, TopologyTestDriver

pytestmark = pytest.mark.integration

APP = """
import os
from tests.topology.spark.shops import make
from topology.faust import compile

app = compile(make(os.environ["PREFIX"]), session_timeout=60)
"""
SOURCES = {"web": 2, "desk": 1, "links": 2, "times": 2, "alerts": 4}
KILLS = int(os.environ.get("SEQUITUR_LIVE_KILLS", "1"))
"""How often the driver is killed; each time costs a start of Spark."""
SETTINGS = {"LIMIT": "0", "PACE": "0.3"}
START = 1_790_000_000_000
WAITED: list[list[Message]] = [
    [
        ("web", f"{turn}{number}", {"id": f"{turn}{number}", "n": n, "kind": kind})
        for number in range(12)
        for n, kind in ((1, "Placed"), (3, "Paid"))
    ]
    for turn in ("once", "again")
]
"""Streams in all partitions whose gap ends 1.2 s later, twice. Closed streams are forgotten after
1.5 s, of which no topic tells: when these have gone on, they are."""


@pytest.fixture
def processes() -> Iterator[list[Any]]:
    """What is killed at the end."""
    started: list[Any] = []
    yield started
    for each in started:
        if each.process is not None and each.process.poll() is None:
            each.process.kill()
            each.process.wait()


def send(broker: str, prefix: str, messages: Sequence[Message], at: int) -> None:
    producer = Producer({"bootstrap.servers": broker, "partitioner": "murmur2_random"})
    for number, (topic, stream, body) in enumerate(messages):
        producer.produce(f"{prefix}.{topic}", encoded(body), stream.encode(), timestamp=at + number)
    assert producer.flush(120) == 0


def expected(phases: Sequence[Sequence[Message]]) -> tuple[Topology, dict[str, int]]:
    """A topology, and how many records it writes to each topic, says the test driver."""
    shop = make("expected")
    driver = TopologyTestDriver(shop)
    for phase in phases:
        for topic, stream, body in phase:
            driver.pipe(f"expected.{topic}", encoded(body), key=stream)
        driver.advance(90)
    topics = [view.output for view in shop.views.values()]
    topics += [*shop.side_topics, "expected.alerts"]
    return shop, {topic: len(driver.read(topic)) for topic in topics}


def told(broker: str, prefix: str, topic: str) -> dict[bytes | None, list[Any]]:
    """Key → its records in order, as they are but for the topology's name."""
    by_key: dict[bytes | None, list[Any]] = defaultdict(list)
    for record in records(broker, f"{prefix}.{topic}"):
        value = record.value()
        if topic == "errors":
            body = orjson.loads(value or b"")
            value = orjson.dumps({**body, "traceback": body["traceback"].splitlines()[-1]})
        named: Any = record.headers() or ()
        headers = [(name, _without(prefix, found)) for name, found in named]
        by_key[record.key()].append((_without(prefix, value), headers, record.partition()))
    # Topics of one partition are written by several at once: streams have no order between them.
    return {key: sorted(sent, key=repr) if topic in APART else sent for key, sent in by_key.items()}


APART = ("malformed", "unknown", "late", "errors", "parked", "dead", "audit", "alerts")


def _without(prefix: str, found: Any) -> Any:
    return found.replace(prefix.encode(), b"PREFIX") if isinstance(found, bytes) else found


def test_the_same_disorder_comes_out_the_same_as_from_a_faust_worker(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    database: str,
    tmp_path: Path,
    processes: list[Any],
) -> None:
    messages, never = disorder(seed=11, size=130, orders=("web",), lost=0.05)
    phases = (messages, *WAITED, never)
    shop, counts = expected(phases)
    assert all(counts[f"expected.{name}"] for name in ("late", "errors", "parked", "malformed"))
    faust, spark = unique("faust"), unique("spark")
    for prefix in (faust, spark):
        create_topics({f"{prefix}.{topic}": number for topic, number in SOURCES.items()})
        send(broker.address, prefix, messages, START)

    worker = Worker(broker.address, faust, tmp_path, APP)
    live = LiveProcess(
        tmp_path, broker.address, "tests.topology.spark.shops:topology", SHOP=spark, **SETTINGS
    )
    processes += [worker, live]
    worker.start()
    live.start("--read-store", database, "--topics")

    def missing(prefix: str, given: dict[str, int]) -> dict[str, tuple[int, int]]:
        """A topic that lacks something; those that lack nothing are taken out of `given`."""
        for topic, count in list(given.items()):
            found = len(records(broker.address, topic.replace("expected", prefix)))
            if found < count:
                return {f"{prefix} {topic}": (found, count)}
            del given[topic]
        return {}

    for count, phase in enumerate(phases, 1):
        _, wanted = expected(phases[:count])
        for prefix in (faust, spark):
            if phase is not messages:  # which both began with
                send(broker.address, prefix, phase, START + count * 1_000_000)
        for prefix in (faust, spark):
            live.wait(partial(missing, prefix, dict(wanted)))
    assert live.end(signal.SIGTERM) == 0, tail(live.log, 60)
    assert worker.end(signal.SIGTERM) == 0

    for topic in counts:
        name = topic.removeprefix("expected.")
        assert told(broker.address, spark, name) == told(broker.address, faust, name), name
    tables = [table for view in shop.views.values() for table in view.tables]
    store = tmp_path / "faust.db"
    with open_sink(f"sqlite:///{store}", tables) as sink:
        for view in shop.views:
            topic = f"{faust}.{view}"
            sink.apply(
                (topic, r.partition() or 0, r.offset() or 0, r.value())
                for r in records(broker.address, topic)
            )
    with open_sink(database) as one, open_sink(f"sqlite:///{store}") as other:
        for view in shop.views:
            assert list(one.rows(view)) == list(other.rows(view)) != [], view


def test_a_driver_and_an_executor_that_are_killed_repeat_nothing_and_lose_nothing(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    tmp_path: Path,
    processes: list[Any],
) -> None:
    prefix, streams, each = unique("kills"), 20, 60
    create_topics({f"{prefix}.in": 2})
    chance = Random(5)
    arriving: list[tuple[float, Message]] = []
    for number in range(streams):
        for n in range(1, each + 1):
            at, message = n * streams + number, ("in", f"s{number}", {"n": n})
            arriving.append((at + chance.random() * 80, message))
            if chance.random() < 0.1:
                arriving.append((at + chance.random() * 400, message))
    messages = [message for _, message in sorted(arriving, key=lambda each: each[0])]
    send(broker.address, prefix, messages[: len(messages) // 2], START)

    live = LiveProcess(
        tmp_path, broker.address, "tests.topology.spark.ledger:topology", LEDGER=prefix
    )
    processes.append(live)
    options = (
        "--read-store",
        f"sqlite:///{live.store}",
        "--topics",
        "--max-records-per-trigger",
        "300",
    )
    total, output = streams * each, f"{prefix}.ledger"

    def missing(target: int) -> int:
        return max(0, target - len(records(broker.address, output)))

    for number in range(KILLS):
        live.start(*options)
        live.wait(partial(missing, 1 + total * number // (2 * KILLS)))
        time.sleep(chance.random())
        assert live.end(signal.SIGKILL) == -signal.SIGKILL
    assert 0 < missing(total) < total
    # It goes on under spark-submit, with executors that are processes of their own.
    send(broker.address, prefix, messages[len(messages) // 2 :], START + 1_000_000)
    before = total - missing(total)
    live.be_submitted()
    live.start(*options)
    live.wait(partial(missing, before + 1))
    executors = live.executors()
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    live.wait(partial(missing, total))
    # The signal was the JVM's, which let the job end first.
    assert live.end(signal.SIGTERM) == TOLD_TO_END, tail(live.log, 60)
    assert "live: stopped" in live.log.read_text()

    found: dict[str, list[KafkaMessage]] = defaultdict(list)
    for record in records(broker.address, output):
        found[orjson.loads(record.value() or b"")["stream"]].append(record)
    assert len(found) == streams
    for sent in found.values():
        bodies = [orjson.loads(record.value() or b"") for record in sent]
        assert [body["sequence"] for body in bodies] == list(range(1, each + 1))
        assert bodies[-1]["changes"][0]["values"]["sum"] == each * (each + 1) // 2
    assert rows(live.store, "ledger") == sorted(
        ((f"s{number}", each * (each + 1) // 2) for number in range(streams)), key=repr
    )
