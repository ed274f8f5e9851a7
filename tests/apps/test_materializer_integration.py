"""The materializer on a real broker and Spark: killed, restarted, robbed of its checkpoint."""

import random
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from apps.local.process import tail
from apps.soak.materializers import Materializer
from apps.soak.views import PARTITIONS, TABLE, Views
from stores.sink import Position
from stores.sinks import open_sink
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration

SMALL = ("--max-rows-per-trigger", "400")


@pytest.fixture
def started() -> Iterator[list[Materializer]]:
    """What is in it is ended afterwards."""
    materializers: list[Materializer] = []
    yield materializers
    for each in materializers:
        each.kill()


def _url(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "postgresql":
        return str(request.getfixturevalue("database"))
    return f"{kind}:///{folder}/store"


@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 2), ("postgresql", 1), ("delta", 1)])
def test_kills_and_a_lost_checkpoint_leave_the_tables_exactly_right(
    kind: str,
    kills: int,
    started: list[Materializer],
    topic: Callable[..., str],
    broker: BrokerAddress,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    views = Views(broker.address, topic("board", PARTITIONS))
    materializer = Materializer(
        tmp_path, broker.address, _url(kind, tmp_path, request), views.topic
    )
    started.append(materializer)
    views.write(24)
    chance = random.Random(kind)
    for kill in range(kills):
        # From the second batch on, so that there is something to be harmed.
        cut = chance.choice(materializer.steps), chance.choice(["before", "after"]), 3 + kill
        materializer.start(*SMALL, cut=cut)
        assert materializer.ended() == -signal.SIGKILL, (cut, tail(materializer.log, 40))

    # Without a checkpoint all is read again, batches are numbered from 0 again, and more comes.
    materializer.lose_checkpoint()
    views.write(3)
    materializer.start()
    materializer.catch_up()
    views.write(2)
    assert materializer.catch_up()["since_start"]["replayed"] > 0
    assert materializer.end(signal.SIGTERM) == 0, tail(materializer.log, 40)

    if kind == "delta":
        request.getfixturevalue("spark")
    with open_sink(materializer.url) as sink:
        assert list(sink.rows(TABLE)) == views.board()
        positions = sink.progress()
        assert sum(p.applied + p.duplicates for p in positions) == views.committed
        assert sum(p.dead for p in positions) == 0


def test_topics_are_waited_for_and_bad_records_set_aside(
    started: list[Materializer],
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    broker: BrokerAddress,
    tmp_path: Path,
) -> None:
    one, other, dead_topic = unique("one"), unique("other"), unique("dead")
    create_topics({one: PARTITIONS})
    views = Views(broker.address, one)
    views.write(2)
    materializer = Materializer(tmp_path, broker.address, f"sqlite:///{tmp_path}/read.db", one)
    started.append(materializer)
    materializer.topic = f"{one},{other}"
    materializer.start("--dead-topic", dead_topic)
    materializer.topic = one
    assert materializer.catch_up()["missing_topics"] == [other]

    create_topics({other: 1})
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(other, b"no JSON")
    good = {"view": "v", "stream": "s", "sequence": 1, "changes": []}
    producer.produce(other, orjson.dumps(good))
    producer.flush(30)
    materializer.topic = other
    assert materializer.catch_up()["since_start"]["dead"] == 1
    with open_sink(materializer.url) as sink:
        assert list(sink.rows(TABLE)) == views.board()
        assert Position(other, 0, 2, applied=1, dead=1) in sink.progress()
    ((*dead, reason),) = _select(
        tmp_path / "read.db", 'SELECT topic, partition, "offset", value, reason FROM _dead'
    )
    assert dead == [other, 0, 0, b"no JSON"]
    assert "not JSON" in reason
    key, value, headers = _first_record(broker.address, dead_topic)
    assert (key, value) == (f"{other}/0/0".encode(), b"no JSON")
    assert headers == {
        "sequitur-reason": reason.encode(),
        "sequitur-origin": f"{other}/0/0/-1".encode(),
    }
    assert materializer.end(signal.SIGINT) == 0, tail(materializer.log, 40)
    assert f"waiting for topics that do not exist yet: {other}" in materializer.log.read_text()

    # A checkpoint whose read store is gone is not gone on with: rows would be missing.
    (tmp_path / "read.db").unlink()
    materializer.start()
    assert materializer.ended() == 2
    assert "ahead of the read store" in materializer.log.read_text()


def _select(file: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(file, timeout=10)) as connection:
        return connection.execute(sql).fetchall()


def _first_record(broker: str, topic: str) -> tuple[bytes | None, bytes | None, dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test-dead-rows"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        (message,) = consumer.consume(1, 60)
        assert message.error() is None
        return message.key(), message.value(), dict(message.headers() or [])
    finally:
        consumer.close()
