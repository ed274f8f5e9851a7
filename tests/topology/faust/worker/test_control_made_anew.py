"""A control topic that is deleted and made again: who followed it takes part in the new one."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology.declaration.route import Route
from topology.faust.worker.routing import process as router_process
from topology.faust.worker.routing.process import RouterProcess
from topology.faust.worker.writing.control_writer import LOG
from topology.routing import (
    ControlRecord,
    Joined,
    Left,
    RoutedSource,
    Rule,
    RuleSet,
    encode_control,
)

RULES = RuleSet(
    1,
    sources=[RoutedSource("in", ("all",))],
    rules=[Rule("all", to=("out",))],
    destinations={"out": None},
)
CONTROL = TopicPartition("t.router.control", LOG)


class FakeConsumer:
    """A reader of a topic that `make` makes, with so many records."""

    def __init__(self) -> None:
        self.end = 0
        self.batch: list[Any] = []

    def make(self, records: int) -> None:
        self.end = records
        value = encode_control(Left("somebody"))
        self.batch = [
            SimpleNamespace(topic=CONTROL.topic, offset=n, key=None, value=value)
            for n in range(records)
        ]

    def assign(self, _: Any) -> None: ...

    def seek(self, *_: Any) -> None: ...

    async def beginning_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.end if each.partition == LOG else 0 for each in places}

    async def getmany(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0.001)
        batch, self.batch = self.batch, []
        return {CONTROL: batch} if batch else {}

    async def stop(self) -> None: ...


class FakeWriter:
    def __init__(self) -> None:
        self.joined = 0

    async def start(self) -> None: ...

    async def say(self, record: ControlRecord | None) -> None:
        self.joined += isinstance(record, Joined)

    async def beat(self, said: object) -> None: ...

    async def stop(self) -> None: ...


async def test_a_process_takes_part_in_a_control_topic_that_is_made_anew_and_shorter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer, writer = FakeConsumer(), FakeWriter()

    async def connected(*_: Any, **__: Any) -> FakeConsumer:
        return consumer

    async def crash(error: Exception) -> None:
        raise error

    monkeypatch.setattr(router_process, "connected_consumer", connected)
    monkeypatch.setattr(router_process, "RETRY", 0.0)
    route = Route("router", RULES, 1, {"out": "out"}, lambda load, before: RULES, CONTROL.topic)
    process = RouterProcess({}, route, 10.0, crash)
    monkeypatch.setattr(process, "_writer", writer)
    consumer.make(9)
    process.start()
    try:
        async with asyncio.timeout(60):
            while not writer.joined:
                await asyncio.sleep(0.001)
            assert process.read == 9
            consumer.make(1)
            while process.read != 1:
                await asyncio.sleep(0.001)
            before = writer.joined
            while writer.joined == before:
                await asyncio.sleep(0.001)
    finally:
        await process.stop()
