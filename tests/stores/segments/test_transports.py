"""What every transport holds to, on both sides, and a destination that refuses without segments."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from stores.segments import (
    Inbound,
    InboundMessage,
    Outbound,
    OutboundBatch,
    OutboundMessage,
    Pair,
    Place,
    PublishRefused,
    SegmentError,
)
from stores.segments.transports.files import FileInbound, FileOutbound
from stores.segments.transports.kafka import KafkaInbound, KafkaOutbound
from tests.conftest import BrokerAddress

PAIR = Pair("orders", "there")


class InboundContract:
    """inbound: a topic of one partition; add: has values arrive there."""

    async def test_it_delivers_in_order_and_seeks_to_where_it_is_told(
        self, inbound: Inbound, add: Callable[[Sequence[bytes]], Awaitable[None]]
    ) -> None:
        await add([b"0", b"1", b"2", b"3"])
        await inbound.start({})
        found = await polled(inbound, 3)
        assert [each.value for each in found] == [b"0", b"1", b"2"]
        assert [each.topic for each in found] == [inbound.topic] * 3
        assert [each.behind for each in found[:2]] == [each.offset for each in found[1:]]
        await inbound.acknowledge({0: found[0].behind})
        await inbound.stop()
        await inbound.stop()
        # SQL's position counts, and not what was acknowledged.
        await inbound.start({0: found[1].behind})
        assert [each.value for each in await polled(inbound, 2)] == [b"2", b"3"]
        assert await inbound.poll(10, 0.05) == []
        await add([b"4"])
        again = await polled(inbound, 1)
        assert again[0].value == b"4"
        await inbound.stop()

    async def test_a_message_is_the_same_when_it_comes_again(
        self, inbound: Inbound, add: Callable[[Sequence[bytes]], Awaitable[None]]
    ) -> None:
        await add([b"a", b"b"])
        await inbound.start({})
        first = await polled(inbound, 2)
        await inbound.stop()
        await inbound.start({})
        assert await polled(inbound, 2) == first
        await inbound.stop()

    async def test_a_position_behind_the_end_is_of_another_topic(
        self, inbound: Inbound, add: Callable[[Sequence[bytes]], Awaitable[None]]
    ) -> None:
        await add([b"a"])
        with pytest.raises(SegmentError, match="it is another"):
            await inbound.start({0: 1000})
        await inbound.stop()


async def polled(inbound: Inbound, count: int) -> list[InboundMessage]:
    found: list[InboundMessage] = []
    for _ in range(100):
        found += await inbound.poll(count - len(found), 0.2)
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} messages came")


class OutboundContract:
    """outbound: makes one of a new transport each time; got: what a destination has of values."""

    async def test_what_is_published_is_there_in_order_and_its_place_is_known(
        self, outbound: Callable[[], Outbound], got: Callable[[], Awaitable[list[bytes]]]
    ) -> None:
        first = outbound()
        assert await first.start(PAIR) is None
        await first.publish(batch([b"0", b"1"], 20))
        await first.publish(batch([b"2"], 25))
        await first.publish(batch([], 30))
        await first.stop()
        await first.stop()
        second = outbound()
        assert await second.start(PAIR) == Place(1, 30)
        await second.publish(batch([b"3"], 40))
        await second.stop()
        third = outbound()
        assert await third.start(Pair("other", "there")) is None, "each pair has its own"
        await third.stop()
        assert await got() == [b"0", b"1", b"2", b"3"]

    async def test_of_a_batch_with_one_that_is_refused_nothing_is_there(
        self,
        outbound: Callable[[], Outbound],
        refused: OutboundMessage,
        got: Callable[[], Awaitable[list[bytes]]],
    ) -> None:
        one = outbound()
        await one.start(PAIR)
        whole = batch([b"0"], 10).messages
        with pytest.raises(PublishRefused) as found:
            await one.publish(OutboundBatch(PAIR, (*whole, refused), Place(1, 20)))
        assert found.value.index == 1
        await one.publish(batch([b"0"], 20))
        await one.stop()
        assert await got() == [b"0"]


TARGET = "target"


def batch(values: list[bytes], behind: int) -> OutboundBatch:
    found = [OutboundMessage("there", TARGET, v, id=f"s/orders/0/{v!r}/0") for v in values]
    return OutboundBatch(PAIR, tuple(found), Place(1, behind))


class TestFileInbound(InboundContract):
    @pytest.fixture
    def inbound(self, tmp_path: Path) -> Inbound:
        return FileInbound("lines", tmp_path / "lines")

    @pytest.fixture
    def add(self, tmp_path: Path) -> Callable[[Sequence[bytes]], Awaitable[None]]:
        async def add(values: Sequence[bytes]) -> None:
            with (tmp_path / "lines").open("ab") as file:
                file.write(b"".join(value + b"\n" for value in values))

        return add

    async def test_half_a_line_is_waited_for(self, inbound: Inbound, tmp_path: Path) -> None:
        await inbound.start({})
        assert await inbound.poll(10, 0) == [], "there is no file yet"
        (tmp_path / "lines").write_bytes(b"whole\nhal")
        assert [each.value for each in await inbound.poll(10, 0)] == [b"whole"]
        (tmp_path / "lines").write_bytes(b"whole\nhalf\n")
        assert [each.value for each in await inbound.poll(10, 0)] == [b"half"]
        (tmp_path / "lines").write_bytes(b"whole\nhalf\n" + b"x" * 2_500_000 + b"\n")
        assert [len(each.value or b"") for each in await inbound.poll(10, 0)] == [2_500_000]


class TestFileOutbound(OutboundContract):
    @pytest.fixture
    def outbound(self, tmp_path: Path) -> Callable[[], Outbound]:
        return lambda: FileOutbound(tmp_path)

    @pytest.fixture(params=["../../etc/passwd", ".orders.confirmed", "lines"])
    def refused(self, request: pytest.FixtureRequest) -> OutboundMessage:
        return OutboundMessage("there", request.param, b"two\nlines", id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, tmp_path: Path) -> Callable[[], Awaitable[list[bytes]]]:
        async def got() -> list[bytes]:
            return (tmp_path / f"{TARGET}+orders.lines").read_bytes().splitlines()

        return got


@pytest.fixture
def kafka(broker: BrokerAddress) -> dict[str, Any]:
    return {"bootstrap_servers": broker.address}


@pytest.mark.integration
class TestKafkaInbound(InboundContract):
    @pytest.fixture
    def inbound(self, kafka: dict[str, Any], topic: Callable[..., str]) -> Inbound:
        name = topic("source")
        return KafkaInbound(name, kafka, name)

    @pytest.fixture
    def add(
        self, kafka: dict[str, Any], inbound: Inbound
    ) -> Callable[[Sequence[bytes]], Awaitable[None]]:
        async def add(values: Sequence[bytes]) -> None:
            async with AIOKafkaProducer(**kafka) as producer:
                for value in values:
                    await producer.send_and_wait(inbound.topic, value)

        return add


@pytest.mark.integration
class TestKafkaOutbound(OutboundContract):
    @pytest.fixture(autouse=True)
    def target(self, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> str:
        name = topic("target")
        monkeypatch.setattr(f"{__name__}.TARGET", name)
        return name

    @pytest.fixture
    def outbound(self, kafka: dict[str, Any], target: str) -> Callable[[], Outbound]:
        return lambda: KafkaOutbound(kafka, target)

    @pytest.fixture
    def refused(self, target: str) -> OutboundMessage:
        return OutboundMessage("there", target, b"x" * 2_000_000, id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, kafka: dict[str, Any], target: str) -> Callable[[], Awaitable[list[bytes]]]:
        async def got() -> list[bytes]:
            settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            found: list[bytes] = []
            async with AIOKafkaConsumer(target, **kafka, **settings) as consumer:
                for _ in range(60):
                    some = await consumer.getmany(timeout_ms=250)
                    found += [record.value for records in some.values() for record in records]
                    if found and not some:
                        break
            return found

        return got


def test_a_folder_has_one_publisher_of_a_topic(tmp_path: Path) -> None:
    async def both() -> None:
        one, two = FileOutbound(tmp_path), FileOutbound(tmp_path)
        await one.start(PAIR)
        with pytest.raises(ConnectionError):
            await two.start(PAIR)
        await two.stop()
        await one.stop()
        await two.start(PAIR)
        await two.stop()

    asyncio.run(both())
