"""The consumer's side of the end of a day: a partition that has it waits until all others have."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, runtime_checkable

from sqlalchemy import Connection

from stores.segments.day_of import day_of, end_of_day
from stores.segments.days import Days, DayState
from stores.segments.message import InboundMessage
from stores.segments.transports.transport import Inbound
from stores.segments.writer import SegmentWriter

logger = logging.getLogger(__name__)
TELL = 30.0
"""Seconds after which it is told, again, which partitions are silent."""


@runtime_checkable
class Holding(Protocol):
    """An inbound topic of several partitions, of which some can be held."""

    def partition_numbers(self) -> Collection[int]:
        """All that there are."""
        ...

    def hold(self, partition: int, position: int) -> None:
        """Deliver nothing of a partition; forget what is read of it from a position on."""
        ...

    def release(self, partition: int) -> None:
        """Deliver it again."""
        ...


class DayBarrier:
    """Where the partitions of one topic stand.

    Args:
        days: of the router.
        inbound: the topic.
    """

    def __init__(self, days: Days, inbound: Inbound) -> None:
        self._days, self._inbound, self._topic = days, inbound, inbound.topic
        self._held: dict[int, tuple[str, int]] = {}
        self._told = 0.0
        self.counts: Counter[str] = Counter()
        """Ends of days "reached", "repeated" and "refused"."""

    async def start(self, positions: dict[int, int]) -> None:
        """Hold what had reached the open day before; the inbound topic has been started."""
        inbound = self._inbound
        numbers = inbound.partition_numbers() if isinstance(inbound, Holding) else (0,)
        await asyncio.to_thread(self._days.know, self._topic, numbers)
        state = await asyncio.to_thread(self._days.state)
        self._told = time.monotonic()
        self._held = {}
        if state.open is not None:
            for number in numbers:
                if state.reached.get((self._topic, number)) == state.open:
                    self._hold(number, positions.get(number, 0), state.open)

    def split(
        self, messages: Sequence[InboundMessage]
    ) -> tuple[list[InboundMessage], dict[int, int], dict[int, str]]:
        """What of a batch is consumed now.

        Returns:
            The messages that are routed; partition → the position behind all that is done with;
            partition → the day that it has reached. What follows comes again.
        """
        state = self._days.state() if any(map(day_of, messages)) else DayState(frozenset())
        routed: list[InboundMessage] = []
        positions: dict[int, int] = {}
        reached: dict[int, str] = {}
        for message in messages:
            number, day = message.partition, day_of(message)
            if number in reached or number in self._held:
                continue
            positions[number] = message.behind
            if day is None:
                routed.append(message)
                continue
            why = state.refusal(self._topic, number, day)
            if why is None:
                state = state.after(self._topic, number, day)
                reached[number] = day
            elif why:
                routed.append(replace(message, damage=why))
            self.counts["reached" if why is None else "refused" if why else "repeated"] += 1
        return routed, positions, reached

    def reach(self, connection: Connection, reached: dict[int, str]) -> None:
        """Note what was reached, in the transaction that promises what was before it."""
        self._days.reach(connection, self._topic, reached)

    def hold(self, reached: dict[int, str], positions: dict[int, int]) -> None:
        """Wait, in these partitions."""
        for number, day in reached.items():
            self._hold(number, positions[number], day)

    async def pass_on(self, writer: SegmentWriter) -> bool:
        """Go on where a day has ended.

        Returns:
            Whether there is anything to poll.

        Raises:
            ConnectionError: the transport is away.
        """
        if not self._held:
            return True
        number, (day, _) = next(iter(self._held.items()))
        state = await asyncio.to_thread(self._days.state)
        withdrawn = state.reached.get((self._topic, number)) != day
        if withdrawn or (state.last is not None and state.last >= day):
            held, self._held = self._held, {}
            if isinstance(self._inbound, Holding):
                for number in held:
                    self._inbound.release(number)
            else:  # what it had polled behind the end comes again
                await self._inbound.stop()
                await self._inbound.start({number: at for number, (_, at) in held.items()})
            return True
        if state.complete and self._topic not in state.written:
            await asyncio.to_thread(self._write, writer, day)
        elif state.complete and state.topics <= state.written:
            await asyncio.to_thread(self._days.close, day)
        elif state.missing and time.monotonic() - self._told > TELL:
            self._told = time.monotonic()
            silent = ", ".join(state.missing[:20])
            logger.warning("%s: the end of %s waits for %s", self._topic, day, silent)
        return isinstance(self._inbound, Holding)

    def _hold(self, number: int, position: int, day: str) -> None:
        self._held[number] = day, position
        if isinstance(self._inbound, Holding):
            self._inbound.hold(number, position)

    def _write(self, writer: SegmentWriter, day: str) -> None:
        ends = [end_of_day(transport, day) for transport in self._days.transports]
        writer.write(ends, {}, partial(self._note, writer, day))

    def _note(self, writer: SegmentWriter, day: str, connection: Connection) -> None:
        self._days.write(connection, day, writer.written)
