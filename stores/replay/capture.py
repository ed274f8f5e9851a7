"""Capture: a topic's messages are kept in a replay log, each once, in order per partition."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from stores.replay.log import ReplayLog, positions_of
from stores.replay.message import CapturedMessage, Value
from stores.segments.batching import BatchLimits, OpenBatch
from stores.segments.errors import StaleOwner
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import InboundMessage
from stores.segments.owned_work import OwnedWork
from stores.segments.transports.transport import Inbound, Recognising
from topology.model.ending import end_tasks
from topology.model.origin_headers import ORIGIN
from topology.model.replay_headers import is_replayed

logger = logging.getLogger(__name__)

LIMITS = BatchLimits(count=5_000, size=8_000_000)
_OWNER = "/capture"
"""In the names of leases, where a router's name is in those of segments."""

Find = Callable[[InboundMessage], tuple[str | None, int | None, Mapping[str, Value]]]
"""A message's stream, sequence and metadata."""


def capture_leases(log: ReplayLog, seconds: float = 10.0) -> SegmentLedger:
    """Who captures which topic: `own_end` owns it.

    Args:
        log: whose.
        seconds: how long a dead owner's topic waits for the next one.
    """
    return SegmentLedger(log.engine, _OWNER, lease_seconds=seconds)


class TopicCapture(OwnedWork):
    """Captures one topic; one at a time does so, others stand by.

    Args:
        log: where messages are kept; its positions say where to go on.
        inbound: the topic.
        find: what is found in contents.
        site: where this is.
        holder: who, for whoever asks.
        lease: seconds after which a dead holder's topic goes to another.
        limits: of what is kept in one transaction.

    Attributes:
        counts: messages "captured", "replayed", which are skipped, and "lost" before.
    """

    def __init__(
        self,
        log: ReplayLog,
        inbound: Inbound,
        find: Find,
        *,
        site: str,
        holder: str = "capture",
        lease: float = 10.0,
        limits: BatchLimits = LIMITS,
    ) -> None:
        super().__init__(capture_leases(log, lease), holder)
        self._log, self._inbound, self._find, self._site = log, inbound, find, site
        self._limits = limits
        self._known: str | None = None
        self._at: Mapping[int, int] = {}
        self._ahead: asyncio.Task[_Batch] | None = None
        self.counts: Counter[str] = Counter()

    def __str__(self) -> str:
        return self._inbound.topic

    async def behind(self) -> dict[int, int]:
        """Partition → records that are not captured, as far as the transport knows."""
        behind = getattr(self._inbound, "records_behind", None)
        return {} if behind is None else await behind()

    def _own(self) -> SegmentOwner | None:
        return self._ledger.own_end(str(self), self._holder)

    async def _connect(self, owner: SegmentOwner) -> None:
        self._known = await asyncio.to_thread(self._log.source, str(self))
        positions = await asyncio.to_thread(self._log.positions, str(self))
        await self._inbound.start(positions)
        await self._recognise()
        lost: Mapping[int, tuple[int, int]] = getattr(self._inbound, "lost", {})
        # From here on the topic is among those that are captured, though it may be empty.
        begun = {number: 0 for number in self._partitions() if number not in positions}
        begun |= {number: behind for number, (_, behind) in lost.items()}
        self._at = positions
        if begun:
            await self._append(owner, (), begun, lost)
        for number, (first, behind) in lost.items():
            self.counts["lost"] += behind - first
            logger.warning(
                "%s/%d: offsets %d to %d were deleted before they were captured",
                *(self, number, first, behind - 1),
            )

    async def _work(self, owner: SegmentOwner, wait: float) -> int:
        ahead, self._ahead = self._ahead, None
        batch = await (self._read(wait) if ahead is None else ahead)
        if batch.read:
            # While the database writes one, the next one is read.
            self._ahead = asyncio.create_task(self._read(wait))
            await self._append(owner, batch.kept, batch.behind)
            self.counts["captured"] += len(batch.kept)
            self.counts["replayed"] += batch.read - len(batch.kept)
            await self._inbound.acknowledge(batch.behind)
        return batch.read

    async def _append(
        self,
        owner: SegmentOwner,
        kept: Sequence[CapturedMessage],
        behind: Mapping[int, int],
        lost: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        """Keep messages, if the log is where it was. Raises StaleOwner."""

        def check(connection: Connection) -> None:
            owner.check(connection)
            there = positions_of(connection, str(self))
            if any(there.get(number) != at for number, at in self._at.items()):
                raise StaleOwner(
                    f"the log is at other positions of {self} than before: somebody has set it "
                    "back, or begun anew"
                )

        await asyncio.to_thread(self._log.append, str(self), kept, behind, check, lost)
        self._at = {**self._at, **behind}

    async def _disconnect(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await end_tasks(ahead)
        await self._inbound.stop()

    async def _read(self, wait: float) -> "_Batch":
        messages = await self._poll(wait)
        await self._recognise()
        return await asyncio.to_thread(self._captured, messages)

    def _captured(self, messages: Sequence[InboundMessage]) -> "_Batch":
        kept = [
            captured(each, self._site, self._find)
            for each in messages
            if not is_replayed(each.headers)
        ]
        return _Batch(len(messages), kept, _behind(messages))

    async def _poll(self, wait: float) -> list[InboundMessage]:
        found: list[InboundMessage] = []
        filling = OpenBatch(self._limits)
        while not filling.is_full(now := time.monotonic()):
            left = filling.wait(now)
            most = self._limits.count - len(found)
            some = await self._inbound.poll(most, wait if left is None else left)
            if not some and not found:
                break
            now = time.monotonic()
            for message in some:
                filling.add(len(message.value or b""), now)
            found += some
        return found

    async def _recognise(self) -> None:
        if isinstance(self._inbound, Recognising):
            known = await self._inbound.recognise(self._known)
            if known is not None and known != self._known:
                await asyncio.to_thread(self._log.keep_source, str(self), known)
            self._known = known

    def _partitions(self) -> Sequence[int]:
        numbers = getattr(self._inbound, "partition_numbers", tuple)
        return sorted(numbers())


class _Batch(NamedTuple):
    """read: how many messages were read. kept: those that are captured. behind: the positions."""

    read: int
    kept: list[CapturedMessage]
    behind: dict[int, int]


def captured(message: InboundMessage, site: str, find: Find) -> CapturedMessage:
    """A message as the log keeps it.

    Args:
        message: as it was delivered.
        site: where that was.
        find: what is found in contents.
    """
    stream, sequence, metadata = find(message)
    origin = origin_of(message)
    return CapturedMessage(
        *(message.topic, message.partition, message.offset, message.value, message.time),
        *(message.key, message.headers, origin.rsplit("/", 3)[0] or site, origin),
        *(stream, sequence, metadata),
    )


def origin_of(message: InboundMessage) -> str:
    """Where a forwarded message was published first, as `site/topic/partition/offset`; else "".

    Other headers of that name say where a message came from here: then the topic is another one.
    """
    for name, value in message.headers:
        if name == ORIGIN:
            found = value.decode(errors="replace")
            match found.rsplit("/", 3):
                case [site, message.topic, partition, offset] if site:
                    if partition.isdecimal() and offset.isdecimal():
                        return found
    return ""


def _behind(messages: Sequence[InboundMessage]) -> dict[int, int]:
    return {each.partition: each.behind for each in messages}
