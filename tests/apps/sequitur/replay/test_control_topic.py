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
from sqlalchemy.exc import DataError, OperationalError

from sequitur.local.ports import free_port
from sequitur.replay.server.control_topic import ControlTopic
from sequitur.replay.server.models import RecoveryModel, RecoveryRequestModel
from stores.replay import ReplayError
from tests.conftest import BrokerAddress
from tests.forked import ForkedWorker
from topology.model.errors import DeclarationError

FILE = """
[replay]
database = "sqlite:///{folder}/log.db"
broker = "{broker}"
topics = ["{topic}*"]
lease = 0.5
look = 0.2
[server]
port = {port}
requests = "{requests}"
[application.board]
topics = ["{topic}", "{topic}-gates"]
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
    create_topics({f"{requests}.answers": 1, f"{name}-gates": 2})
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
            await producer.send_and_wait(f"{name}-gates", b"g%d" % n, partition=n % 2)
        asked = {"application": "board", "actor": "board", "reason": "its disk is gone"}
        nowhere = {"topics": ["nowhere"], "actor": "board", "reason": "it is gone"}
        odd = [
            (b"{}", b"k"), (b"\xff", b"k"), (None, b"k"), (orjson.dumps(nowhere), b"k"),
            (orjson.dumps({**nowhere, "topics": ["a\0b"]}), b"k"),
            (orjson.dumps({**asked, "application": "none"}), b"k"),
            (b"[" * 500_000, b"k"), (orjson.dumps(asked), b"k" * 900_000),
        ]  # fmt: skip
        for value, key in odd:
            await producer.send_and_wait(requests, value, key)
        refused = await read(kafka, f"{requests}.answers", len(odd))
        answers = [orjson.loads(each.value) for each in refused]
        assert [each["request"] for each in answers] == [f"{requests}/0/{n}" for n in range(8)]
        assert [each.key for each in refused] == [b"k"] * 7 + [None]
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
        assert set(made["topics"]) == {name, f"{name}-gates"}  # all of the application
        *messages, mark = await read(kafka, made["topics"][name], 6)
        assert [each.value for each in messages] == [b"%d" % n for n in range(5)]
        assert ("sequitur-recovery-end", made["id"].encode()) in mark.headers
        gates = await read(kafka, made["topics"][f"{name}-gates"], 7)
        assert sorted(each.value for each in gates) == [b"", b"", *(b"g%d" % n for n in range(5))]
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


class Taking:
    """A service that takes every request that is one."""

    async def recover(self, asked: RecoveryRequestModel, id: str) -> RecoveryModel:
        return RecoveryModel.model_construct(id=id)


def record_of(value: bytes | None, key: bytes | None = b"k") -> ConsumerRecord[Any, Any]:
    return ConsumerRecord("requests", 0, 7, 5, 0, key, value, None, 1, 1, ())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "a request is a JSON object of at most 262144 bytes"),
        (b" " * 300_000, "a request is a JSON object of at most 262144 bytes"),
        (b"", "Invalid JSON: EOF while parsing a value"),
        (b'{"topics": [', "Invalid JSON: EOF while parsing"),
        (b'{"actor": "\xff"}', "Invalid JSON: invalid unicode code point"),
        (b"\0", "Invalid JSON: expected value"),
        (b"[" * 10_000, "Invalid JSON: recursion limit exceeded"),
        (b"7", "Input should be an object"),
        ({"topics": "moves"}, "topics: Input should be a valid array"),
        ({"topics": [7]}, "topics.0: Input should be a valid string"),
        ({"keep": True}, "keep: Input should be a valid integer"),
        ({"keep": "60"}, "keep: Input should be a valid integer"),
        ({"keep": 2**60}, "keep: Input should be less than or equal to"),
        ({"rate": True}, "rate: Input should be a valid number"),
        ({"positions": {"moves": {"0": True}}}, "positions.moves.0: Input should be a valid integ"),
        ({"query": {"through": True}}, "query.through: Input should be a valid integer"),
        ({"query": {"where": [["delay", "=", True]]}}, "query.where.0.2"),
        ({"query": {"site": ["ewr"]}}, "query.site: Extra inputs are not permitted"),
        ({"way": "sideways"}, "way: Input should be 'direct' or 'router'"),
        ({"actor": ""}, "actor: String should have at least 1 character"),
        ({"reason": None}, "reason: Input should be a valid string"),
    ],
)
async def test_what_is_no_request_is_refused_by_its_reason(given: Any, said: str) -> None:
    service: Any = Taking()
    control = ControlTopic(service, {}, "requests")
    asked = {"topics": ["moves"], "actor": "ann", "reason": "lost"}
    body = orjson.dumps({**asked, **given}) if isinstance(given, dict) else given
    answer = await control._answer(record_of(body))
    assert (answer["request"], answer["error"][: len(said)]) == ("requests/0/7", said)
    good = await control._answer(record_of(orjson.dumps(asked)))
    assert len(good["recovery"]["id"]) == 12
    answer = await control._answer(record_of(orjson.dumps(asked), b"k" * 5_000))
    assert answer["error"] == "a request's key has at most 4096 bytes"


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ReplayError("it is not captured"), "it is not captured"),
        (DeclarationError("the name is too long"), "the name is too long"),
        (
            DataError("INSERT", {}, Exception("NUL")),
            "the database takes no such value: is there a NUL in a text?",
        ),
        (AssertionError("partition"), "a fault of Sequitur's; the server's log says more"),
    ],
)
async def test_no_request_ends_those_behind_it(raised: Exception, said: str) -> None:
    class Refusing:
        async def recover(self, *_: object) -> None:
            raise raised

    service: Any = Refusing()
    body = orjson.dumps({"topics": ["moves"], "actor": "ann", "reason": "lost"})
    record = record_of(body)
    answer = await ControlTopic(service, {}, "requests")._answer(record)
    assert answer == {"request": "requests/0/7", "error": said}
    raised = OperationalError("SELECT", {}, Exception("it is away"))
    with pytest.raises(OperationalError):  # which is tried again
        await ControlTopic(service, {}, "requests")._answer(record)
