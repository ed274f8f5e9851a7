"""A replay into Kafka whose process is killed and started again: each message comes once."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from stores.db.engines import open_engine
from stores.replay import Query, ReplayLog
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replaying import Replaying
from stores.replay.replays import ReplayRequest, Replays
from stores.segments.transports.kafka import KafkaOutbound
from tests.conftest import BrokerAddress
from tests.forked import context
from tests.stores.replay.sample import messages

pytestmark = pytest.mark.integration
WHO = ("ann", "to test it")


def opened(database: str) -> Replays:
    replays = Replays(ReplayLog(open_engine(database)))
    replays.create()
    return replays


async def run(replays: Replays, kafka: dict[str, Any], id: str) -> None:
    outbound = KafkaOutbound(kafka, "replays")
    await Replaying(replays, id, outbound, lease_seconds=0.5, page=20).run()


def be_killed(database: str, kafka: dict[str, Any], id: str, goal: int, later: float) -> None:
    """Replay, and be killed a moment after so many; by itself, as whoever waits may be late."""
    logging.disable()
    replays = opened(database)

    def kill() -> None:
        while replays.get(id).done < goal:
            time.sleep(0.01)
        time.sleep(later)
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=kill, daemon=True).start()
    while True:
        asyncio.run(run(replays, kafka, id))


async def committed(kafka: dict[str, Any], topic: str) -> list[Any]:
    """All that is there now, in order per partition."""
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    found: list[Any] = []
    async with AIOKafkaConsumer(topic, **kafka, **settings) as consumer:
        ends = await consumer.end_offsets(list(consumer.assignment()))
        for place, end in ends.items():
            while await consumer.position(place) < end:
                found += (await consumer.getmany(place, timeout_ms=200)).get(place, [])
    return found


async def test_a_replay_whose_process_is_killed_publishes_each_message_once(
    broker: BrokerAddress, topic: Callable[..., str], tmp_path: Path
) -> None:
    kafka = {"bootstrap_servers": broker.address}
    source, target = topic("source", 3), topic("target", 3)
    database = f"sqlite:///{tmp_path}/log.db"
    replays = opened(database)
    count = 3000
    replays.log.append(source, messages(count, topic=source, metadata={}), {})
    asked = ReplayRequest(Query(topics=(source,)), {source: target}, *WHO, rate=2000)
    id = replays.preview(asked).id
    replays.act(id, ReplayAction.START, *WHO)
    random = Random(16)
    for goal in (300, 1000, 1800):
        later = random.random() / 50
        process = context.Process(target=be_killed, args=(database, kafka, id, goal, later))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert replays.get(id).state is ReplayState.RUNNING
    while replays.get(id).state is ReplayState.RUNNING:  # until the lease of the dead one ends
        await run(replays, kafka, id)
        await asyncio.sleep(0.05)
    found = replays.get(id)
    assert (found.state, found.done) == (ReplayState.DONE, count)
    records = await committed(kafka, target)
    for partition in range(3):
        mine = [each for each in records if each.partition == partition]
        assert [int(each.value[6:-1]) for each in mine] == list(range(partition, count, 3))
    ids = {dict(each.headers)["sequitur-id"].decode() for each in records}
    assert ids == {f"ewr/{source}/{n % 3}/{10 * n}" for n in range(count)}


async def test_what_is_too_large_is_named_and_the_rest_goes_on(
    broker: BrokerAddress, topic: Callable[..., str], tmp_path: Path
) -> None:
    kafka = {"bootstrap_servers": broker.address}
    source, target = topic("source"), topic("target")
    replays = opened(f"sqlite:///{tmp_path}/log.db")
    large = messages(1, topic=source, value=b"x" * 1_500_000, metadata={})
    few = messages(3, topic=source, partition=0, metadata={})
    replays.log.append(source, [*few, *large, *few], {})
    asked = ReplayRequest(Query(topics=(source,)), {source: target}, *WHO)
    id = replays.preview(asked).id
    replays.act(id, ReplayAction.START, *WHO)
    await run(replays, kafka, id)
    found = replays.get(id)
    assert found.state is ReplayState.PAUSED
    assert found.why.startswith(f"message 4 (ewr/{source}/0/0) is refused by {target}: ")
    async with AIOKafkaProducer(**kafka) as producer:  # somebody else's, meanwhile
        await producer.send_and_wait(target, b"else")
    replays.act(id, ReplayAction.RESUME, *WHO, on_refused="skip")
    await run(replays, kafka, id)
    assert replays.get(id).state is ReplayState.DONE
    assert replays.refused(id)[0] == 1
    values = [each.value for each in await committed(kafka, target)]
    assert values == [b"else", *(each.value for each in [*few, *few])]
