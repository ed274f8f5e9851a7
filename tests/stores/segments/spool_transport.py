"""A transport in a file: a message is a file of a folder, whose name is its number."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from stores.segments import (
    DestinationDown,
    InboundMessage,
    OutboundBatch,
    Pair,
    Place,
    PublishRefused,
    SegmentError,
)


class SpoolInbound:
    """See `Inbound`."""

    def __init__(self, topic: str, folder: Path) -> None:
        self.topic, self._folder, self._at = topic, folder, 0

    async def start(self, positions: Mapping[int, int]) -> None:
        self._at = positions.get(0, 0)
        if self._at > len(list(self._folder.glob("*"))):
            raise SegmentError(f"{self._folder} has fewer messages: it is another folder")

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        found: list[InboundMessage] = []
        while len(found) < most and (file := self._folder / str(self._at)).exists():
            found.append(InboundMessage(self.topic, 0, self._at, self._at + 1, file.read_bytes()))
            self._at += 1
        if not found:
            await asyncio.sleep(seconds)
        return found

    async def acknowledge(self, positions: Mapping[int, int]) -> None:
        pass

    async def stop(self) -> None:
        pass


class SpoolOutbound:
    """See `Outbound`. It keeps no START: a batch in doubt comes again, with its ids."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, folder / "lock"
        self._mine = False

    async def start(self, pair: Pair) -> Place | None:
        try:
            self._lock.open("x").close()
        except OSError as error:
            raise DestinationDown(f"{self._folder}: {error}") from error
        self._mine = True
        return None

    async def publish(self, batch: OutboundBatch) -> None:
        if not self._mine:
            raise DestinationDown(f"{self._folder} is another one's")
        for index, each in enumerate(batch.messages):
            if not each.destination.isalpha():
                raise PublishRefused(index, "its destination is no word")
        for each in batch.messages:
            place = self._folder / each.destination
            place.mkdir(exist_ok=True)
            content = orjson.dumps([(each.value or b"").decode(), each.id])
            (place / str(len(list(place.iterdir())))).write_bytes(content)
            await asyncio.sleep(0)

    async def stop(self) -> None:
        if self._mine:
            self._lock.unlink()
        self._mine = False
