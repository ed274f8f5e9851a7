"""The consumer of an inbound topic: batches become units of work, are saved, and acknowledged."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.segments.batching import BatchLimits, OpenBatch
from stores.segments.chain import Backpressure
from stores.segments.errors import StaleOwner
from stores.segments.failures import FailurePolicy
from stores.segments.identity import Known, identify, numbered
from stores.segments.ledger import SegmentLedger
from stores.segments.message import InboundMessage, OutboundMessage
from stores.segments.record import check_writable
from stores.segments.store import SegmentStore
from stores.segments.transports.transport import Inbound
from stores.segments.writer import SEGMENT_BYTES, SegmentWriter

logger = logging.getLogger(__name__)

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
        site: where this is; part of the ids.
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
        site: str = "site",
        window: float | None = None,
        limits: BatchLimits | None = None,
    ) -> None:
        self.inbound, self._route, self._failures = inbound, route, failures
        self._transports = frozenset(transports)
        self.site, self.window, self.limits = site, window, limits or BatchLimits()
        self.counts: Counter[str] = Counter()
        """Messages "consumed" and "failed", and "redelivered without an id"."""

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
                filling.add(len(message.value), now)
            found += some
        return found

    def outputs(self, message: InboundMessage) -> list[OutboundMessage]:
        """Route a message; what comes of it has its ids.

        Args:
            message: as it was delivered.
        """
        identity = identify(message, self.site, self.window)
        if identity.known is Known.NOT and message.redelivered:
            self.counts["redelivered without an id"] += 1
        self.counts["consumed"] += 1
        attempts = 0
        while True:
            try:
                return self._checked(numbered(identity, self._route(message)))
            except Exception as error:
                attempts += 1
                instead = self._failures.unroutable(message, error, attempts)
                if instead is not None:
                    self.counts["failed"] += 1
                    return self._checked(numbered(identity, instead))

    def _checked(self, outputs: list[OutboundMessage]) -> list[OutboundMessage]:
        for each in outputs:
            if each.transport not in self._transports:
                raise ValueError(f"there is no transport {each.transport!r}: check the rules")
            check_writable(each)
        return outputs


class SegmentConsumer:
    """Consumes one topic into segments; one at a time does so, others stand by.

    Args:
        intake: what is consumed, and what becomes of it.
        ledger: END and positions.
        store: the segments' bytes.
        holder: who, for whoever asks.
        backlog: bytes of a pair at which this source pauses.
        segment_bytes: after how many bytes a pair gets another segment.
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
    ) -> None:
        self.intake, self._ledger, self._store = intake, ledger, store
        self._holder, self._limit, self._segment_bytes = holder, backlog, segment_bytes
        self._writer: SegmentWriter | None = None
        self.backpressure = Backpressure({})

    async def step(self, wait: float = 0.1) -> int:
        """Consume a unit of work; the first step, and the first after a failure, seeks.

        Args:
            wait: seconds to wait for a message.

        Returns:
            How many messages it had; 0: there is none, the source pauses, or another one owns it.

        Raises:
            OSError: the store is full, or a transport is away; call again, later.
            StaleOwner: another generation owns the topic; stop.
        """
        if self._writer is None and not await self._begin():
            return 0
        writer = self._writer
        assert writer is not None
        try:
            await asyncio.to_thread(writer.owner.renew)
            backlogs = await asyncio.to_thread(self._ledger.backlogs, writer.topic)
            self.backpressure = self.backpressure.next(backlogs, self._limit)
            if self.backpressure.paused:
                return 0
            messages = await self.intake.batch(wait)
            if not messages:
                return 0
            outputs = [each for message in messages for each in self.intake.outputs(message)]
            positions = {message.partition: message.behind for message in messages}
            await asyncio.to_thread(writer.write, outputs, positions)
            await self.intake.inbound.acknowledge(positions)
        except (Exception, asyncio.CancelledError):  # whatever it had polled is to come again
            self._writer = None
            await asyncio.to_thread(writer.owner.let_go)
            raise
        return len(messages)

    async def run(self, *, pause: float = 0.1, retry: float = 1.0) -> None:
        """Consume until cancelled. What fails is tried again, from SQL's position.

        Args:
            pause: seconds to wait while the source pauses, or another one owns it.
            retry: seconds to wait after a failure.
        """
        keeping = asyncio.create_task(
            self._ledger.keep(lambda: None if self._writer is None else self._writer.owner)
        )
        try:
            while True:
                try:
                    done = await self.step()
                    if not done and (self.backpressure.paused or self._writer is None):
                        await asyncio.sleep(pause)
                except (OSError, StaleOwner, SQLAlchemyError) as error:
                    self.intake.counts["started over"] += 1
                    logger.warning("%s starts over: %s", self.intake.inbound.topic, said(error))
                    await asyncio.sleep(retry)
        finally:
            keeping.cancel()
            await self.stop()

    async def stop(self) -> None:
        """Let go of the topic and of the transport."""
        writer, self._writer = self._writer, None
        await self.intake.inbound.stop()
        if writer is not None:
            await asyncio.to_thread(writer.owner.let_go)

    async def _begin(self) -> bool:
        await self.intake.inbound.stop()
        topic = self.intake.inbound.topic
        owner = await asyncio.to_thread(self._ledger.own_end, topic, self._holder)
        if owner is None:
            return False
        writer = SegmentWriter(self._ledger, self._store, owner, segment_bytes=self._segment_bytes)
        try:
            positions = await asyncio.to_thread(writer.recover)
            await self.intake.inbound.start(positions)
        except Exception:
            await asyncio.to_thread(owner.let_go)
            raise
        self._writer = writer
        return True
