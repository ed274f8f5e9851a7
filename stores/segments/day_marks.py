"""The publishers' side of the end of a day: each partition of each destination is told once."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

import orjson

from stores.segments.day_of import DAY
from stores.segments.days import Days, Passing
from stores.segments.message import OutboundMessage, Pair
from stores.segments.transports.transport import Outbound


@runtime_checkable
class Partitioned(Protocol):
    """A transport whose destinations have partitions."""

    async def partition_numbers(self, destination: str) -> Collection[int]:
        """All that there are, none where there is no such destination. Raises DestinationDown."""
        ...


@runtime_checkable
class Apart(Protocol):
    """A transport that keeps apart what comes of several topics: each is told by itself."""

    topics_apart: bool


class DayMarks:
    """Makes what destinations are told.

    Args:
        days: of the router.
        site: where it is.
        destinations: transport → what is published there.
    """

    def __init__(self, days: Days, site: str, destinations: Mapping[str, Collection[str]]) -> None:
        self._days, self._site, self._destinations = days, site, destinations

    async def marks(
        self, pair: Pair, day: str, outbound: Outbound
    ) -> tuple[OutboundMessage, ...] | None:
        """What a pair's publisher publishes at the end of a day; None while it has to wait.

        Args:
            pair: it.
            day: which has ended.
            outbound: its transport.

        Raises:
            DestinationDown: the transport is away.
        """
        passing = await asyncio.to_thread(self._days.passing, pair, day)
        if passing is Passing.WAITS:
            return None
        apart = isinstance(outbound, Apart) and outbound.topics_apart
        if passing is Passing.FOLLOWS and not apart:
            return ()
        if passing is Passing.LEADS:
            await asyncio.to_thread(self._days.forget, pair, day)
        content = orjson.dumps({"day": day, "site": self._site})
        found = []
        for destination in sorted(self._destinations.get(pair.transport, ())):
            numbers: Collection[int | None] = ()
            if isinstance(outbound, Partitioned):
                numbers = await outbound.partition_numbers(destination)
            for number in numbers or (None,):
                of = f"{destination}/{pair.topic}" if apart else destination
                id = f"{self._site}/day/{day}/{of}/{number or 0}/0"
                headers = ((DAY, day.encode()),)
                found.append(
                    OutboundMessage(
                        *(pair.transport, destination, content, None, headers),
                        id=id,
                        partition=number,
                    )
                )
        return tuple(found)
