"""A unit of work in one process, without a save store: publish, store the ids, acknowledge."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from stores.segments.errors import PublishRefused
from stores.segments.identity import Known, identify
from stores.segments.intake import UnitIntake
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.owned_work import OwnedWork
from stores.segments.published_ids import KeptId, PublishedIds
from stores.segments.transports.transport import Outbound

_MOST = 100
"""Attempts after which a message that even errors refuse stops its topic."""


class DirectConsumer(OwnedWork):
    """Consumes one topic and publishes what comes of it, batch by batch.

    What is published and not yet stored as such when the process dies comes again, with its ids.
    What a destination has is not published there again while another one is down, in whatever
    batches it comes. A message that a destination refuses goes to errors.

    Args:
        intake: what is consumed, and what becomes of it.
        ledger: positions.
        ids: what is published.
        outbounds: transport → where its messages go.
        holder: who, for whoever asks.
    """

    def __init__(
        self,
        intake: UnitIntake,
        ledger: SegmentLedger,
        ids: PublishedIds,
        outbounds: Mapping[str, Outbound],
        *,
        holder: str = "consumer",
    ) -> None:
        super().__init__(ledger, holder)
        intake.check_parks_nothing()
        self._intake, self._ids, self._outbounds = intake, ids, outbounds
        self._batches = 0
        self._attempts: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        """Messages "published", "diverted", and "skipped", which were published before."""

    def __str__(self) -> str:
        return self._intake.inbound.topic

    def _own(self) -> SegmentOwner | None:
        return self._ledger.own_end(self._intake.inbound.topic, self._holder)

    async def _connect(self, owner: SegmentOwner) -> None:
        topic = self._intake.inbound.topic
        for transport, outbound in self._outbounds.items():
            await outbound.start(Pair(topic, transport))
        await self._intake.start(self._ledger, owner)
        positions = await asyncio.to_thread(self._ledger.positions, topic)
        await asyncio.to_thread(self._forget, owner, positions)

    async def _work(self, owner: SegmentOwner, wait: float) -> int:
        messages = await self._intake.batch(wait)
        await self._intake.recognise(self._ledger, owner)
        kept: dict[str, KeptId] = {}
        grouped: dict[str, list[OutboundMessage]] = {}
        for message in messages:
            who = identify(message, self._intake.site, self._intake.window)
            passing = message.topic if message.replayable else None
            for output in await asyncio.to_thread(self._intake.outputs, message):
                if who.known is not Known.NOT:
                    kept[output.id] = KeptId(output.id, who.seconds, passing)
                grouped.setdefault(output.transport, []).append(output)
        for transport, outputs in grouped.items():
            await self._publish(owner, transport, outputs, kept)
        if messages:
            positions = {message.partition: message.behind for message in messages}
            await asyncio.to_thread(self._ledger.advance, owner, {}, positions)
            await self._intake.inbound.acknowledge(positions)
            await asyncio.to_thread(self._forget, owner, positions)
        return len(messages)

    def _forget(self, owner: SegmentOwner, positions: Mapping[int, int]) -> None:
        self._ids.forget(owner, self._ids.passed(self._intake.inbound.topic, positions))

    async def _disconnect(self) -> None:
        await self._intake.inbound.stop()
        for each in self._outbounds.values():
            await each.stop()

    async def _publish(
        self,
        owner: SegmentOwner,
        transport: str,
        outputs: list[OutboundMessage],
        kept: Mapping[str, KeptId],
    ) -> None:
        known = await asyncio.to_thread(self._ids.among, [each.id for each in outputs])
        new: dict[str, OutboundMessage] = {}  # one batch may have a message twice
        for each in outputs:
            if each.id not in known:
                new.setdefault(each.id, each)
        self.counts["skipped"] += len(outputs) - len(new)
        if not new:
            return
        await asyncio.to_thread(owner.verify)  # it may have stood still
        while not await self._published(owner, transport, new):
            pass  # without what is refused
        await asyncio.to_thread(self._ids.add, owner, [kept[id] for id in new if id in kept])
        self.counts["published"] += len(new)

    async def _published(
        self, owner: SegmentOwner, transport: str, new: dict[str, OutboundMessage]
    ) -> bool:
        """Publish; where a message is refused as often as it may be, have errors get it instead."""
        self._batches += 1
        pair = Pair(self._intake.inbound.topic, transport)
        behind = Place(owner.generation, self._batches)
        batch = OutboundBatch(pair, tuple(new.values()), behind)
        try:
            await self._outbounds[transport].publish(batch)
        except PublishRefused as refused:
            message = batch.messages[refused.index]
            self._attempts[message.id] += 1
            times = self._attempts[message.id]
            instead = self._intake.failures.refused(message, refused.reason, times)
            if instead is not None:
                self.counts["diverted"] += 1
                new[message.id] = instead
            elif times > _MOST:
                raise
            return False
        for id in new:
            self._attempts.pop(id, None)
        return True
