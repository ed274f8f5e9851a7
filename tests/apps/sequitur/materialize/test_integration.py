"""The materializer on a real broker and Spark: killed, restarted, robbed of its checkpoint."""

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from sequitur.local.process import tail
from soak.materializers import PATIENCE, Materializer
from soak.views import PARTITIONS, TABLE, Views
from stores.sinks import Position, open_sink
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


# SQLite's sink is killed at each step without Spark: see tests/stores/sinks/sql/test_kills.py.
@pytest.mark.parametrize("kind", ["postgresql", "delta"])
def test_kills_and_a_lost_checkpoint_leave_the_tables_exactly_right(
    kind: str,
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
    materializer.on_executors = kind == "postgresql"
    started.append(materializer)
    views.write(16)
    chance = random.Random(kind)
    # From the second batch on, so that there is something to be harmed.
    cut = chance.choice(materializer.steps), chance.choice(["before", "after"]), 3
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
    alone = materializer.log.read_text().count("applied by the driver alone")
    assert alone <= 1, tail(materializer.log, 40)  # the first one, which makes the tables

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
    producer.flush(120)
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
    assert materializer.end(signal.SIGINT) == 1, tail(materializer.log, 40)
    assert f"waiting for topics that do not exist yet: {other}" in materializer.log.read_text()

    # A checkpoint whose read store is gone is not gone on with: rows would be missing.
    (tmp_path / "read.db").unlink()
    materializer.start()
    assert materializer.ended() == 2
    assert "ahead of the read store" in materializer.log.read_text()


_SHOP = """
from topology import Inspector, Table, Topology, Upsert

shop = Topology({name!r})
orders = shop.source("orders", inspector=Inspector(stream="id", sequence="n"))
BOARD = Table("board", key={{"id": str}}, columns={columns})


def handle(event):
    yield Upsert("board", key={{"id": event.stream}}, values={{}})


{views}
"""
_VIEW = "shop.view({0!r}, of=orders, tables=[BOARD])(handle)"
_TYPED = (
    'shop.view("more", of=orders, '
    'tables=[Table("more", key={"id": str}, columns={"at": str})])(handle)'
)


def test_a_new_view_and_a_new_column_need_no_restart(
    started: list[Materializer],
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    broker: BrokerAddress,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, module = unique("shop"), f"wshop_{tmp_path.name.replace('-', '_')}"
    board, more = f"{name}.board", f"{name}.more"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")

    def deploy(columns: str, *views: str) -> None:
        text = _SHOP.format(name=name, columns=columns, views="\n".join(views))
        (tmp_path / f"{module}.py").write_text(text)

    producer = Producer({"bootstrap.servers": broker.address})

    def send(topic: str, table: str, sequence: int, **values: object) -> None:
        change = {"op": "upsert", "table": table, "key": {"id": "1"}, "values": values}
        body = {"view": table, "stream": "1", "sequence": sequence, "changes": [change]}
        producer.produce(topic, orjson.dumps(body))
        producer.flush(120)

    def said(text: str) -> None:
        until = time.monotonic() + PATIENCE
        while text not in materializer.log.read_text():
            assert time.monotonic() < until, tail(materializer.log, 40)
            assert materializer.process is not None
            assert materializer.process.poll() is None, tail(materializer.log, 40)
            time.sleep(0.1)

    create_topics({board: 1})
    deploy('{"total": int}', _VIEW.format("board"))
    url = f"sqlite:///{tmp_path}/read.db"
    materializer = Materializer(tmp_path, broker.address, url, board)
    started.append(materializer)
    materializer.what = ["--topology", f"{module}:shop", "--dead-topic", ""]
    materializer.start()
    send(board, "board", 1, total=1)
    materializer.catch_up()

    # A view with a declared table, and a declared column: their first values are no text.
    create_topics({more: 1})
    send(more, "more", 1, at=17)
    deploy('{"total": int, "place": str}', _VIEW.format("board"), _TYPED)
    materializer.topic = more
    materializer.catch_up()
    send(board, "board", 2, place=3)
    materializer.topic = board
    materializer.catch_up()
    with open_sink(url) as sink:
        assert list(sink.rows("more")) == [{"id": "1", "at": "17"}]
        assert list(sink.rows("board")) == [{"id": "1", "total": 1, "place": "3"}]

    # What the store refuses, and what cannot be imported, is told; the rest goes on.
    deploy('{"total": str}', _VIEW.format("board"), _TYPED)
    said("going on as before")
    deploy("{1 / 0}", _VIEW.format("board"))
    said("ZeroDivisionError")
    send(board, "board", 3, total=3)
    assert "ZeroDivisionError" in materializer.catch_up()["problem"]

    # A view that is gone: what its topic still has is applied, now and after a restart.
    deploy('{"total": int, "place": str}', _TYPED)
    said(f"also reading {board}, which were read before")
    send(board, "board", 4, total=4)
    assert materializer.catch_up()["problem"] is None
    assert materializer.end(signal.SIGTERM) == 0, tail(materializer.log, 40)
    send(board, "board", 5, total=5)
    materializer.start()
    assert materializer.catch_up()["since_start"]["replayed"] == 0
    assert materializer.end(signal.SIGTERM) == 0, tail(materializer.log, 40)
    with open_sink(url) as sink:
        assert next(iter(sink.rows("board")))["total"] == 5
        assert {p.topic: p.applied for p in sink.progress()} == {board: 5, more: 1}
        assert all(p.dead == p.duplicates == 0 for p in sink.progress())


def _select(file: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(file, timeout=60)) as connection:
        return connection.execute(sql).fetchall()


def _first_record(broker: str, topic: str) -> tuple[bytes | None, bytes | None, dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test-dead-records"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        (message,) = consumer.consume(1, 60)
        assert message.error() is None
        return message.key(), message.value(), dict(message.headers() or [])
    finally:
        consumer.close()
