"""A look at a side topic is bounded, begins with what is newest, and says what it did not see."""

import asyncio
import io
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology.faust.inspection import durable
from topology.faust.inspection.durable import DurableState, Span, Tail
from topology.faust.inspection.ticker import Ticker
from topology.model.event import Message, Record


class Topic(DurableState):
    """Offsets `first` to `end` of a topic, each with a record but for every third."""

    def __init__(self, first: int, end: int, scan: int | None, tick: float = 0.0) -> None:
        self._scan = durable.SCAN if scan is None else scan
        self._seconds = durable.SECONDS if scan is None else float("inf")
        self._there = Span(first, end)
        self._tick = tick
        self.clock = 0.0
        self.read: list[tuple[int, int]] = []

    async def span(self, partitions: Any) -> dict[TopicPartition, Span]:
        return dict.fromkeys(partitions, self._there)

    async def records(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncGenerator[Message]:
        self.read.append((start, end))
        self.clock += self._tick
        for offset in range(start, end):
            if offset % 3:
                yield Record(partition.topic, 0, offset, b"%d" % (offset % 2), None)


def looked(topic: Topic, wanted: Callable[[Message], bool] | None = None, **more: Any) -> Tail:
    return asyncio.run(topic.end_of("shop.dead", wanted, **more))


def test_all_of_a_short_topic_is_read_once_and_in_order() -> None:
    topic = Topic(7, 23_456, None)
    found = looked(topic)
    assert [r.offset for r in found.records] == [n for n in range(7, 23_456) if n % 3]
    assert (found.looked, found.cut) == (23_456 - 7, None)
    read = sorted(topic.read)
    assert read[0][0] == 7
    assert all(one[1] == other[0] for one, other in pairwise(read))


def test_only_what_is_wanted_is_held() -> None:
    found = looked(Topic(0, 9000, None), lambda record: record.key == b"0")
    assert {record.key for record in found.records} == {b"0"}


def test_the_end_of_a_long_topic_is_looked_at_and_that_is_said() -> None:
    found = looked(Topic(0, 10_000_000, 12_000))
    assert found.looked == 12_000
    assert found.records[-1].offset > 9_999_990
    assert found.records[0].offset >= 10_000_000 - 12_000
    assert found.cut == ("only the last 12,000 offsets of shop.dead were read; --scan N reads more")


def test_a_look_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(0, 10_000_000, None, tick=3.0)
    monkeypatch.setattr(time, "monotonic", lambda: topic.clock)
    found = looked(topic)
    monkeypatch.undo()
    assert len(topic.read) == 2
    assert found.looked == 3 * durable.FIRST
    assert found.cut is not None


def test_what_is_before_the_least_is_not_looked_at_and_not_said() -> None:
    found = looked(Topic(0, 50_000, None), least=49_000)
    assert (found.looked, found.cut) == (1000, None)
    assert looked(Topic(60, 60, None), least=49_000) == Tail([], 0, None)


async def test_a_long_look_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_range(*_: Any, **__: Any) -> AsyncGenerator[list[Record]]:
        for offset in (109, 149, 199):  # of some offsets there is no record
            yield [Record("shop.dead", 0, offset, b"", None)]

    out, clock = io.StringIO(), partial(next, count(0, 60))
    monkeypatch.setattr(durable, "read_range", read_range)
    monkeypatch.setattr(durable, "Ticker", partial(Ticker, out=out, clock=clock))
    look: Any = object.__new__(DurableState)
    look._started = SimpleNamespace(assign=lambda _: None)
    found = [r.offset async for r in look.records(TopicPartition("shop.dead", 0), 100, 200)]
    assert found == [109, 149, 199]
    first, *_, last = out.getvalue().splitlines()
    assert first.startswith("reading shop.dead: 10 of 100 offsets, 10%, about ")
    assert last.startswith("reading shop.dead: 100 of 100 offsets, 100%")
