"""The consumer of an inbound topic: batches become units of work, are saved, and acknowledged."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from sqlalchemy import Connection

from stores.segments.batching import BatchLimits, OpenBatch
from stores.segments.chain import Backpressure
from stores.segments.day_barrier import DayBarrier
from stores.segments.days import Days
from stores.segments.failures import FailurePolicy
from stores.segments.identity import Known, identify, numbered
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import InboundMessage, OutboundMessage
from stores.segments.owned_work import OwnedWork
from stores.segments.published_ids import KeptId, PublishedIds
from stores.segments.record import check_writable
from stores.segments.store import SegmentStore
from stores.segments.transports.transport import Inbound, Recognising
from stores.segments.writer import SEGMENT_BYTES, SegmentWriter

Route = Callable[[InboundMessage], Sequence[OutboundMessage]]
"""What a message becomes: the same each time that it is asked."""
BACKLOG = 256_000_000
"""Bytes of a pair that wait for a destination, before its sources pause."""


class UnitIntake:
    """Polls batches and routes them; what both kinds of consumers have.

    Args:
        inbound: the transport.
        route: what a message becomes.
        failures: what becomes of messages whose routing fails.
        transports: those that there are.
        site: where this is: a part of the ids, which two sites must not share.
        window: seconds for which producers' ids are believed, None: they are not.
        limits: of a batch.
    """

    def __init__(
        self,
        inbound: Inbound,
        route: Route,
        failures: FailurePolicy,
        transports: Collection[str],
        *,
        site: str,
        window: float | None = None,
        limits: BatchLimits | None = None,
    ) -> None:
        self.inbound, self._route, self._failures = inbound, route, failures
        self._transports = frozenset(transports)
        if not site:
            raise ValueError("a site has a name: ids of two sites must not be the same")
        self.site, self.window, self.limits = site, window, limits or BatchLimits()
        self._known: str | None = None
        self.counts: Counter[str] = Counter()
        """Messages "consumed", "failed", "repeated" and "redelivered without an id"."""

    async def start(self, ledger: SegmentLedger, owner: SegmentOwner) -> None:
        """Connect, and go on at the positions of SQL.

        Raises:
            SegmentError: it is another topic than what they are of.
        """
        topic = self.inbound.topic
        self._known = await asyncio.to_thread(ledger.source, topic)
        await self.inbound.start(await asyncio.to_thread(ledger.positions, topic))
        await self.recognise(ledger, owner)

    async def recognise(self, ledger: SegmentLedger, owner: SegmentOwner) -> None:
        """Keep by what the topic is told from others of its name. Raises SegmentError."""
        if isinstance(self.inbound, Recognising):
            found = await self.inbound.recognise(self._known)
            if found is not None and found != self._known:
                await asyncio.to_thread(ledger.keep_source, owner, found)
            self._known = found

    async def batch(self, wait: float) -> list[InboundMessage]:
        """Collect a batch, until something closes it.

        Args:
            wait: seconds to wait for its first message.
        """
        found: list[InboundMessage] = []
        filling = OpenBatch(self.limits)
        while not filling.is_full(now := time.monotonic()):
            left = filling.wait(now)
            some = await self.inbound.poll(
                self.limits.count - len(found), wait if left is None else left
            )
            if not some and not found:
                break
            now = time.monotonic()
            for message in some:
                filling.add(len(message.value or b""), now)
            found += some
        return found

    def all_outputs(self, messages: Sequence[InboundMessage]) -> list[OutboundMessage]:
        """Route messages.

        Args:
            messages: as they were delivered, in order.
        """
        return [each for message in messages for each in self.outputs(message)]

    def outputs(self, message: InboundMessage) -> list[OutboundMessage]:
        """Route a message; what comes of it has its ids.

        Args:
            message: as it was delivered.
        """
        identity = identify(message, self.site, self.window)
        if identity.known is Known.NOT and message.redelivered:
            self.counts["redelivered without an id"] += 1
        self.counts["consumed"] += 1
        attempts, instead = 0, None
        while True:
            try:
                if message.damage and instead is None:
                    raise ValueError(message.damage)
                made = self._route(message) if instead is None else instead
                outputs = self._checked(numbered(identity, made))
                self.counts["failed"] += instead is not None
                return outputs
            except Exception as error:
                attempts += 1
                instead = self._failures.unroutable(message, error, attempts)

    def _checked(self, outputs: list[OutboundMessage]) -> list[OutboundMessage]:
        for each in outputs:
            if not each.destination:
                raise ValueError("a message without a destination: check the rules")
            if each.transport not in self._transports:
                raise ValueError(f"there is no transport {each.transport!r}: check the rules")
            check_writable(each)
        return outputs


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
    ) -> None:
        super().__init__(ledger, holder)
        self.intake, self._store, self._ids = intake, store, ids
        self.days = None if days is None else DayBarrier(days, intake.inbound)
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
        backlogs = await asyncio.to_thread(self._ledger.backlogs, writer.topic)
        self.backpressure = self.backpressure.next(backlogs, self._limit)
        if self.backpressure.paused:
            return 0
        days = self.days
        if days is not None and not await days.pass_on(writer):
            return 0
        messages: Sequence[InboundMessage] = await self.intake.batch(wait)
        await self.intake.recognise(self._ledger, owner)
        positions = {message.partition: message.behind for message in messages}
        reached: dict[int, str] = {}
        polled = len(messages)
        if days is not None and messages:
            messages, positions, reached = await asyncio.to_thread(days.split, messages)
        if positions:
            new, note = await asyncio.to_thread(self._new, messages)
            # Not on the loop: rules that take long would keep the lease from being renewed.
            outputs = await asyncio.to_thread(self.intake.all_outputs, new)
            also = [note] if note else []
            if days is not None and reached:
                also.append(partial(days.reach, reached=reached))
            await asyncio.to_thread(writer.write, outputs, positions, partial(_all, also))
            if days is not None:
                days.hold(reached, positions)
            await self.intake.inbound.acknowledge(positions)
            if self._ids is not None and getattr(self.intake.inbound, "final", False):
                await asyncio.to_thread(self._ids.forget, owner, writer.topic)
        return polled if positions else 0

    async def _disconnect(self) -> None:
        await self.intake.inbound.stop()

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
