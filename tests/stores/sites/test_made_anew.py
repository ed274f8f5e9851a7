"""What is of a topic that was made anew is neither forwarded nor captured as the old one's."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from stores.segments import SegmentError
from stores.segments.transports.kafka import KafkaInbound
from stores.sites import Site, SiteError
from stores.sites.forwarder import Forwarder

AT = TopicPartition("movements", 0)
OLD, NEW = "old", "new"


class FakeBroker:
    """A consumer of a topic, which is made anew behind the last message of a batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
        self.id, self.offset, self.asked = OLD, 0, 0
        self._client = SimpleNamespace(_conns={"1": "connection"})
        monkeypatch.setattr(f"{module}.topic_id", self.topic_id)

    async def topic_id(self, _client: object, _name: str) -> str:
        self.asked += 1
        return self.id

    async def getmany(self, **_: Any) -> dict[TopicPartition, list[Any]]:
        if self.offset == 2:
            return {}
        self.offset += 1
        headers, place = (), {"topic": AT.topic, "partition": 0, "offset": self.offset - 1}
        return {AT: [SimpleNamespace(key=b"k", value=b"v", headers=headers, timestamp=7, **place)]}

    async def position(self, _at: TopicPartition) -> int:
        return self.offset

    def assignment(self) -> set[TopicPartition]:
        return {AT}

    def partitions_for_topic(self, _topic: str) -> set[int]:
        return {0}


async def test_it_is_not_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    async def write(copies: list[Any], *_: object, **__: object) -> None:
        written.extend(each.origin.offset for each in copies)

    broker = FakeBroker(monkeypatch, "stores.sites.forwarder")
    forwarder = Forwarder(Site("newark", {}), Site("kennedy", {}), AT.topic)
    forwarder._consumer, forwarder._topic_id, forwarder._written = broker, OLD, {0: 0}
    monkeypatch.setattr(forwarder, "_writer", SimpleNamespace(write=write))
    assert await forwarder.step(0) == 1
    broker._client._conns["1"] = "another"
    with pytest.raises(ConnectionError, match="to site newark broke"):
        await forwarder.step(0)
    broker.id, broker.offset = NEW, 1
    with pytest.raises(SiteError, match="deleted and made again"):
        await forwarder.step(0)
    assert written == [0]


async def test_it_is_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker(monkeypatch, "stores.segments.transports.kafka")
    inbound = KafkaInbound(AT.topic, {}, recognise_each=True)
    inbound._consumer, inbound._partitions = broker, {0}
    assert await inbound.recognise(None) == OLD
    assert len(await inbound.poll(10, 0)) == 1
    assert await inbound.recognise(OLD) == OLD
    broker.id = NEW
    assert len(await inbound.poll(10, 0)) == 1
    with pytest.raises(SegmentError, match="deleted and made again"):
        await inbound.recognise(OLD)
    broker.id, asked = OLD, broker.asked
    await inbound.poll(10, 0)
    assert broker.asked == asked, "not where nothing came"
