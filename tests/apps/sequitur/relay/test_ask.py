"""A running view asks the relay: what it kept comes again, what is void is skipped on record."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine

from sequitur.relay.kafka_link import KafkaLink
from sequitur.relay.leadership import RelayConfig
from sequitur.relay.link import MissingRange
from sequitur.relay.records import missing_of
from sequitur.relay.relay import Relay
from sequitur.relay.requests import requests
from soak.check import read
from stores.db.engines import open_engine
from stores.locks.lease import Lease
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from stores.outbox.retention import RetentionStore
from tests.topology.faust.worker_process import Worker
from topology import Inspector, Topology, TopologyTestDriver, ask
from topology.engine.commands.command import decode_command

APP = """
import os
from topology import Emit, Headers, Topology, ask, key
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Headers(key(), "sequitur-sequence", "sequitur-kind"), keyed=True,
    partitions=2,
)

@topology.view("board", of=source, gap=ask(prefix + ".in", after=0.5, every=1))
def board(event):
    yield Emit(prefix + ".out", event.stream, {"seq": event.sequence})

app = compile(topology, group=prefix, session_timeout=60)
"""


def lose(engine: Engine, log: MessageLog, topic: str) -> None:
    """Four messages: the second was acknowledged and got lost since, the third is void."""
    with engine.begin() as connection:
        Outbox(log).capture_many(connection, [Draft(topic, "a", "Ok", b"{}") for _ in range(4)])
        kept = RetentionStore(engine, log, 600)
        kept.make(connection)
        second = [message.id for message in log.read_stream(connection, topic, "a", 1, 1)]
        kept.keep(connection, second)
        log.delete(connection, second)
        log.declare_void(connection, topic, "a", 3, 3, "sent by mistake")


def done(worker: Worker) -> list[dict[str, Any]]:
    """The commands that were done, once there is one; others came too soon, or once more."""
    until = time.monotonic() + 150
    while True:
        records = read(worker.broker, f"{worker.prefix}.audit")
        audit = [orjson.loads(record.value() or b"") for record in records]
        found = [each for each in audit if each["done"]]
        if found or time.monotonic() > until:
            return found


@pytest.mark.integration
async def test_what_is_lost_comes_again_and_what_is_void_is_skipped(
    worker: Worker, tmp_path: Path
) -> None:
    topic = f"{worker.prefix}.in"
    engine, log = open_engine(f"sqlite:///{tmp_path}/orders.sqlite"), MessageLog()
    log.create(engine)
    lose(engine, log, topic)
    kafka = {"bootstrap_servers": worker.broker}
    relay = Relay(
        engine, log, KafkaLink(worker.prefix, kafka, views=[f"{worker.prefix}.board"]),
        Lease(engine, "relay", "one"),
        keep=600, config=RelayConfig(poll=0.1, retry=0.1),
    )  # fmt: skip
    stopped = asyncio.Event()
    worker.start()
    running = asyncio.create_task(relay.run(stopped))
    asked = asyncio.create_task(requests([topic], kafka, relay.missing))
    try:
        records = await asyncio.to_thread(worker.wait, "out", 3)
        skipped = await asyncio.to_thread(done, worker)
    finally:
        stopped.set()
        asked.cancel()
        await asyncio.gather(running, asked, return_exceptions=True)
        await asyncio.to_thread(worker.end, signal.SIGTERM)
    assert [orjson.loads(record.value() or b"")["seq"] for record in records] == [1, 2, 4]
    assert [(each["name"], each["stream"], each["sequence"]) for each in skipped] == [
        ("skip", "a", 3)
    ]
    assert skipped[0]["who"] == f"relay {worker.prefix}, whose log says that it is void"
    engine.dispose()


async def test_requests_and_answers_are_understood_on_both_sides() -> None:
    shop = Topology("shop")
    shop.source("orders", inspector=Inspector("id", "n"))
    shop.view("board", of="orders", gap=ask("orders", after=1), handler=lambda event: None)
    driver = TopologyTestDriver(shop)
    driver.pipe("orders", {"id": "a", "n": 2})
    driver.advance(1)
    (request,) = driver.read("orders.resend")
    missing = missing_of("orders", request.value)
    assert missing == MissingRange("orders", "a", 1, 1, "board", "shop.board.commands", 0)
    (answer,) = await KafkaLink("shop", {}, views=["shop.board"]).void(missing, 1, 1)
    assert (answer.topic, answer.partition) == ("shop.board.commands", 0)
    command = decode_command(answer.value)
    assert command.stream is not None
    done = driver.command(command.name, command.view, command.stream, command.sequence)
    assert done.done
    assert driver.last("board", "a") == 2


async def test_a_request_causes_commands_for_none_but_the_named_views() -> None:
    """Who may write into a resend topic may not by that write commands into any topic."""
    link = KafkaLink("shop", {}, views=["shop.board"])
    other = MissingRange("orders", "a", 1, 1, "other", "shop.other.commands", 0)
    assert await link.void(other, 1, 1) == []
    assert await KafkaLink("shop", {}).void(other._replace(view="board"), 1, 1) == []
    # An inbox, which names no commands, reads what is void in the topic's own.
    (told,) = await link.void(MissingRange("orders", "a", 1, 1), 1, 1)
    assert told.topic == "orders.void"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"stream": "a"}',
        b'{"stream": 7, "first": 1, "last": 1}',
        b'{"stream": "a", "first": "1", "last": 1}',
        b'{"stream": "a", "first": true, "last": 1}',
        b'{"stream": "a", "first": 0, "last": 1}',
        b'{"stream": "a", "first": 2, "last": 1}',
        b'{"stream": "a", "first": 1, "last": 9223372036854775808}',
        b'{"stream": "a", "first": 1, "last": 99999999999999999999999999}',
        b'{"stream": "a\\u0000", "first": 1, "last": 1}',
        b'{"stream": "", "first": 1, "last": 1}',
        b'{"stream": "a", "first": 1, "last": 1, "partition": -1}',
        b'{"stream": "a", "first": 1, "last": 1, "partition": 4294967296}',
        b'{"stream": "a", "first": 1, "last": 1, "view": "b", "commands": "billing"}',
        b'{"stream": "' + b"a" * 1001 + b'", "first": 1, "last": 1}',
    ],
)
def test_what_is_no_request_to_resend_is_told_apart(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"no request|is not the command topic"):
        missing_of("orders", body)
