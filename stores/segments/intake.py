"""What a consumer takes in: batches of a topic, and what each of their messages becomes."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from stores.segments.batching import BatchLimits, OpenBatch
from stores.segments.failures import FailurePolicy
from stores.segments.identity import Known, identify, numbered
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import InboundMessage, OutboundMessage
from stores.segments.parked_topic import ParkedTopic
from stores.segments.parking import BEHIND
from stores.segments.record import check_writable
from stores.segments.transports.transport import Inbound, Recognising
from topology.model.errors import described

Route = Callable[[InboundMessage], Sequence[OutboundMessage]]
"""What a message becomes: the same each time that it is asked."""


@dataclass(frozen=True, slots=True)
class Attempted:
    """What comes of a message; of one that fails, why: then it goes to errors."""

    outputs: list[OutboundMessage]
    error: Exception | None


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
        prepare: awaited before each batch is routed, and with True when this process has just
            come to own the topic.
        parked: sets aside what fails, and what is behind it; None: it goes to errors.
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
        prepare: Callable[[bool], Awaitable[None]] | None = None,
        parked: ParkedTopic | None = None,
    ) -> None:
        self.parked = parked
        self._prepare = prepare
        self.inbound, self._route, self.failures = inbound, route, failures
        self._transports = frozenset(transports)
        if not site:
            raise ValueError("a site has a name: ids of two sites must not be the same")
        self.site, self.window, self.limits = site, window, limits or BatchLimits()
        self._known: str | None = None
        self.counts: Counter[str] = Counter()
        """Messages "consumed", "failed", "parked", "unrouted", "repeated", "redelivered without
        an id"."""

    async def start(self, ledger: SegmentLedger, owner: SegmentOwner) -> None:
        """Connect, and go on at the positions of SQL.

        Raises:
            SegmentError: it is another topic than what they are of.
        """
        topic = self.inbound.topic
        if self.parked is not None:
            await asyncio.to_thread(self.parked.start)
        if self._prepare is not None:
            await self._prepare(True)
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
        if found:
            await self.ready()
        return found

    async def ready(self) -> None:
        """Wait until a batch can be routed."""
        if self._prepare is not None:
            await self._prepare(False)

    def check_parks_nothing(self) -> None:
        """Raise ValueError if streams would be parked where there are no segments."""
        if self.parked is not None:
            raise ValueError("only a SegmentConsumer parks streams: leave out parked=")

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
        behind = self.parked is not None and self.parked.is_behind(message)
        if behind and self._parks(message, None):
            return []
        found = self.attempted(message, BEHIND if behind else None)
        if found.error is not None and not behind and self._parks(message, str(found.error)):
            return []
        self.counts["failed"] += found.error is not None
        return found.outputs

    def attempted(self, message: InboundMessage, failed: str | None = None) -> Attempted:
        """Route a message, which is not behind others; or say what goes to errors, and why.

        Args:
            message: as it was delivered.
            failed: why it is not to be routed.
        """
        identity = identify(message, self.site, self.window)
        why: Exception | None = None
        attempts, instead = 0, None
        while True:
            try:
                if (reason := failed or message.damage) and instead is None:
                    raise ValueError(reason)
                made = self._route(message) if instead is None else instead
                outputs = self._checked(numbered(identity, made))
                self.counts["unrouted"] += instead is None and not outputs
                return Attempted(outputs, None if instead is None else why)
            except BaseException as raised:
                # A plain function cannot be cancelled: whatever it raises, the message fails.
                error = raised if isinstance(raised, Exception) else RuntimeError(described(raised))
                attempts, why = attempts + 1, error if instead is None else why
                instead = self.failures.unroutable(message, error, attempts)

    def _parks(self, message: InboundMessage, reason: str | None) -> bool:
        """Set a message aside, where streams are parked and there is room."""
        if self.parked is None or message.damage or not self.parked.park(message, reason):
            return False
        self.counts["parked"] += 1
        return True

    def _checked(self, outputs: list[OutboundMessage]) -> list[OutboundMessage]:
        for each in outputs:
            if not each.destination:
                raise ValueError("a message without a destination: check the rules")
            if each.transport not in self._transports:
                raise ValueError(f"there is no transport {each.transport!r}: check the rules")
            check_writable(each)
        return outputs
