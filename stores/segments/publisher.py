"""The publisher of a pair: what is between START and END goes out, is confirmed, and is removed."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from stores.segments.batching import BatchLimits
from stores.segments.chain import Segment, generation_of, segment_prefix
from stores.segments.day_marks import DayMarks
from stores.segments.day_of import ended_by
from stores.segments.errors import (
    DestinationDown,
    PublishRefused,
    SegmentDamaged,
    SegmentError,
)
from stores.segments.failures import FailurePolicy
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.owned_work import OwnedWork
from stores.segments.parked_pair import ParkedMessage, ParkedPair, Release, released_by
from stores.segments.parking import BEHIND
from stores.segments.record import HEAD, decode, length_at, record_at
from stores.segments.store import SegmentStore
from stores.segments.transports.transport import Outbound
from topology.model.printable import printable

logger = logging.getLogger(__name__)
_MOST = 100
"""Attempts that a policy may ask for, where nothing is tried."""


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
        self._failures, self._limits = failures, limits or BatchLimits()
        self._attempts: Counter[str] = Counter()
        self._instead: dict[str, OutboundMessage] = {}
        self._ahead = _Ahead()
        self.counts: Counter[str] = Counter()
        """Messages "published", "diverted" and "parked", batches "in doubt", "refused" messages."""

    def __str__(self) -> str:
        return str(self.pair)

    def _own(self) -> SegmentOwner | None:
        return self._ledger.own_start(self.pair, self._holder)

    async def _connect(self, owner: SegmentOwner) -> None:
        # In this order: who has the lease shuts out the one before, and asks what it did.
        self._ahead = _Ahead()
        known = await self._outbound.start(self.pair)
        chain = await asyncio.to_thread(self._ledger.resume, owner, self.pair, known)
        await asyncio.to_thread(self._check_known)
        if self._parked is not None:
            await asyncio.to_thread(self._parked.start, owner, chain)

    async def _work(self, owner: SegmentOwner, wait: float) -> int:
        finished, read = await asyncio.to_thread(self._next, owner)
        if read is None:
            if finished:
                await self._moved(owner, None)
            return 0
        first, count = read.messages[0], 0
        if first.destination:
            count = await self._publish(owner, read, self._parked)
        elif (release := released_by(first)) is not None:
            count = await self._release(owner, read, release)
        elif (day := ended_by(first)) is not None:
            marks: tuple[OutboundMessage, ...] | None = ()
            if self._days is not None:
                marks = await self._days.marks(self.pair, day, self._outbound)
            if marks is None:
                return 0
            batch = replace(read, messages=marks, offsets=read.offsets * len(marks))
            count = await self._publish(owner, batch, None)
        await self._moved(owner, read.behind)
        if not first.destination and self._parked is not None:
            chain = await asyncio.to_thread(self._ledger.chain, self.pair)
            await asyncio.to_thread(self._parked.start, owner, chain)
        self._attempts.clear()
        self._instead.clear()
        self.counts["published"] += count
        return len(read.messages)

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

    async def _publish(
        self, owner: SegmentOwner, batch: OutboundBatch, parked: ParkedPair | None
    ) -> int:
        """Publish a batch without what is parked; returns how many messages it had then."""
        left = list(zip(batch.messages, batch.offsets, strict=True))
        left = [(self._instead.get(each.id, each), at) for each, at in left]
        seen, segment = 0, batch.behind.number
        while True:
            if parked is not None:
                left[seen:] = self._not_parked(parked, left[seen:], segment)
                if parked.has_new:
                    await asyncio.to_thread(parked.write, owner)
            seen = len(left)
            messages, offsets = tuple(each for each, _ in left), tuple(at for _, at in left)
            refused = await self._refused_of(replace(batch, messages=messages, offsets=offsets))
            if refused is None:
                return len(left)
            index, reason, instead = refused
            message, at = left[index]
            away, place = instead.destination != message.destination, Place(segment, at)
            if parked is not None and away and parked.park(message, place, reason):
                self.counts["parked"] += 1
                del left[index]
                seen = index
                continue
            self.counts["diverted"] += 1
            left[index] = instead, at
            self._instead[message.id] = instead

    def _not_parked(
        self, parked: ParkedPair, messages: Sequence[tuple[OutboundMessage, int]], segment: int
    ) -> list[tuple[OutboundMessage, int]]:
        """What goes on; the rest is parked behind messages of its stream, where there is room."""
        found = []
        for message, at in messages:
            if not parked.is_behind(message):
                found.append((message, at))
            elif parked.park(message, Place(segment, at), None):
                self.counts["parked"] += 1
            else:
                self.counts["diverted"] += 1
                found.append((self._given_up(message, BEHIND), at))
        return found

    async def _release(self, owner: SegmentOwner, read: OutboundBatch, release: Release) -> int:
        """Publish the first parked messages of a stream; returns how many."""
        parked = self._parked
        gone, rest = list[ParkedMessage](), None
        if parked is not None:
            gone, rest = await asyncio.to_thread(parked.first, release)
        messages, why = [each.message for each in gone], None
        if gone and gone[0].place == release.at:
            messages[0] = self._given_up(messages[0], str(gone[0].reason))
            self.counts["diverted"] += 1
        while True:
            gone = gone[: len(messages)]
            if parked is not None:
                await asyncio.to_thread(parked.goes, owner, release, gone, read.behind, rest, why)
            # Each has a position within the record's bytes.
            last = read.behind.offset
            offsets = tuple(range(last - len(gone) + 1, last + 1))
            batch = replace(read, messages=tuple(messages), offsets=offsets)
            if (refused := await self._refused_of(batch)) is None:
                break
            index, reason, instead = refused
            if messages[index].destination == instead.destination:
                messages[index] = instead  # for errors, too, it was not fit
                continue
            del messages[index:]
            rest, why = gone[index].place, reason
        logger.warning(
            "%s: %d messages of stream %s went on, as %s said%s",
            *(self.pair, len(gone), release.stream, release.who),
            f"; it is refused again: {printable(why)}" if why else "",
        )
        return len(gone)

    def _given_up(self, message: OutboundMessage, reason: str) -> OutboundMessage:
        """What goes to errors in a message's place."""
        for attempts in range(1, _MOST):
            if (instead := self._failures.refused(message, reason, attempts)) is not None:
                return instead
        return message

    async def _refused_of(self, batch: OutboundBatch) -> tuple[int, str, OutboundMessage] | None:
        """Publish; or say which message is refused, why, and what is published in its place.

        Raises:
            DestinationDown: it is in doubt, or a message is tried again.
        """
        try:
            await self._outbound.publish(batch)
            return None
        except DestinationDown:
            self.counts["in doubt"] += 1
            raise
        except PublishRefused as refused:
            self.counts["refused"] += 1
            message = batch.messages[refused.index]
            self._attempts[message.id] += 1
            times = self._attempts[message.id]
            instead = self._failures.refused(message, refused.reason, times)
            if instead is None:
                raise DestinationDown(f"message {message.id}: {refused}") from refused
            return refused.index, refused.reason, instead

    async def _moved(self, owner: SegmentOwner, behind: Place | None) -> None:
        """Move START in SQL, and remove what is finished."""
        names = await asyncio.to_thread(self._ledger.published, owner, self.pair, behind)
        for name in names:
            await asyncio.to_thread(self._store.remove, name)
        if names:
            await asyncio.to_thread(self._ledger.strike_out, owner, self.pair, names)

    def _next(self, owner: SegmentOwner) -> tuple[bool, OutboundBatch | None]:
        """Whether a segment is finished, and what is to be published; None: nothing is."""
        chain = self._ledger.chain(self.pair)
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
