"""Transports in memory, which fail where a test says, and remember what they were given."""

from collections.abc import Callable, Mapping, Sequence

from stores.segments import (
    DestinationDown,
    InboundMessage,
    OutboundBatch,
    OutboundMessage,
    Pair,
    Place,
    PublishRefused,
)


def nothing() -> None:
    """No step of a fuse."""


class LogInbound:
    """A topic of several partitions that stays what it is."""

    def __init__(self, topic: str = "orders", before: Callable[[], None] = nothing) -> None:
        self.topic, self._before = topic, before
        self.partitions: dict[int, list[bytes]] = {}
        self.acknowledged: dict[int, int] = {}
        self._at: dict[int, int] = {}

    def add(self, partition: int, value: bytes) -> None:
        self.partitions.setdefault(partition, []).append(value)

    async def start(self, positions: Mapping[int, int]) -> None:
        self._before()
        self._at = dict(positions)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        found: list[InboundMessage] = []
        for partition, values in sorted(self.partitions.items()):
            at = self._at.get(partition, 0)
            for offset in range(at, min(len(values), at + most - len(found))):
                value = values[offset]
                found.append(InboundMessage(self.topic, partition, offset, offset + 1, value))
                self._at[partition] = offset + 1
        return found

    async def acknowledge(self, positions: Mapping[int, int]) -> None:
        self._before()
        self.acknowledged |= positions
        self._before()

    async def stop(self) -> None:
        pass


class MemoryOutbound:
    """What a destination got. remembers: it takes a batch and its place at once, as Kafka does."""

    def __init__(self, *, remembers: bool = False, before: Callable[[], None] = nothing) -> None:
        self._remembers, self._before = remembers, before
        self.keeps_start = remembers
        self.got: list[OutboundMessage] = []
        self.behind: Place | None = None
        self.refused: set[bytes] = set()
        self.down = False
        self.handed: list[str] = []
        self.batches: list[int] = []

    async def start(self, pair: Pair) -> Place | None:
        self._before()
        return self.behind if self._remembers else None

    async def publish(self, batch: OutboundBatch) -> None:
        if self.down:
            raise DestinationDown("it is down")
        for at, message in enumerate(batch.messages):
            if message.value in self.refused and message.destination != "errors":
                raise PublishRefused(at, "it is too large")
        self.handed = [each.id for each in batch.messages]
        self._before()
        if self._remembers:
            self.got += batch.messages
            self.behind = batch.behind
        else:
            half = len(batch.messages) // 2
            self.got += batch.messages[:half]
            self._before()
            self.got += batch.messages[half:]
        self.batches.append(len(batch.messages))
        self._before()

    async def stop(self) -> None:
        pass
