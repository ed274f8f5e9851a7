"""Recoveries by a topic: a request has one recovery and an answer, whatever it is."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord
from sqlalchemy.exc import OperationalError

from sequitur.local.ports import free_port
from sequitur.replay.server.control_topic import ControlTopic
from stores.replay import ReplayError
from tests.conftest import BrokerAddress
from tests.forked import ForkedWorker
from topology.model.errors import DeclarationError

FILE = """
[replay]
database = "sqlite:///{folder}/log.db"
broker = "{broker}"
topics = ["{topic}"]
lease = 0.5
look = 0.2
[server]
port = {port}
requests = "{requests}"
"""


async def read(kafka: dict[str, Any], topic: str, count: int) -> list[Any]:
    found: list[Any] = []
    async with AIOKafkaConsumer(
        topic, **kafka, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += records
    return found


@pytest.mark.integration
async def test_a_request_by_the_control_topic_is_taken_once_over_a_kill(
    broker: BrokerAddress,
    topic: Callable[..., str],
    create_topics: Callable[[dict[str, int]], None],
    tmp_path: Path,
) -> None:
    kafka = {"bootstrap_servers": broker.address}
    name, requests = topic("moves", 1), topic("requests", 1)
    create_topics({f"{requests}.answers": 1})
    file = tmp_path / "replay.toml"
    where = {"folder": tmp_path, "broker": broker.address, "port": free_port()}
    file.write_text(FILE.format(topic=name, requests=requests, **where))
    env = {**os.environ, "SEQUITUR_REPLAY_TOKEN": "a-token-for-tests-0123456789"}

    def start(verb: str) -> ForkedWorker:
        return ForkedWorker(["sequitur", "replay", verb, str(file)], env, tmp_path / f"{verb}.log")

    capture, server = start("capture"), start("serve")
    producer = AIOKafkaProducer(**kafka)
    await producer.start()
    try:
        for n in range(5):
            await producer.send_and_wait(name, b"%d" % n)
        asked = {"topics": [name], "actor": "board", "reason": "its disk is gone"}
        for value in (b"{}", b"\xff", None, orjson.dumps({**asked, "topics": ["nowhere"]})):
            await producer.send_and_wait(requests, value, b"k")
        answers = [orjson.loads(each.value) for each in await read(kafka, f"{requests}.answers", 4)]
        assert [each["request"] for each in answers] == [f"{requests}/0/{n}" for n in range(4)]
        assert "there is no topic 'nowhere'" in answers[3]["error"]
        while True:  # until it is captured
            await producer.send_and_wait(requests, orjson.dumps(asked), b"k")
            found = await read(kafka, f"{requests}.answers", len(answers) + 1)
            answers = [orjson.loads(each.value) for each in found]
            if "recovery" in answers[-1]:
                break
            assert "is not captured" in answers[-1]["error"]
            await asyncio.sleep(0.5)
        made = answers[-1]["recovery"]
        *messages, mark = await read(kafka, made["topics"][name], 6)
        assert [each.value for each in messages] == [b"%d" % n for n in range(5)]
        assert ("sequitur-recovery-end", made["id"].encode()) in mark.headers
        # Read again from the beginning, as after a kill between recovery and commit.
        server.kill()
        server.wait(60)
        async with AIOKafkaConsumer(
            **kafka, group_id=f"sequitur-replay-{requests}", enable_auto_commit=False
        ) as consumer:
            consumer.assign([TopicPartition(requests, 0)])
            while True:
                try:
                    await consumer.commit({TopicPartition(requests, 0): 0})
                    break
                except KafkaError:
                    await asyncio.sleep(0.5)  # the group still has the killed member
        server = start("serve")
        found = await read(kafka, f"{requests}.answers", 2 * len(answers))
        again = orjson.loads(found[-1].value)
        assert again["recovery"]["id"] == made["id"]
    finally:
        await producer.stop()
        for process in (capture, server):
            process.kill()


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ReplayError("it is not captured"), "it is not captured"),
        (DeclarationError("the name is too long"), "the name is too long"),
        (AssertionError("partition"), "a fault of Sequitur's; the server's log says more"),
    ],
)
async def test_no_request_ends_those_behind_it(raised: Exception, said: str) -> None:
    class Refusing:
        async def recover(self, *_: object) -> None:
            raise raised

    service: Any = Refusing()
    body = orjson.dumps({"topics": ["moves"], "actor": "ann", "reason": "lost"})
    record = ConsumerRecord("requests", 0, 7, 5, 0, b"k", body, None, 1, len(body), ())
    answer = await ControlTopic(service, {}, "requests")._answer(record)
    assert answer == {"request": "requests/0/7", "error": said}
    raised = OperationalError("SELECT", {}, Exception("it is away"))
    with pytest.raises(OperationalError):  # which is tried again
        await ControlTopic(service, {}, "requests")._answer(record)
