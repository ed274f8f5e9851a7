"""How far the partition is durably done: the position, and what is done beyond it."""

from collections import OrderedDict
from collections.abc import Iterable

from topology.ordered_commit.offset_ranges import OffsetRanges
from topology.ordered_commit.values import COMMITTING, OpenEvent


class CommitProgress:
    """The open events in the order of arrival, and the position that they make.

    position, done: as of the last durable unit. open: by offset. seen: all before it has arrived,
    or does not exist.
    """

    __slots__ = ("_newest", "done", "open", "position", "seen")

    def __init__(self, position: int, done: OffsetRanges) -> None:
        done.trim(position)
        self.position = self.seen = position
        self.done = done
        self.open: OrderedDict[int, OpenEvent] = OrderedDict()
        self._newest: OpenEvent | None = None

    @property
    def oldest(self) -> OpenEvent | None:
        """The oldest open event."""
        return next(iter(self.open.values())) if self.open else None

    def reach(self, offset: int) -> bool:
        """There is nothing more below `offset`; False if that was known."""
        if offset <= self.seen:
            return False
        self.done.bridge(self.seen, offset)
        if self._newest is not None and self._newest.end == self.seen:
            self._newest.end = offset
        self.seen = offset
        self._advance()
        return True

    def arrives(self, offset: int) -> bool:
        """Whether the event at `offset` is new; whoever says so adds it."""
        if offset < self.seen:
            return False
        if offset > self.seen:
            self.reach(offset)
        self.seen = offset + 1
        if offset in self.done:
            self._newest = None
            self._advance()
            return False
        return True

    def add(self, event: OpenEvent) -> None:
        """A new event is open."""
        self.open[event.offset] = self._newest = event

    def after(self, taken: Iterable[OpenEvent]) -> tuple[int, OffsetRanges]:
        """The position and what is done beyond it, once these are durable; they are COMMITTING."""
        left = (event.offset for event in self.open.values() if event.state != COMMITTING)
        position = next(left, self.seen)
        done = self.done.copy()
        for event in taken:
            if event.offset > position:
                done.add(event.offset, event.end)
        done.trim(position)
        return position, done

    def apply(self, taken: Iterable[OpenEvent]) -> int:
        """These are durable. Returns how many of them are ahead of an open one."""
        for event in taken:
            del self.open[event.offset]
        oldest = self.oldest
        ahead = 0
        if oldest is not None:
            for event in taken:
                if event.offset > oldest.offset:
                    self.done.add(event.offset, event.end)
                    ahead += 1
        self._advance()
        return ahead

    def lose(self, first: int, end: int) -> int:
        """What lies there is gone. Returns how much of it was neither done nor in hand."""
        first = max(first, self.seen)
        if end <= first:
            return 0
        lost = end - first - self.done.covered(first, end)
        self._newest = None
        self.seen = end
        self._advance()
        return lost

    def _advance(self) -> None:
        oldest = self.oldest
        self.position = self.seen if oldest is None else oldest.offset
        self.done.trim(self.position)
