"""The view at a site: Sequitur's sequencer puts each aircraft's movements in order."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
from aiokafka import TopicPartition

from drill.traffic import Movement
from stores.sites import Site
from stores.sites.errors import AWAY
from topology.model.event import Event, Record
from topology.sequencer.contiguous import ContiguousOrdering
from topology.sequencer.progress import Progress, last_of
from topology.sequencer.sequencer import step
from topology.sequencer.timers import Timers

_ORDER = ContiguousOrdering(size=4096)  # no aircraft has more movements: nothing spills


def movement_of(value: bytes) -> Movement:
    """The aircraft and the number of a message."""
    found = orjson.loads(value)
    return found["tail"], found["number"]


@dataclass
class View:
    """ready: events that were released, in order. duplicates: those that came again."""

    site: Site
    topic: str
    ready: int = 0
    duplicates: int = 0
    _progress: dict[str, int | Progress] = field(default_factory=dict)
    _timers: Timers = field(default_factory=Timers)

    def progress(self, stream: str) -> int | Progress:
        return self._progress.get(stream, 0)

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        return iter(())

    @property
    def waiting(self) -> int:
        """Events that wait behind a gap."""
        return sum(each.waiting for each in self._progress.values() if isinstance(each, Progress))

    def waits(self) -> set[str]:
        """The aircraft that wait behind a gap."""
        every = self._progress.items()
        return {name for name, each in every if isinstance(each, Progress) and each.waiting}

    @property
    def gaps(self) -> int:
        """How many wait."""
        return len(self.waits())

    def last(self) -> dict[str, int]:
        """Aircraft → the last movement that was released."""
        return {stream: last_of(each) for stream, each in self._progress.items()}

    def take(self, values: list[bytes]) -> None:
        """Put messages in order."""
        events = []
        for value in values:
            tail, number = movement_of(value)
            events.append(Event(tail, number, None, None, Record("", 0, 0, None, None)))
        done = step(_ORDER, self, self._timers, events)
        self._progress |= done.changed
        self.ready += len(done.ready)
        self.duplicates += done.duplicates

    async def follow(self) -> None:
        """Read the topic for ever; a broker that is killed comes back."""
        places: dict[TopicPartition, int] = {}
        while True:
            try:
                async with self.site.reader() as consumer:
                    for number in await self.site.extents(self.topic):
                        places.setdefault(TopicPartition(self.topic, number), 0)
                    consumer.assign(list(places))
                    for at, offset in places.items():
                        consumer.seek(at, offset)
                    while True:
                        for at, records in (await consumer.getmany(timeout_ms=500)).items():
                            self.take([record.value for record in records])
                            places[at] = records[-1].offset + 1
            except AWAY:
                await asyncio.sleep(0.5)
