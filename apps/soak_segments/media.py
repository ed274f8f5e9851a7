"""What is at either end of a soak: a source of its name, and destinations that begin with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer

from soak.check import read
from stores.segments import Inbound, Outbound
from stores.segments.transports.files import FileInbound, FileOutbound
from stores.segments.transports.kafka import ID, KafkaInbound, KafkaOutbound


class Medium(Protocol):
    """A transport. repeats: messages that may come again for each kill."""

    repeats: int

    def __init__(self, folder: Path, broker: str, name: str) -> None: ...
    def inbound(self) -> Inbound: ...
    def outbound(self) -> Outbound: ...
    def fill(self, partition: int, values: Sequence[str]) -> None: ...
    def got(self, destination: str) -> list[tuple[str, str]]:
        """Values and ids ("": it has no room for them), in order per inbound partition."""


@dataclass(frozen=True)
class FileMedium:
    """A file of lines; files of lines."""

    folder: Path
    broker: str
    name: str
    repeats = 0

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
    broker: str
    name: str
    repeats = 0

    def inbound(self) -> Inbound:
        return KafkaInbound(self.name, {"bootstrap_servers": self.broker}, self.name)

    def outbound(self) -> Outbound:
        return KafkaOutbound({"bootstrap_servers": self.broker}, self.name)

    def fill(self, partition: int, values: Sequence[str]) -> None:
        producer = Producer({"bootstrap.servers": self.broker, "log_level": 0})
        for value in values:
            producer.produce(self.name, value, partition=partition)
        producer.flush(30)

    def got(self, destination: str) -> list[tuple[str, str]]:
        found: list[Any] = [*read(self.broker, destination)]
        return [(each.value().decode(), dict(each.headers())[ID].decode()) for each in found]


MEDIA: dict[str, type[Medium]] = {"kafka": KafkaMedium, "files": FileMedium}
"""All transports; a soak has each pair of them."""
