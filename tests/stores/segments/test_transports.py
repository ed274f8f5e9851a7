"""Every transport holds to the contract, on both sides."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from stores.segments import Inbound, Outbound, OutboundMessage
from stores.segments.transports.files import FileInbound, FileOutbound
from stores.segments.transports.kafka import KafkaInbound, KafkaOutbound
from tests.conftest import BrokerAddress
from tests.contracts.transports import Add, Got, InboundContract, OutboundContract
from tests.stores.segments.spool_transport import SpoolInbound, SpoolOutbound


class TestSpoolInbound(InboundContract):
    @pytest.fixture
    def inbound(self, tmp_path: Path) -> Callable[[], Inbound]:
        return lambda: SpoolInbound("spool", tmp_path / "spool")

    @pytest.fixture
    def add(self, tmp_path: Path) -> Add:
        async def add(values: Sequence[bytes]) -> None:
            folder = tmp_path / "spool"
            folder.mkdir(exist_ok=True)
            for value in values:
                (folder / str(len(list(folder.iterdir())))).write_bytes(value)

        return add


class TestSpoolOutbound(OutboundContract):
    once = False

    @pytest.fixture
    def outbound(self, tmp_path: Path) -> Callable[[], Outbound]:
        return lambda: SpoolOutbound(tmp_path)

    @pytest.fixture
    def unreachable(self, tmp_path: Path) -> Outbound:
        return SpoolOutbound(tmp_path / "none")

    @pytest.fixture
    def refused(self) -> OutboundMessage:
        return OutboundMessage("there", "no word", b"x", id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, tmp_path: Path) -> Got:
        async def got(count: int) -> list[tuple[bytes, str | None]]:
            there = sorted((tmp_path / "target").iterdir(), key=lambda each: int(each.name))
            found = [orjson.loads(each.read_bytes()) for each in there]
            return [(value.encode(), id) for value, id in found]

        return got


class TestFileInbound(InboundContract):
    @pytest.fixture
    def inbound(self, tmp_path: Path) -> Callable[[], Inbound]:
        return lambda: FileInbound("lines", tmp_path / "lines")

    @pytest.fixture
    def add(self, tmp_path: Path) -> Add:
        async def add(values: Sequence[bytes]) -> None:
            with (tmp_path / "lines").open("ab") as file:
                file.write(b"".join(value + b"\n" for value in values))

        return add

    async def test_half_a_line_is_waited_for(
        self, inbound: Callable[[], Inbound], tmp_path: Path
    ) -> None:
        one = inbound()
        await one.start({})
        assert await one.poll(10, 0) == [], "there is no file yet"
        (tmp_path / "lines").write_bytes(b"whole\nhal")
        assert [each.value for each in await one.poll(10, 0)] == [b"whole"]
        (tmp_path / "lines").write_bytes(b"whole\nhalf\n")
        assert [each.value for each in await one.poll(10, 0)] == [b"half"]
        (tmp_path / "lines").write_bytes(b"whole\nhalf\n" + b"x" * 2_500_000 + b"\n")
        assert [len(each.value or b"") for each in await one.poll(10, 0)] == [2_500_000]


class TestFileOutbound(OutboundContract):
    @pytest.fixture
    def outbound(self, tmp_path: Path) -> Callable[[], Outbound]:
        return lambda: FileOutbound(tmp_path / "out")

    @pytest.fixture
    def unreachable(self, tmp_path: Path) -> Outbound:
        (tmp_path / "file").touch()
        return FileOutbound(tmp_path / "file" / "out")

    @pytest.fixture(params=["../../etc/passwd", ".orders.confirmed", "lines"])
    def refused(self, request: pytest.FixtureRequest) -> OutboundMessage:
        return OutboundMessage("there", request.param, b"two\nlines", id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, tmp_path: Path) -> Got:
        async def got(count: int) -> list[tuple[bytes, str | None]]:
            lines = (tmp_path / "out" / "target+orders.lines").read_bytes().splitlines()
            return [(line, None) for line in lines]

        return got


@pytest.fixture
def kafka(broker: BrokerAddress) -> dict[str, Any]:
    return {"bootstrap_servers": broker.address}


NOWHERE = {"bootstrap_servers": "127.0.0.1:9"}


@pytest.mark.integration
class TestKafkaInbound(InboundContract):
    @pytest.fixture
    def source(self, topic: Callable[..., str]) -> str:
        return topic("source")

    @pytest.fixture
    def inbound(self, kafka: dict[str, Any], source: str) -> Callable[[], Inbound]:
        return lambda: KafkaInbound(source, kafka, source)

    @pytest.fixture
    def unreachable(self) -> Inbound:
        return KafkaInbound("orders", NOWHERE)

    @pytest.fixture
    def add(self, kafka: dict[str, Any], source: str) -> Add:
        async def add(values: Sequence[bytes]) -> None:
            async with AIOKafkaProducer(**kafka) as producer:
                for value in values:
                    await producer.send_and_wait(source, value)

        return add


@pytest.mark.integration
class TestKafkaOutbound(OutboundContract):
    @pytest.fixture
    def target(self, topic: Callable[..., str]) -> str:
        return topic("target")

    @pytest.fixture
    def errors(self, topic: Callable[..., str]) -> str:
        return topic("errors")

    @pytest.fixture
    def outbound(self, kafka: dict[str, Any], target: str) -> Callable[[], Outbound]:
        return lambda: KafkaOutbound(kafka, target)

    @pytest.fixture
    def unreachable(self) -> Outbound:
        return KafkaOutbound(NOWHERE)

    @pytest.fixture
    def refused(self, target: str) -> OutboundMessage:
        return OutboundMessage("there", target, b"x" * 2_000_000, id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, kafka: dict[str, Any], target: str) -> Callable[[int], Awaitable[list[Any]]]:
        async def got(count: int) -> list[Any]:
            settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            found: list[Any] = []
            async with AIOKafkaConsumer(target, **kafka, **settings) as consumer:
                for _ in range(600):
                    some = await consumer.getmany(timeout_ms=250)
                    for record in (each for records in some.values() for each in records):
                        found.append((record.value, dict(record.headers)["sequitur-id"].decode()))
                    if len(found) >= count and not some:
                        break
            return found

        return got
