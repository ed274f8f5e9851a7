"""Capture on a real broker: whoever is killed, each message is kept once, in order."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from sequitur.replay.capture import Capture, begin_anew
from sequitur.replay.replay_file import ReplayFile, read_replay_file
from stores.replay import CapturedMessage, Query, ReplayError, ReplayLog
from tests.conftest import BrokerAddress
from tests.forked import spawned

pytestmark = pytest.mark.integration

FILE = """
[replay]
database = "DATABASE"
site = "ewr"
broker = "BROKER"
topics = ["NAME*"]
lease = 0.5
look = 0.2
[field.n]
kind = "integer"
path = "n"
[stream."*"]
stream = { record = "key" }
sequence = "n"
"""


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("moves")


def written(folder: Path, database: str, broker: BrokerAddress, name: str) -> Path:
    text = FILE.replace("DATABASE", database).replace("BROKER", broker.address)
    (folder / "replay.toml").write_text(text.replace("NAME", name))
    return folder / "replay.toml"


@pytest.fixture(params=["sqlite", "postgresql"])
def file(request: pytest.FixtureRequest, tmp_path: Path, broker: BrokerAddress, name: str) -> Path:
    at = f"sqlite:///{tmp_path}/log.db"
    if request.param == "postgresql":
        at = request.getfixturevalue("database")
    return written(tmp_path, at, broker, name)


def start(file: Path) -> "subprocess.Popen[bytes]":
    return spawned([sys.executable, "-m", "sequitur", "replay", "capture", str(file)])


async def send(kafka: Any, topic: str, numbers: range, **settings: Any) -> None:
    async with AIOKafkaProducer(**kafka, **settings) as producer:
        for n in numbers:
            value = b'{"n": %d}' % n
            await producer.send(topic, value, b"k%d" % (n % 3), n % 3, timestamp_ms=1_000 + n)


async def until(found: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, "it never came"
        await asyncio.sleep(0.05)


def _has(log: ReplayLog, id: int) -> bool:
    return log.end() > id


def everything(log: ReplayLog, topic: str) -> list[CapturedMessage]:
    found, query = list[CapturedMessage](), Query(topics=(topic,))
    page = log.page(query, 10_000)
    found += page.messages
    assert page.after is None
    return found


async def test_whoever_is_killed_each_message_is_kept_once_in_order(
    file: Path, name: str, broker: BrokerAddress, create_topics: Callable[[dict[str, int]], None]
) -> None:
    create_topics({name: 3})
    kafka = {"bootstrap_servers": broker.address}
    log = read_replay_file(file).log()
    running = [start(file), start(file)]
    try:
        for begin in (0, 700, 1_400):
            await send(kafka, name, range(begin, begin + 700))
            await until(partial(_has, log, begin + 50))
            killed = running.pop(0)
            killed.kill()
            killed.wait()
            running.append(start(file))
        # In transactions, of which one is given up; what a replay published is not new.
        async with AIOKafkaProducer(**kafka, transactional_id=name) as producer:
            with suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_and_wait(name, b"given up", partition=0)
                    raise ZeroDivisionError
            async with producer.transaction():
                again = [("sequitur-replay", b"r1")]
                await producer.send(name, b'{"n": 1}', partition=0, headers=again)
                origin = [
                    ("sequitur-origin", b"orders/7/8/9000"),
                    ("sequitur-origin", f"jfk/{name}/7/8".encode()),
                ]
                await producer.send(name, b"unreadable", partition=0, headers=origin)
        create_topics({f"{name}-new": 1})
        async with AIOKafkaProducer(**kafka) as producer:
            await producer.send_and_wait(f"{name}-new", b"{}")
        await until(lambda: log.end() >= 2_102)
    finally:
        for each in running:
            each.terminate()
    assert {each.wait(120) for each in running} <= {0, -signal.SIGTERM}, "as it starts, or in order"
    *found, last = everything(log, name)
    assert len(found) == 2_100
    for partition in range(3):
        numbers = [each.sequence for each in found if each.partition == partition]
        assert numbers == list(range(partition, 2_100, 3))
    for one in found:
        n = one.sequence or 0
        assert (one.time, one.stream, one.site) == (1_000 + n, f"k{n % 3}", "ewr")
        assert one.metadata == {"n": n}
    assert (last.value, last.metadata, last.position, last.site) == (
        *(b"unreadable", {}, f"jfk/{name}/7/8", "jfk"),
    )
    assert log.count(Query(topics=(f"{name}-new",))) == 1
    log.engine.dispose()


async def captured(file: ReplayFile, kafka: Any, done: Callable[[], bool]) -> None:
    """Capture until something is so."""
    stopped = asyncio.Event()
    task = asyncio.create_task(Capture(file, kafka).run(stopped))
    try:
        await until(done)
    finally:
        stopped.set()
        await task


async def test_what_went_before_it_was_captured_is_a_hole_and_a_topic_made_again_stops(
    tmp_path: Path,
    name: str,
    broker: BrokerAddress,
    create_topics: Callable[[dict[str, int]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    create_topics({name: 3})
    path = written(tmp_path, f"sqlite:///{tmp_path}/log.db", broker, name)
    path.write_text(path.read_text().replace('site = "ewr"', ""))
    file = read_replay_file(path)
    kafka = {"bootstrap_servers": broker.address}
    log = file.log()
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()

    async def delete(before: int) -> None:
        await admin.delete_records({TopicPartition(name, 0): RecordsToDelete(before)})

    await send(kafka, name, range(30))
    await delete(2)
    await captured(file, kafka, lambda: log.end() == 28)
    assert [str(each) for each in log.holes(Query())] == [f"{name}/0: 2 messages, offsets 0 to 1"]
    await send(kafka, name, range(30, 60))
    await delete(15)
    await captured(file, kafka, lambda: log.end() == 53)
    holes = log.holes(Query(topics=(name,)))
    assert [(each.first, each.last, each.last_id) for each in holes] == [(0, 1, 0), (10, 14, 28)]
    assert log.holes(Query(through=27)) == holes[:1]
    assert log.holes(Query(through=28)) == holes
    assert log.holes(Query(after=28)) == holes[1:]
    assert log.positions(name) == {0: 20, 1: 20, 2: 20}
    cluster = (await admin.describe_cluster())["cluster_id"]
    assert {each.site for each in everything(log, name)} == {cluster}

    with pytest.raises(ReplayError, match="is the one that was captured"):
        await begin_anew(file, kafka, name)
    await admin.delete_topics([name])
    for _ in range(600):
        made = await admin.create_topics([NewTopic(name, 3, 1)])
        if not made.topic_errors[0][1]:
            break
        await asyncio.sleep(0.1)
    await admin.close()
    await send(kafka, name, range(90))
    await captured(file, kafka, lambda: "was deleted and made again" in caplog.text)
    assert "see sequitur replay anew --help" in caplog.text
    assert log.end() == 53
    await begin_anew(file, kafka, name)
    await captured(file, kafka, lambda: log.end() == 143)
    log.engine.dispose()
