"""Which streams may have what they miss among the messages that their views have not read yet."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition

from tests.topology.partition import INSPECTOR
from topology import Topology
from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.explain import Missing, OpenGap
from topology.faust.inspection.durable import Span, Tail
from topology.faust.inspection.unread_streams import UnreadStreams
from topology.model.event import Message, Record

BY_STREAM = "shop.orders.by-stream"
RUBBISH = "rubbish"


def message(topic: str, offset: int, stream: str) -> Record:
    body = orjson.dumps({"stream": stream, "sequence": 4, "kind": "Placed"})
    key = stream.encode() if topic == BY_STREAM else b"any"
    return Record(topic, 0, offset, key, b"{" if stream == RUBBISH else body)


class Topics:
    """Topics of one partition: streams of messages, of which the first one is read."""

    def __init__(
        self, topology: Topology, *, orders: tuple[str, ...] = (), keyed: tuple[str, ...] = (),
        cut: str | None = None, held: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.topology = topology
        self._topics = {"orders": ("read", *orders), BY_STREAM: ("read", *keyed)}
        self._cut, self._held = cut, held

    async def inputs(self, source: Source) -> list[TopicPartition]:
        return [TopicPartition(name, 0) for name in source.topics]

    async def span(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        return {
            each: Span(0, len(self._topics[each.topic]), 1 if each.topic in self._held else 0)
            for each in partitions
        }

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Any]:
        return {each: SimpleNamespace(offset=1) for each in partitions}

    async def task(self, view: View, partition: int, wanted: object) -> Any:
        return SimpleNamespace(state=SimpleNamespace(positions=SimpleNamespace(input=None)))

    async def end_of(
        self, partition: TopicPartition, wanted: Callable[[Message], bool], *, least: int
    ) -> Tail:
        unread = self._topics[partition.topic][least:]
        for offset, stream in enumerate(unread, least):
            assert not wanted(message(partition.topic, offset, stream))
        return Tail([], len(unread), self._cut if unread else None)


def shop(*, keyed: bool = False) -> Topology:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, partitions=1, keyed=keyed)
    topology.view("board", of=orders, handler=lambda event: None)
    topology.view("lanes", of=orders, handler=lambda event: None, lane="kind")
    return topology


def gap(view: str, stream: str) -> OpenGap:
    return OpenGap(view, 0, stream, 1, (Missing(2, 2, 1),), 1, 1, 0, 1, parked=False, due=None)


@pytest.mark.parametrize(
    ("topics", "waits"),
    [
        (Topics(shop()), []),
        (Topics(shop(), orders=("a",)), ["a"]),
        (Topics(shop(), keyed=("a",)), ["a"]),
        (Topics(shop(), orders=("b", RUBBISH), keyed=("a",)), ["a", "b"]),
        (Topics(shop(keyed=True), orders=("b", RUBBISH)), ["b"]),
        # Not all of it was looked at.
        (Topics(shop(), orders=("c",), cut="only the last …"), ["a", "b"]),
        (Topics(shop(), keyed=("c",), cut="only the last …"), ["a", "b"]),
        # An open transaction of another producer hides what there is.
        (Topics(shop(), held=("orders",)), ["a", "b"]),
        (Topics(shop(), held=(BY_STREAM,)), ["a", "b"]),
        (Topics(shop(keyed=True), orders=("c",), held=("orders",)), ["a", "b"]),
    ],
)
async def test_a_stream_with_a_message_that_is_not_read_may_have_what_it_misses(
    topics: Any, waits: list[str]
) -> None:
    unread = UnreadStreams(topics)
    for view, lane in (("board", ""), ("lanes", "|Placed")):
        found = [each for each in "ab" if await unread.may_have(gap(view, each + lane))]
        assert found == waits
