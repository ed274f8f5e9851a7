"""What goes out of a pair's batch: without what is parked, and with errors in the place of what is
refused."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from stores.segments.errors import DestinationDown, PublishRefused
from stores.segments.failures import FailurePolicy
from stores.segments.ledger import SegmentOwner
from stores.segments.message import OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.parked_pair import ParkedMessage, ParkedPair, Release
from stores.segments.parking import BEHIND
from stores.segments.transports.transport import Outbound
from topology.model.printable import printable

logger = logging.getLogger(__name__)
_MOST = 100
"""Attempts that a policy may ask for, where nothing is tried."""


class Sending:
    """Publishes batches of a pair.

    Args:
        pair: which.
        outbound: its transport.
        failures: what becomes of messages that the destination refuses.
        parked: sets them aside, with what is behind them; None: they go to errors.
        counts: of the publisher.
    """

    def __init__(
        self,
        pair: Pair,
        outbound: Outbound,
        failures: FailurePolicy,
        parked: ParkedPair | None,
        counts: Counter[str],
    ) -> None:
        self._pair, self._outbound, self._failures = pair, outbound, failures
        self._parked, self._counts = parked, counts
        self._attempts: Counter[str] = Counter()
        self._instead: dict[str, OutboundMessage] = {}

    def done(self) -> None:
        """START is behind the batch."""
        self._attempts.clear()
        self._instead.clear()

    async def publish(
        self, owner: SegmentOwner, batch: OutboundBatch, *, parks: bool = True
    ) -> int:
        """Publish a batch without what is parked; returns how many messages it had then.

        Args:
            owner: of START.
            batch: it.
            parks: whether it may be parked.

        Raises:
            DestinationDown: it is in doubt, or a message is tried again.
            StaleOwner: another one owns START.
        """
        parked = self._parked if parks else None
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
                self._counts["parked"] += 1
                del left[index]
                seen = index
                continue
            self._counts["diverted"] += 1
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
                self._counts["parked"] += 1
            else:
                self._counts["diverted"] += 1
                found.append((self._given_up(message, BEHIND), at))
        return found

    async def release(self, owner: SegmentOwner, read: OutboundBatch, release: Release) -> int:
        """Publish the first parked messages of a stream; returns how many.

        Args:
            owner: of START.
            read: the record with which they go on.
            release: what that says.

        Raises:
            DestinationDown: it is in doubt, or a message is tried again.
            StaleOwner: another one owns START.
        """
        parked = self._parked
        gone, rest = list[ParkedMessage](), None
        if parked is not None:
            gone, rest = await asyncio.to_thread(parked.first, release)
        messages, why = [each.message for each in gone], None
        if gone and gone[0].place == release.at:
            messages[0] = self._given_up(messages[0], str(gone[0].reason))
            self._counts["diverted"] += 1
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
            *(self._pair, len(gone), release.stream, release.who),
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
            self._counts["in doubt"] += 1
            raise
        except PublishRefused as refused:
            self._counts["refused"] += 1
            message = batch.messages[refused.index]
            self._attempts[message.id] += 1
            times = self._attempts[message.id]
            instead = self._failures.refused(message, refused.reason, times)
            if instead is None:
                raise DestinationDown(f"message {message.id}: {refused}") from refused
            return refused.index, refused.reason, instead
