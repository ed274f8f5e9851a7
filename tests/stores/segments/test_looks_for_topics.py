"""A topic that is not there refuses its messages; one of which Kafka says nothing does not."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from stores.segments import DestinationDown, OutboundMessage, PublishRefused
from stores.segments.transports import kafka
from stores.segments.transports.kafka import KafkaOutbound

HANGS = object()


class Client:
    """Of aiokafka: each look at the metadata fails, hangs, or finds the partitions that it says."""

    def __init__(self, *looks: object) -> None:
        self._looks, self._found = iter(looks), None
        self._topics: set[str] = set()
        of = SimpleNamespace(unauthorized_topics=(), partitions_for_topic=lambda _: self._found)
        self.cluster = of

    async def add_topic(self, topic: str) -> bool:
        if topic in self._topics:
            return True
        self._topics.add(topic)
        return await self.force_metadata_update()

    async def force_metadata_update(self) -> bool:
        look: Any = next(self._looks)
        if look is HANGS:
            await asyncio.Event().wait()
        self._found = self._found if look is False else look or None
        return look is not False


@pytest.mark.parametrize(
    ("looks", "error", "why"),
    [
        ([()] * 5, PublishRefused, "there is no topic out"),
        ([False] * 5, DestinationDown, "not reachable"),
        ([(), (), (), (), False], DestinationDown, "not reachable"),
        ([(), HANGS], DestinationDown, "does not answer"),
    ],
)
async def test_what_is_not_found_is_not_asked_for_again_and_again(
    looks: list[object], error: type[Exception], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "_PAUSES", (0.0,) * 4)
    monkeypatch.setattr(kafka, "_WAIT", 60.0 if HANGS not in looks else 0.05)
    outbound, client = KafkaOutbound({}), Client(*looks)
    outbound._producer = SimpleNamespace(client=client)
    with pytest.raises(error, match=why):
        await outbound._learn([OutboundMessage("kafka", "out", b"x")])
    assert not client._topics


async def test_a_topic_that_comes_about_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_PAUSES", (0.0,) * 4)
    outbound, client = KafkaOutbound({}), Client(False, (), (), (), {1, 0})
    outbound._producer = SimpleNamespace(client=client)
    assert await outbound.partition_numbers("out") == [0, 1]
    assert client._topics == {"out"}


async def test_partitions_that_a_destination_gains_are_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "_WAIT", 0.05)
    outbound, client = KafkaOutbound({}), Client({0}, {0, 1}, False, {0, 1, 2}, HANGS)
    outbound._producer = SimpleNamespace(client=client)
    assert await outbound.partition_numbers("out") == [0]
    assert await outbound.partition_numbers("out") == [0, 1]
    with pytest.raises(DestinationDown, match="not reachable"):
        await outbound.partition_numbers("out")
    assert await outbound.partition_numbers("out") == [0, 1, 2]
    with pytest.raises(DestinationDown, match="does not answer"):
        await outbound.partition_numbers("out")
