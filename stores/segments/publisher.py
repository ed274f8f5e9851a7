"""The publisher of a pair: what is between START and END goes out, is confirmed, and is removed."""

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from stores.segments.batching import BatchLimits
from stores.segments.chain import Segment, SegmentChain, generation_of, segment_prefix
from stores.segments.day_marks import DayMarks
from stores.segments.day_of import ended_by
from stores.segments.errors import (
    SegmentDamaged,
    SegmentError,
    StaleOwner,
)
from stores.segments.failures import FailurePolicy
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.owned_work import OwnedWork
from stores.segments.parked_pair import ParkedPair, released_by
from stores.segments.record import HEAD, decode, length_at, record_at
from stores.segments.sending import Sending
from stores.segments.store import SegmentStore
from stores.segments.transports.transport import Outbound

logger = logging.getLogger(__name__)
FOLLOWS = 0.05
"""Seconds after which SQL's START follows that of a destination which keeps it, at the latest when
the next batch is published; where there is none, at once."""


class _Ahead(NamedTuple):
    """What was read of a segment, before END; a small batch leaves most of it."""

    name: str = ""
    offset: int = 0
    data: bytes = b""

    def at(self, name: str, offset: int) -> bytes:
        return self.data[offset - self.offset :] if name == self.name else b""


class Publisher(OwnedWork):
    """Publishes one pair, and nothing but what is between START and END.

    Args:
        ledger: START and END.
        store: the segments' bytes.
        outbound: the transport, for this pair alone.
        pair: the inbound topic and the outbound transport.
        failures: what becomes of messages that the destination refuses.
        holder: who, for whoever asks.
        limits: of a batch; times do not matter here, since everything is there.
        days: the ends of days, and the destinations that are told of them; None: nobody is.
        parked: sets aside what is refused, and what is behind it; None: it goes to errors.
    """

    def __init__(
        self,
        ledger: SegmentLedger,
        store: SegmentStore,
        outbound: Outbound,
        pair: Pair,
        failures: FailurePolicy,
        *,
        holder: str = "publisher",
        limits: BatchLimits | None = None,
        days: DayMarks | None = None,
        parked: ParkedPair | None = None,
    ) -> None:
        super().__init__(ledger, holder)
        self._days, self._parked = days, parked
        self.pair, self._store, self._outbound = pair, store, outbound
        self._limits = limits or BatchLimits()
        self._ahead = _Ahead()
        self._chain: SegmentChain | None = None
        self._behind: Place | None = None  # where START is, if SQL does not have it yet
        self._moved_at = 0.0
        self.counts: Counter[str] = Counter()
        """Messages "published", "diverted" and "parked", batches "in doubt", "refused" messages."""
        self._sending = Sending(pair, outbound, failures, parked, self.counts)

    def __str__(self) -> str:
        return str(self.pair)

    def _own(self) -> SegmentOwner | None:
        return self._ledger.own_start(self.pair, self._holder)

    async def _connect(self, owner: SegmentOwner) -> None:
        # In this order: who has the lease shuts out the one before, and asks what it did.
        self._ahead, self._chain, self._behind = _Ahead(), None, None
        known = await self._outbound.start(self.pair)
        chain = await asyncio.to_thread(self._ledger.resume, owner, self.pair, known)
        await asyncio.to_thread(self._check_known)
        if self._parked is not None:
            await asyncio.to_thread(self._parked.start, owner, chain)

    async def _work(self, owner: SegmentOwner, wait: float) -> int:
        finished, read = await asyncio.to_thread(self._next, owner)
        if read is None:
            if finished or self._behind is not None:
                await self._move(owner)
            return 0
        first, count = read.messages[0], 0
        # The end of a day waits for what SQL has.
        if self._behind is not None and (
            not first.destination or self._behind.number != read.behind.number
        ):
            await self._move(owner)
        if first.destination:
            count = await self._sending.publish(owner, read)
        elif (release := released_by(first)) is not None:
            count = await self._sending.release(owner, read, release)
        elif (day := ended_by(first)) is not None:
            marks: tuple[OutboundMessage, ...] | None = ()
            if self._days is not None:
                marks = await self._days.marks(self.pair, day, self._outbound)
            if marks is None:
                return 0
            batch = replace(read, messages=marks, offsets=read.offsets * len(marks))
            count = await self._sending.publish(owner, batch, parks=False)
        assert self._chain is not None
        self._behind, self._chain = read.behind, self._chain.moved(read.behind)
        keeps = getattr(self._outbound, "keeps_start", False) and first.destination
        if not keeps or time.monotonic() - self._moved_at > FOLLOWS:
            await self._move(owner)
        if not first.destination and self._parked is not None:
            await asyncio.to_thread(self._parked.start, owner, self._chain)
        self._sending.done()
        self.counts["published"] += count
        return len(read.messages)

    async def stop(self) -> None:
        """See `OwnedWork.stop`; SQL has START then."""
        if self._owner is not None and self._behind is not None:
            with suppress(StaleOwner, SQLAlchemyError, OSError):
                await self._move(self._owner)
        await super().stop()

    async def _disconnect(self) -> None:
        await self._outbound.stop()

    def _check_known(self) -> None:
        """Segments that SQL does not know may be all that there is of messages: none is removed.

        A consumer that was replaced may write to one that is published already. Any other is of a
        later database. They are listed first: a segment is in SQL before it is in the store.
        """
        begin = segment_prefix(self._ledger.router, self.pair)
        there = [name for name in self._store.names() if name.startswith(begin)]
        known = {each.name for each in self._ledger.chain(self.pair).segments}
        strange = sorted(set(there) - known)
        generation = self._ledger.generation(self.pair.topic)
        if later := [name for name in strange if generation_of(name) >= generation]:
            raise SegmentError(
                f"{self.pair}: the database knows nothing of {later[0]}"
                f"{f' and {len(later) - 1} more' if later[1:] else ''}: it is older than the "
                "segments, or another one; restore the later one, or move these segments away, "
                "with the messages in them"
            )
        if strange:
            logger.warning(
                "%s: %d segments, such as %s, are of earlier consumers, and the database knows "
                "nothing of them: they are not published, and not removed",
                self.pair, len(strange), strange[0],
            )  # fmt: skip

    async def _move(self, owner: SegmentOwner) -> None:
        """Have SQL know where START is, and remove what is finished."""
        behind, self._behind, self._moved_at = self._behind, None, time.monotonic()
        names = await asyncio.to_thread(self._ledger.published, owner, self.pair, behind)
        for name in names:
            await asyncio.to_thread(self._store.remove, name)
        if names:
            await asyncio.to_thread(self._ledger.strike_out, owner, self.pair, names)

    def _next(self, owner: SegmentOwner) -> tuple[bool, OutboundBatch | None]:
        """Whether a segment is finished, and what is to be published; None: nothing is."""
        chain = self._chain
        if chain is None or chain.to_publish is None:
            chain = self._ledger.chain(self.pair)
            chain = self._chain = chain if self._behind is None else chain.moved(self._behind)
        if chain.to_publish is None:
            return any(each.finished for each in chain.segments), None
        read = self._read(chain.to_publish)
        owner.verify()  # it may have stood still
        return False, read

    def _read(self, segment: Segment) -> OutboundBatch:
        start, end = segment.start, segment.end
        data = self._ahead.at(segment.name, start)
        if len(data) < min(end - start, HEAD.size) or record_at(data, 0, start) is None:
            behind = min(end, start + self._limits.size + HEAD.size)
            data = self._store.read(segment.name, start, behind)
            self._ahead = _Ahead(segment.name, start, data)
        messages: list[OutboundMessage] = []
        offsets: list[int] = []
        at = 0
        while at < len(data) and len(messages) < self._limits.count:
            body = record_at(data, at, start + at)
            if body is None:
                if messages:
                    break
                if len(data) >= HEAD.size:  # one may be larger than what was read
                    data = self._store.read(
                        segment.name, start, min(end, start + length_at(data, 0))
                    )
                    body = record_at(data, 0, start)
                if body is None:
                    raise self._damaged(segment)
            try:
                message = decode(body, self.pair.transport)
            except SegmentDamaged as error:
                if messages:
                    break  # what is before it goes first, so that it is at START
                raise SegmentDamaged(f"segment {segment.name} at {start + at}: {error}") from None
            alone = not message.destination
            if alone and messages:
                break  # a batch of its own
            messages.append(message)
            at += HEAD.size + len(body)
            offsets.append(start + at)
            if alone:
                break
        if not messages:
            raise self._damaged(segment)
        place = Place(segment.number, start + at)
        return OutboundBatch(self.pair, tuple(messages), place, segment.name, tuple(offsets))

    def _damaged(self, segment: Segment) -> SegmentError:
        return SegmentDamaged(
            f"{self.pair}: segment {segment.name} is damaged at {segment.start}, before END at "
            f"{segment.end}; only this pair stops. Restore the segment from a copy; or call "
            "stores.segments.skip_damage, which goes on behind the damage and loses what it holds"
        )
