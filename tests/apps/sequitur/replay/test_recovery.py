"""A whole recovery on a real broker, by a client that knows only the server's description."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from sequitur.local.ports import HOST, free_port
from tests.apps.sequitur.replay.described import DescribedClient
from tests.conftest import BrokerAddress
from tests.forked import ForkedWorker

pytestmark = pytest.mark.integration
TOKEN = "a-token-for-tests-0123456789"
FILE = """
[replay]
database = "sqlite:///{folder}/log.db"
broker = "{broker}"
topics = ["{topic}*"]
lease = 0.5
look = 0.2
[server]
port = {port}
[application.board]
topics = ["{topic}"]
"""


async def published(kafka: dict[str, Any], topic: str, count: int) -> None:
    """In transactions, of which the last one is aborted: offsets without messages."""
    producer = AIOKafkaProducer(**kafka, transactional_id=f"{topic}-test")
    await producer.start()
    try:
        for first in range(0, count, 200):
            async with producer.transaction():
                for n in range(first, first + 200):
                    await producer.send(topic, b"%d" % n, b"k%d" % n, partition=n % 2)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"never", partition=1)
        await producer.abort_transaction()
    finally:
        await producer.stop()


async def recovered(kafka: dict[str, Any], topic: str, request: str) -> dict[int, list[Any]]:
    """Partition → its records, up to its end mark and with it."""
    found: dict[int, list[Any]] = {0: [], 1: []}
    async with AIOKafkaConsumer(
        topic, **kafka, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        open_ = {0, 1}
        while open_:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for each in records:
                    found[each.partition].append(each)
                    if ("sequitur-recovery-end", request.encode()) in each.headers:
                        open_.discard(each.partition)
        for place in consumer.assignment():  # the marker of the transaction is behind it
            end = (await consumer.end_offsets([place]))[place]
            assert end <= found[place.partition][-1].offset + 2
    return found


async def test_a_recovery_over_kills_of_the_server(
    broker: BrokerAddress, topic: Callable[..., str], tmp_path: Path
) -> None:
    kafka = {"bootstrap_servers": broker.address}
    name, port, count = topic("moves", 2), free_port(), 1200
    file = tmp_path / "replay.toml"
    file.write_text(FILE.format(folder=tmp_path, broker=broker.address, topic=name, port=port))
    env = {**os.environ, "SEQUITUR_REPLAY_TOKEN": TOKEN}

    def start(verb: str) -> ForkedWorker:
        words = ["sequitur", "replay", verb, str(file)]
        return ForkedWorker(words, env, tmp_path / f"{verb}.log")

    capture, server = start("capture"), start("serve")
    try:
        await published(kafka, name, count)
        async with ClientSession() as session, AIOKafkaConsumer(**kafka) as consumer:
            end = (await consumer.end_offsets([TopicPartition(name, 1)]))[TopicPartition(name, 1)]
            client = DescribedClient(session, f"http://{HOST}:{port}", TOKEN)
            await client.learn()
            while name not in (await client.call("log"))["topics"]:
                await asyncio.sleep(0.1)
            who = {"actor": "board", "reason": "its disk is gone"}
            # Partition 0 up to its message 799; partition 1 to its end, behind what was aborted.
            at = {name: {"0": 403, "1": end}}
            asked = {"application": "board", "positions": at, "rate": 500, **who}
            request = (await client.call("recover", asked))["id"]
            while (await client.call("recovery", id=request))["state"] == "waiting":
                await asyncio.sleep(0.05)
            reading = asyncio.create_task(recovered(kafka, f"{name}.recovery.{request}", request))
            for goal in (150, 500):
                while (await client.call("recovery", id=request))["done"] < goal:
                    await asyncio.sleep(0.02)
                server.kill()
                server.wait(60)
                server = start("serve")
                client.description = {}
                await client.learn()
            found = await reading
            while (state := await client.call("recovery", id=request))["state"] != "done":
                assert state["state"] == "running"
                await asyncio.sleep(0.05)
            # Each transaction of 100 in a partition has a marker behind it.
            before = [n for n in range(0, count, 2) if n // 2 + n // 200 < 403]
            for partition, expected in ((0, before), (1, list(range(1, count, 2)))):
                *messages, mark = found[partition]
                assert [int(each.value) for each in messages] == expected
                assert [each.key for each in messages] == [b"k%d" % n for n in expected]
                assert mark.value == b""
            headers = dict(found[0][0].headers)
            assert headers["sequitur-replay"] == request.encode()
            assert headers["sequitur-replay-of"].endswith(f"/{name}/0/0".encode())
            assert headers["sequitur-id"] == headers["sequitur-replay-of"]
            await client.call("close", who, id=request)
            admin = AIOKafkaAdminClient(**kafka)
            await admin.start()
            while f"{name}.recovery.{request}" in await admin.list_topics():
                await asyncio.sleep(0.1)
            await admin.close()
            assert list((await client.call("log"))["topics"]) == [name], "it is not captured"
    finally:
        for process in (capture, server):
            process.kill()
