"""The consumer's side of the save store: a unit of work is written, synced, and promised."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from stores.segments.chain import segment_name, segment_number
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import OutboundMessage, Pair, Place
from stores.segments.record import encode
from stores.segments.store import SegmentStore

logger = logging.getLogger(__name__)

SEGMENT_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class _Open:
    number: int
    name: str
    offset: int = 0


class SegmentWriter:
    """Writes the units of one inbound topic, for one generation of its consumer."""

    def __init__(
        self,
        ledger: SegmentLedger,
        store: SegmentStore,
        owner: SegmentOwner,
        *,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self.owner, self._ledger, self._store = owner, ledger, store
        self.topic = owner.subject(ledger.router)
        self._most = segment_bytes
        self._open: dict[Pair, _Open] = {}
        self._opened = 0
        self.written: dict[Pair, tuple[Place, int]] = {}
        """Where the last unit begins in the segments of each pair, and the offset behind it."""

    def recover(self) -> dict[int, int]:
        """Seal what earlier generations left; returns by partition where to consume from."""
        for chain in self._ledger.take_over(self.owner):
            for segment in chain.segments:
                size = self._store.size(segment.name)
                if size > segment.end:
                    self._store.cut(segment.name, segment.end)
                elif size < segment.end and segment.start < segment.end:
                    logger.error("segment %s ends before END; its publisher stops", segment.name)
        return self._ledger.positions(self.topic)

    def write(
        self,
        messages: Sequence[OutboundMessage],
        positions: Mapping[int, int],
        also: Callable[[Connection], None] | None = None,
    ) -> None:
        """Make a unit of work durable; when this returns, its inbound messages may be acknowledged.

        Args:
            messages: in order, with their ids; of any transports. None: the unit came to nothing.
            positions: partition → the position behind the unit's inbound messages.
            also: what else the transaction does that promises the unit.

        Raises:
            OSError: the store is full or broken; nothing of the unit is promised.
            StaleOwner: another generation owns END.
        """
        grouped: dict[Pair, list[OutboundMessage]] = {}
        for message in messages:
            grouped.setdefault(Pair(self.topic, message.transport), []).append(message)
        # Whatever fails on the way: these segments get nothing more, since nobody knows what stands
        # behind their END now, and whether END moved.
        taken, self._open = self._open, {}
        written: dict[Pair, _Open] = {}
        self.written = {}
        for pair, some in grouped.items():
            at = taken.get(pair)
            if at is None or at.offset >= self._most:
                at = self._new(pair)
            data = encode(some, at.offset)
            self._store.append(at.name, at.offset, data)
            written[pair] = _Open(at.number, at.name, at.offset + len(data))
            self.written[pair] = Place(at.number, at.offset), at.offset + len(data)
        ends = {pair: Place(each.number, each.offset) for pair, each in written.items()}
        self._ledger.advance(self.owner, ends, positions, also)
        self._open = taken | written

    def _new(self, pair: Pair) -> _Open:
        number = segment_number(self.owner.generation, self._opened)
        self._opened += 1
        name = segment_name(self._ledger.router, pair, number, time.time())
        self._ledger.open_segment(self.owner, pair, number, name)
        return _Open(number, name)
