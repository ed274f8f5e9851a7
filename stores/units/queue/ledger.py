"""What is complete, and what is to be written: position, ranges beyond it, rows by key."""

from collections import Counter, deque
from collections.abc import Mapping

from stores.units.queue.changes import (
    AdministrationRecord,
    Departure,
    RowKey,
    RowValue,
    UnitChanges,
    UnitMark,
)
from stores.units.queue.handover import MovedAway
from stores.units.queue.message import Outcome, UnitMessage
from stores.units.queue.unit import UnitKey
from topology.ordered_commit.offset_ranges import OffsetRanges


class Ledger:
    """How far a member's log is complete, and the rows that say the rest.

    Args:
        records: how many records of administration are kept.
    """

    def __init__(self, records: int) -> None:
        self.read_to = 0
        self.done = OffsetRanges()
        self.redelivered: dict[int, int] = {}
        self.stored: set[int] = set()
        """Messages that are in rows: the log is not read again for them."""
        self.stored_size = 0
        self.records: deque[AdministrationRecord] = deque(maxlen=records)
        self.counts: Counter[Outcome] = Counter()
        self.messages = self.size = 0
        self.batch = 1
        """The number of the changes that are gathered now."""
        self.changed = False
        self._open: deque[int] = deque()
        self._gaps: dict[int, int] = {}
        self._rows: dict[RowKey, RowValue | None] = {}
        self._departures: list[Departure] = []

    def arrived(self, message: UnitMessage) -> bool:
        """Whether a message is new: neither complete, nor read before."""
        offset, before = message.offset, self.read_to
        if offset < before:
            return False
        self.read_to = offset + 1
        if offset in self.done:
            self.done.add(before, offset + 1)
            self.changed = True
            return False
        if offset > before:
            self._gaps[offset] = before
        self._open.append(offset)
        self.messages += 1
        self.size += message.size
        return True

    def nothing_below(self, offset: int) -> None:
        """What is between what was read and `offset` is no message."""
        if offset > self.read_to:
            self.done.bridge(self.read_to, offset)
            self.read_to = offset
            self.changed = True

    def position(self) -> int:
        """The oldest offset that is not complete, or the end of what was read."""
        while self._open and self._open[0] in self.done:
            self._open.popleft()
        position = self._open[0] if self._open else self.read_to
        self.done.trim(position)
        return position

    def finish(self, message: UnitMessage, outcome: Outcome) -> None:
        """A message is complete: it is never delivered again."""
        offset = message.offset
        if offset in self.stored:
            self.stored.discard(offset)
            self.stored_size -= message.size
            self._rows["message", offset] = None
        else:
            self._cover(offset)
        self.forgive(offset)
        self.changed = True
        self.counts[outcome] += 1
        self.messages -= 1
        self.size -= message.size

    def depart(self, message: UnitMessage, outcome: Outcome, to: str = "", why: str = "") -> None:
        """A message is complete, and is to be sent elsewhere."""
        self.finish(message, outcome)
        self._departures.append(Departure(message, outcome, to, why))

    def failed(self, offset: int) -> None:
        """A delivery of a message failed once more."""
        times = self.redelivered[offset] = self.redelivered.get(offset, 0) + 1
        self._rows["redelivered", offset] = times
        self.changed = True

    def forgive(self, offset: int) -> None:
        """A message begins anew, as if it had never failed."""
        if self.redelivered.pop(offset, 0):
            self._rows["redelivered", offset] = None
            self.changed = True

    def store(self, message: UnitMessage) -> None:
        """Keep a message in a row, so that it does not hold the position back."""
        if message.offset not in self.stored:
            self.stored.add(message.offset)
            self.stored_size += message.size
            self._rows["message", message.offset] = message
            self._cover(message.offset)

    def mark(self, key: UnitKey, mark: UnitMark | None) -> None:
        """Write what is on record about a unit."""
        self._rows["unit", key] = mark
        self.changed = True

    def moved(self, unit: str, left: MovedAway | None) -> None:
        """Write that a unit has left; None: that nobody needs to know any more."""
        self._rows["moved", unit] = left
        self.changed = True

    def record(self, record: AdministrationRecord) -> None:
        """Write what was done by administration, and drop the oldest record beyond the limit."""
        if len(self.records) == self.records.maxlen:
            self._rows["record", self.records[0].number] = None
        self.records.append(record)
        self._rows["record", record.number] = record
        self.changed = True

    def restore(self, rows: Mapping[RowKey, RowValue], position: int, done: OffsetRanges) -> None:
        """Begin with what the former owner wrote."""
        self.read_to = position
        self.done = done.copy()
        records: list[AdministrationRecord] = []
        for (kind, key), value in rows.items():
            if isinstance(value, UnitMessage):
                self.stored.add(value.offset)
                self.stored_size += value.size
                self.messages += 1
                self.size += value.size
            elif isinstance(value, AdministrationRecord):
                records.append(value)
            elif kind == "redelivered" and isinstance(value, int):
                self.redelivered[int(key)] = value
        self.records.extend(sorted(records, key=lambda each: each.number))

    def take(self, copy: bool = True) -> UnitChanges:
        """All that has changed, once. copy: whether its ranges stay as they are now."""
        position = self.position()
        done = self.done.copy() if copy else self.done
        found = UnitChanges(position, done, self._rows, tuple(self._departures), self.batch)
        self._rows, self._departures = {}, []
        self.batch += 1
        self.changed = False
        return found

    def _cover(self, offset: int) -> None:
        self.changed = True
        self.done.add(self._gaps.pop(offset, offset), offset + 1)
