"""A unit of work in one process, without a save store: publish, store the ids, acknowledge."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from stores.segments.consumer import UnitIntake
from stores.segments.identity import Known, identify
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.published_ids import KeptId, PublishedIds
from stores.segments.transports.transport import Outbound


class DirectConsumer:
    """Consumes one topic and publishes what comes of it, batch by batch.

    What is published and not yet stored as such when the process dies comes again, with its ids.
    A message that a destination refuses stops the topic: only segments divert it.

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
        self._intake, self._ledger, self._ids = intake, ledger, ids
        self._outbounds, self._holder = outbounds, holder
        self._owner: SegmentOwner | None = None
        self._batches = 0
        self.counts: Counter[str] = Counter()
        """Messages "published" and "skipped", which were published before."""

    async def step(self, wait: float = 0.1) -> int:
        """Do a unit of work; the first step, and the first after a failure, seeks.

        Args:
            wait: seconds to wait for a message.

        Returns:
            How many messages it had; 0: there is none, or another one owns the topic.

        Raises:
            OSError: a transport is away; the unit starts over with the next step.
            PublishRefused: a destination refuses a message; the unit starts over.
            StaleOwner: another generation owns the topic; stop.
        """
        if self._owner is None and not await self._begin():
            return 0
        owner = self._owner
        assert owner is not None
        try:
            await asyncio.to_thread(owner.renew)
            messages = await self._intake.batch(wait)
            kept: dict[str, KeptId] = {}
            grouped: dict[str, list[OutboundMessage]] = {}
            for message in messages:
                who = identify(message, self._intake.site, self._intake.window)
                passing = message.topic if message.replayable else None
                for output in self._intake.outputs(message):
                    if who.known is not Known.NOT:
                        kept[output.id] = KeptId(output.id, who.seconds, passing)
                    grouped.setdefault(output.transport, []).append(output)
            for transport, outputs in grouped.items():
                await self._publish(owner, transport, outputs, kept)
            if messages:
                positions = {message.partition: message.behind for message in messages}
                await asyncio.to_thread(self._ledger.advance, owner, {}, positions)
                await self._intake.inbound.acknowledge(positions)
                await asyncio.to_thread(self._ids.forget, owner, self._intake.inbound.topic)
        except (Exception, asyncio.CancelledError):
            self._owner = None
            await asyncio.to_thread(owner.let_go)
            raise
        return len(messages)

    async def stop(self) -> None:
        """Let go of the topic and of the transports."""
        owner, self._owner = self._owner, None
        await self._intake.inbound.stop()
        for each in self._outbounds.values():
            await each.stop()
        if owner is not None:
            await asyncio.to_thread(owner.let_go)

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
        self._batches += 1
        pair = Pair(self._intake.inbound.topic, transport)
        behind = Place(owner.generation, self._batches)
        await self._outbounds[transport].publish(OutboundBatch(pair, tuple(new.values()), behind))
        await asyncio.to_thread(self._ids.add, owner, [kept[id] for id in new if id in kept])
        self.counts["published"] += len(new)

    async def _begin(self) -> bool:
        await self.stop()
        topic = self._intake.inbound.topic
        owner = await asyncio.to_thread(self._ledger.own_end, topic, self._holder)
        if owner is None:
            return False
        try:
            for transport, outbound in self._outbounds.items():
                await outbound.start(Pair(topic, transport))
            positions = await asyncio.to_thread(self._ledger.positions, topic)
            await self._intake.inbound.start(positions)
        except Exception:
            await asyncio.to_thread(owner.let_go)
            raise
        self._owner = owner
        return True
