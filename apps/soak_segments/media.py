"""What is at either end of a soak: a source of its name, and destinations that begin with it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from aio_pika import Message
from confluent_kafka import Producer

from sequitur.demo.kafka import Kafka
from soak.check import read
from stores.segments import Inbound, Outbound
from stores.segments.transports.files import FileInbound, FileOutbound
from stores.segments.transports.kafka import ID, KafkaInbound, KafkaOutbound
from stores.segments.transports.rabbitmq import RabbitInbound, RabbitLogin, RabbitOutbound

BATCH = 5
"""Messages of a unit."""
Found = TypeVar("Found")


class Medium(Protocol):
    """A transport. repeats: messages that may come again for each kill."""

    repeats: int

    def __init__(self, folder: Path, servers: Mapping[str, str], name: str) -> None: ...
    def make(self, destinations: Sequence[str]) -> None: ...
    def inbound(self) -> Inbound: ...
    def outbound(self) -> Outbound: ...
    def fill(self, partition: int, values: Sequence[str]) -> None: ...
    def got(self, destination: str) -> list[tuple[str, str]]:
        """Values and ids ("": it has no room for them), in order per inbound partition."""


@dataclass(frozen=True)
class FileMedium:
    """A file of lines; files of lines."""

    folder: Path
    servers: Mapping[str, str]
    name: str
    repeats = 0

    def make(self, destinations: Sequence[str]) -> None:
        """Files are made by whoever writes them."""

    def inbound(self) -> Inbound:
        return FileInbound(self.name, self.folder / "lines")

    def outbound(self) -> Outbound:
        return FileOutbound(self.folder / "out")

    def fill(self, partition: int, values: Sequence[str]) -> None:
        with (self.folder / "lines").open("a") as file:
            file.write("".join(f"{value}\n" for value in values))

    def got(self, destination: str) -> list[tuple[str, str]]:
        file = self.folder / "out" / f"{destination}+{self.name}.lines"
        return [(line, "") for line in file.read_text().splitlines()] if file.exists() else []


@dataclass(frozen=True)
class KafkaMedium:
    """Topics, of two partitions."""

    folder: Path
    servers: Mapping[str, str]
    name: str
    repeats = 0

    @property
    def _settings(self) -> dict[str, str]:
        return {"bootstrap_servers": self.servers["kafka"]}

    def make(self, destinations: Sequence[str]) -> None:
        Kafka(self.servers["kafka"]).create(dict.fromkeys((self.name, *destinations), 2))

    def inbound(self) -> Inbound:
        return KafkaInbound(self.name, self._settings, self.name)

    def outbound(self) -> Outbound:
        return KafkaOutbound(self._settings, self.name)

    def fill(self, partition: int, values: Sequence[str]) -> None:
        producer = Producer({"bootstrap.servers": self.servers["kafka"], "log_level": 0})
        for value in values:
            producer.produce(self.name, value, partition=partition)
        producer.flush(30)

    def got(self, destination: str) -> list[tuple[str, str]]:
        found: list[Any] = [*read(self.servers["kafka"], destination)]
        return [(each.value().decode(), dict(each.headers())[ID].decode()) for each in found]


@dataclass(frozen=True)
class RabbitMedium:
    """Queues."""

    folder: Path
    servers: Mapping[str, str]
    name: str
    repeats = BATCH

    @property
    def _login(self) -> RabbitLogin:
        return RabbitLogin(self.servers["rabbitmq"])

    def make(self, destinations: Sequence[str]) -> None:
        async def make(channel: Any) -> None:
            for each in (self.name, *destinations):
                await channel.declare_queue(each, durable=True)

        asyncio.run(self._with_channel(make))

    def inbound(self) -> Inbound:
        return RabbitInbound(self.name, self._login)

    def outbound(self) -> Outbound:
        return RabbitOutbound(self._login, self.name)

    def fill(self, partition: int, values: Sequence[str]) -> None:
        async def fill(channel: Any) -> None:
            for each in values:
                message = Message(each.encode(), message_id=each, delivery_mode=2)
                await channel.default_exchange.publish(message, self.name)

        asyncio.run(self._with_channel(fill))

    def got(self, destination: str) -> list[tuple[str, str]]:
        async def got(channel: Any) -> list[tuple[str, str]]:
            queue, found = await channel.get_queue(destination), []
            while (one := await queue.get(fail=False)) is not None:  # it goes back, unacknowledged
                found.append((one.body.decode(), str(one.headers[ID])))
            return found

        return asyncio.run(self._with_channel(got))

    async def _with_channel(self, work: Callable[[Any], Awaitable[Found]]) -> Found:
        async with await self._login.connect("soak") as connection:
            return await work(await connection.channel())


MEDIA: dict[str, type[Medium]] = {
    "kafka": KafkaMedium,
    "files": FileMedium,
    "rabbitmq": RabbitMedium,
}
"""All transports; a soak has each pair of them."""
