"""What is at either end of a soak: filled, and read at last."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import orjson
from aio_pika import Message
from confluent_kafka import Producer
from sqlalchemy import Engine, select

from sequitur.demo.kafka import Kafka
from soak.check import read
from stores.db.engines import open_engine
from stores.inbox import Inbox
from stores.inbox.tables import MESSAGES, STREAMS
from stores.outbox import MessageLog, Outbox
from stores.segments import InboundMessage
from stores.segments.transports.kafka import ID
from stores.segments.transports.rabbitmq import RabbitLogin
from stores.segments.transports.rabbitmq_streams import RabbitStreamInbound

BATCH = 5
"""Messages of a unit."""
Found = TypeVar("Found")


class Medium(Protocol):
    """A transport. table: as in a router's file. repeats: what may come again for each kill."""

    repeats: int

    @property
    def table(self) -> Mapping[str, Any]: ...
    def __init__(self, folder: Path, servers: Mapping[str, str]) -> None: ...
    def make(self, names: Sequence[str]) -> None: ...
    def fill(self, name: str, partition: int, values: Sequence[str]) -> None: ...
    def got(self, name: str, topic: str) -> list[tuple[str, str]]:
        """Values and ids ("": it has no room for them), in order per inbound partition."""


class FileMedium:
    """A file of lines; files of lines."""

    repeats = 0

    def __init__(self, folder: Path, servers: Mapping[str, str]) -> None:
        self._folder, self.table = folder, {"kind": "files"}

    def make(self, names: Sequence[str]) -> None:
        """Files are made by whoever writes them."""

    def fill(self, name: str, partition: int, values: Sequence[str]) -> None:
        with (self._folder / name).open("a") as file:
            file.write("".join(f"{value}\n" for value in values))

    def got(self, name: str, topic: str) -> list[tuple[str, str]]:
        file = self._folder / f"{name}+{topic}.lines"
        return [(line, "") for line in file.read_text().splitlines()] if file.exists() else []


class KafkaMedium:
    """Topics of two partitions."""

    repeats = 0

    def __init__(self, folder: Path, servers: Mapping[str, str]) -> None:
        self._broker = servers["kafka"]
        self.table = {"kind": "kafka", "broker": self._broker}

    def make(self, names: Sequence[str]) -> None:
        Kafka(self._broker).create(dict.fromkeys(names, 2))

    def fill(self, name: str, partition: int, values: Sequence[str]) -> None:
        producer = Producer({"bootstrap.servers": self._broker, "log_level": 0})
        for value in values:
            producer.produce(name, value, partition=partition)
        producer.flush(30)

    def got(self, name: str, topic: str) -> list[tuple[str, str]]:
        found: list[Any] = [*read(self._broker, name)]
        return [(each.value().decode(), dict(each.headers())[ID].decode()) for each in found]


class RabbitMedium:
    """Queues."""

    repeats = BATCH
    arguments: Mapping[str, str] = MappingProxyType({})

    def __init__(self, folder: Path, servers: Mapping[str, str]) -> None:
        self.table: dict[str, Any] = {"kind": "rabbitmq", "url": servers["rabbitmq"]}

    def make(self, names: Sequence[str]) -> None:
        async def make(channel: Any) -> None:
            for each in names:
                await channel.declare_queue(each, durable=True, arguments={**self.arguments})

        self._run(make)

    def fill(self, name: str, partition: int, values: Sequence[str]) -> None:
        async def fill(channel: Any) -> None:
            for each in values:
                message = Message(each.encode(), message_id=each, delivery_mode=2)
                await channel.default_exchange.publish(message, name)

        self._run(fill)

    def got(self, name: str, topic: str) -> list[tuple[str, str]]:
        async def got(channel: Any) -> list[tuple[str, str]]:
            queue, found = await channel.get_queue(name), []
            while (one := await queue.get(fail=False)) is not None:  # it goes back, unacknowledged
                found.append((one.body.decode(), str(one.headers[ID])))
            return found

        return self._run(got)

    def _run(self, work: Callable[[Any], Awaitable[Found]]) -> Found:
        async def connected() -> Found:
            async with await RabbitLogin(self.table["url"]).connect("soak") as connection:
                return await work(await connection.channel())

        return asyncio.run(connected())


class StreamMedium(RabbitMedium):
    """Streams."""

    repeats = 0
    arguments = MappingProxyType({"x-queue-type": "stream"})

    def __init__(self, folder: Path, servers: Mapping[str, str]) -> None:
        super().__init__(folder, servers)
        self.table |= {"kind": "rabbitmq-stream", "port": int(servers["streams"])}

    def got(self, name: str, topic: str) -> list[tuple[str, str]]:
        async def got() -> list[InboundMessage]:
            inbound = RabbitStreamInbound(name, RabbitLogin(self.table["url"]))
            found: list[InboundMessage] = []
            await inbound.start({})
            while some := await inbound.poll(1_000, 1.0):
                found += some
                await inbound.acknowledge({0: some[-1].behind})  # else no more than prefetch= come
            await inbound.stop()
            return found

        return [
            ((m.value or b"").decode(), dict(m.headers)[ID].decode()) for m in asyncio.run(got())
        ]


class SqlMedium:
    """A message log, where a partition is a stream; an inbox."""

    repeats = 0

    def __init__(self, folder: Path, servers: Mapping[str, str]) -> None:
        self._url = servers.get("sql", f"sqlite:///{folder}/messages.db")
        self.table = {"kind": "sql", "database": self._url}

    def make(self, names: Sequence[str]) -> None:
        with self._opened() as engine:
            MessageLog().create(engine)
            Inbox(engine)

    def fill(self, name: str, partition: int, values: Sequence[str]) -> None:
        with self._opened() as engine, engine.begin() as connection:
            for each in values:
                Outbox(MessageLog()).capture(
                    connection, name, str(partition), "soak", each.encode()
                )

    def got(self, name: str, topic: str) -> list[tuple[str, str]]:
        of, at = MESSAGES.c, (MESSAGES.c.stream_id, MESSAGES.c.epoch, MESSAGES.c.sequence)
        asked = select(of.content, of.headers).join(STREAMS, STREAMS.c.id == of.stream_id)
        with self._opened() as engine, engine.connect() as connection:
            rows = connection.execute(asked.where(STREAMS.c.topic == name).order_by(*at)).all()
        return [(bytes(content).decode(), orjson.loads(named)[ID]) for content, named in rows]

    @contextmanager
    def _opened(self) -> Iterator[Engine]:
        engine = open_engine(self._url)
        try:
            yield engine
        finally:
            engine.dispose()


MEDIA: dict[str, type[Medium]] = {
    "kafka": KafkaMedium,
    "files": FileMedium,
    "rabbitmq": RabbitMedium,
    "rabbitmq-stream": StreamMedium,
    "sql": SqlMedium,
}
"""All transports; a soak has each pair of them."""
