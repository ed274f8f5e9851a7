"""What came of one stream: which events, and which predecessors that they name did not."""

from topology.diagnostics.audit.sequences import Range, Sequences


class SequenceLog:
    """numbers: of the events, from 0 on. closing: of those that close the stream, where a view
    has such kinds → how often each came. A predecessor is held only until it comes itself.
    """

    __slots__ = ("_awaited", "_jumped", "closing", "numbers")

    def __init__(self) -> None:
        self.numbers = Sequences()
        self.closing: dict[int, int] | None = None
        self._awaited: dict[int, list[int]] | None = None
        self._jumped: list[Range] = []

    def add(self, number: int, previous: int | None, *, linked: bool) -> bool:
        """An event came; whether it is the first copy. previous: the number of its predecessor."""
        if not self.numbers.add(number):
            return False
        if not linked:
            return True
        if self._awaited is not None:
            self._awaited.pop(number, None)
        above = 0 if previous is None else previous + 1
        if above < number:
            self._jumped.append((above, number))
        if previous is not None and previous not in self.numbers:
            if self._awaited is None:
                self._awaited = {}
            self._awaited.setdefault(previous, []).append(number)
        return True

    def closes(self, number: int) -> None:
        """An event came that closes the stream."""
        closing = self.closing = self.closing or {}
        closing[number] = closing.get(number, 0) + 1

    def joined(self, ahead: "SequenceLog", recorded: Sequences) -> "SequenceLog":
        """This, and what came of the same stream behind it, as far as that is recorded."""
        both = SequenceLog()
        both.numbers = self.numbers | (ahead.numbers & recorded)
        for log in (self, ahead):
            for number, times in (log.closing or {}).items():
                if log is self or number in recorded:
                    both.closing = both.closing or {}
                    both.closing[number] = both.closing.get(number, 0) + times
            for previous, events in log.unlinked.items():
                if previous not in both.numbers:
                    both._awaited = both._awaited or {}
                    both._awaited.setdefault(previous, []).extend(events)
            both._jumped += log._jumped
        return both

    @property
    def jumped(self) -> Sequences:
        """The numbers that a link leads over: such an event is discarded if it comes too late."""
        return Sequences(self._jumped)

    @property
    def unlinked(self) -> dict[int, list[int]]:
        """Predecessor that never came → the events that name it."""
        return self._awaited or {}


EMPTY_LOG = SequenceLog()
"""Of a stream that only other topics tell of; never changed."""
