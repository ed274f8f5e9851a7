"""The consumer of an inbound topic: batches become units of work, are saved, and acknowledged."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from sqlalchemy import Connection

from stores.db.urls import said
from stores.segments.chain import Backpressure
from stores.segments.day_barrier import DayBarrier
from stores.segments.days import Days
from stores.segments.identity import Known, identify
from stores.segments.intake import UnitIntake
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import InboundMessage, OutboundMessage
from stores.segments.owned_work import OwnedWork
from stores.segments.parked_pair import ReleasedPairs
from stores.segments.parked_topic import LetGo, ParkedTopic
from stores.segments.published_ids import KeptId, PublishedIds
from stores.segments.store import SegmentStore
from stores.segments.writer import SEGMENT_BYTES, SegmentWriter
from topology.model.printable import printable

logger = logging.getLogger(__name__)
BACKLOG = 256_000_000
"""Bytes of a pair that wait for a destination, before its sources pause."""
FULL = 240.0
"""Seconds for which the messages of a queue are kept while the store is full: its lease is renewed
for five minutes."""
AGAIN, LONGEST = 0.5, 10.0
"""Seconds between two tries."""
_FASTER = 4
"""So many times faster than a stream grows, what is parked of it goes on."""


class Keep(Protocol):
    """Keeps outbound messages in the transaction that promises them."""

    def __call__(self, connection: Connection, messages: Sequence[OutboundMessage]) -> None: ...


class SegmentConsumer(OwnedWork):
    """Consumes one topic into segments; one at a time does so, others stand by.

    Args:
        intake: what is consumed, and what becomes of it.
        ledger: END and positions.
        store: the segments' bytes.
        holder: who, for whoever asks.
        backlog: bytes of a pair at which this source pauses.
        segment_bytes: after how many bytes a pair gets another segment.
        ids: what was consumed from a queue, which may come again; None: that is consumed again.
        days: the ends of days, at which all partitions wait for each other; None: there are none.
        keep: what else the transaction does that promises outbound messages.
    """

    def __init__(
        self,
        intake: UnitIntake,
        ledger: SegmentLedger,
        store: SegmentStore,
        *,
        holder: str = "consumer",
        backlog: int = BACKLOG,
        segment_bytes: int = SEGMENT_BYTES,
        ids: PublishedIds | None = None,
        days: Days | None = None,
        keep: Keep | None = None,
    ) -> None:
        super().__init__(ledger, holder)
        self.intake, self._store, self._ids, self._keep_also = intake, store, ids, keep
        self.days = None if days is None else DayBarrier(days, intake.inbound)
        self._released: ReleasedPairs | None = None
        if intake.parked is not None:
            self._released = ReleasedPairs(intake.parked.parking, intake.inbound.topic)
        self._limit, self._segment_bytes = backlog, segment_bytes
        self._writer: SegmentWriter | None = None
        self.backpressure = Backpressure({})

    def __str__(self) -> str:
        return self.intake.inbound.topic

    def _own(self) -> SegmentOwner | None:
        return self._ledger.own_end(self.intake.inbound.topic, self._holder)

    async def _connect(self, owner: SegmentOwner) -> None:
        writer = SegmentWriter(self._ledger, self._store, owner, segment_bytes=self._segment_bytes)
        await asyncio.to_thread(writer.recover)
        await self.intake.start(self._ledger, owner)
        if self.days is not None:
            await self.days.start(await asyncio.to_thread(self._ledger.positions, writer.topic))
        self._writer = writer

    async def _work(self, owner: SegmentOwner, wait: float) -> int:
        writer = self._writer
        assert writer is not None
        if self._released is not None and self._released.is_due:
            await asyncio.to_thread(self._released.give, writer)
        backlogs = await asyncio.to_thread(self._ledger.backlogs, writer.topic)
        self.backpressure = self.backpressure.next(backlogs, self._limit)
        if self.backpressure.paused:
            return 0
        went = 0
        if (parked := self.intake.parked) is not None and parked.has_any:
            limits = self.intake.limits
            most = _FASTER * limits.count, _FASTER * limits.size
            gone = await asyncio.to_thread(parked.let_go, *most)
            if gone is not None:  # what comes meanwhile does not wait for all of it
                went, wait = await self._redrive(writer, parked, gone), 0.0
        days = self.days
        if days is not None and not await days.pass_on(writer):
            return went
        messages: Sequence[InboundMessage] = await self.intake.batch(wait)
        await self.intake.recognise(self._ledger, owner)
        positions = {message.partition: message.behind for message in messages}
        reached: dict[int, str] = {}
        polled = len(messages)
        if days is not None and messages:
            messages, positions, reached = await asyncio.to_thread(days.split, messages)
        if positions:
            # Not on the loop: rules that take long would keep the lease from being renewed.
            outputs, note = await asyncio.to_thread(self._routed, messages)
            also = [note] if note else []
            if parked is not None:
                also.append(parked.note)
            if days is not None and reached:
                also.append(partial(days.reach, reached=reached))
            if self._keep_also is not None:
                also.append(partial(self._keep_also, messages=outputs))
            await self._save(
                partial(writer.write, outputs, positions, partial(_all, also)), messages
            )
            if parked is not None:
                parked.noted()
            if days is not None:
                days.hold(reached, positions)
            await self.intake.inbound.acknowledge(positions)
            if self._ids is not None and getattr(self.intake.inbound, "final", False):
                site, window = self.intake.site, self.intake.window
                read = [identify(each, site, window).id for each in messages]
                await asyncio.to_thread(self._ids.forget, owner, read)
        return went + (polled if positions else 0)

    async def _save(self, write: Callable[[], None], messages: Sequence[InboundMessage]) -> None:
        """Write a unit. While the disk is full, a queue keeps its messages for this consumer: were
        they given back, each time would count as one of the deliveries that it allows."""
        until = time.monotonic() + FULL
        pause = AGAIN
        while True:
            try:
                await asyncio.to_thread(write)
                return
            except OSError as error:
                if time.monotonic() > until or all(each.replayable for each in messages):
                    raise
                self.failing = said(error)
                logger.warning("%s waits to save what it consumed: %s", self, self.failing)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST)

    async def _disconnect(self) -> None:
        await self.intake.inbound.stop()

    async def _redrive(self, writer: SegmentWriter, parked: ParkedTopic, gone: LetGo) -> int:
        """Route the first messages of a stream that is let go, until one fails again."""
        await self.intake.ready()
        outputs: list[OutboundMessage] = []
        count, reason = 0, None
        for message in gone.messages:
            without = gone.reason if gone.without and not count else None
            found = await asyncio.to_thread(self.intake.attempted, message, without)
            if found.error is not None and without is None:
                reason = str(found.error)
                break
            outputs += found.outputs
            count += 1
        also = [partial(parked.went, gone=gone, count=count, reason=reason)]
        if self._keep_also is not None:
            also.append(partial(self._keep_also, messages=outputs))
        await asyncio.to_thread(writer.write, outputs, {}, partial(_all, also))
        await asyncio.to_thread(parked.start)
        logger.warning(
            "%s: %d messages of stream %s went on, as %s said%s",
            *(writer.topic, count, gone.stream, gone.who),
            f"; it fails again: {printable(reason)}" if reason else "",
        )
        return len(gone.messages)

    def _routed(
        self, messages: Sequence[InboundMessage]
    ) -> tuple[list[OutboundMessage], Callable[[Connection], None] | None]:
        new, note = self._new(messages)
        return self.intake.all_outputs(new), note

    def _new(
        self, messages: Sequence[InboundMessage]
    ) -> tuple[Sequence[InboundMessage], Callable[[Connection], None] | None]:
        """What was not consumed before, and what stores that it is now."""
        if self._ids is None or all(each.replayable for each in messages):
            return messages, None
        intake = self.intake
        who = [identify(each, intake.site, intake.window) for each in messages]
        known = self._ids.among(each.id for each in who if each.known is not Known.NOT)
        passing = intake.inbound.topic if getattr(intake.inbound, "final", False) else None
        new, kept = [], dict[str, KeptId]()
        for message, each in zip(messages, who, strict=True):
            if each.id in known or each.id in kept:
                intake.counts["repeated"] += 1
                continue
            new.append(message)
            if each.known in (Known.STREAM, Known.PRODUCER):
                kept[each.id] = KeptId(each.id, each.seconds, passing)
        return new, partial(self._ids.note, ids=list(kept.values()))


def _all(also: Sequence[Callable[[Connection], None]], connection: Connection) -> None:
    for each in also:
        each(connection)
