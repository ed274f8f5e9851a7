"""The windows of a key that are kept, where they are not kept for ever. Pure.

A key's clock is the latest time of all its events. How far its windows are behind that clock is
known of the key's cells: `windows` has their starts, in order, and `marks` the streams with a time
that is at or before that of their last event.
"""

from collections.abc import Iterable
from itertools import islice, takewhile
from typing import Any

from topology.verbs.contributions import Part
from topology.verbs.revisions import Cells
from topology.verbs.sorted_cells import SortedCells
from topology.verbs.windows import Hopping

DROPPED = 100
"""Windows, and streams, that one event drops of a key."""


class KeptWindows:
    """A key's windows while one event of it is handled.

    windows: of the key. keep: ms behind its clock. state, cells: the key's; the state has `clock`.
    """

    def __init__(self, windows: Hopping, keep: int, state: dict[str, Any], cells: Cells) -> None:
        self.windows, self.keep, self.state, self.cells = windows, keep, state, cells
        self.starts, self.marks = SortedCells(cells, "windows"), SortedCells(cells, "marks")

    @property
    def over(self) -> int | None:
        """The time by which windows have ended that are kept no more."""
        return None if "clock" not in self.state else self.state["clock"] - self.keep

    def refused(self, parts: Iterable[Part]) -> int | None:
        """The start of a window that an event is for, and that is kept no more; None if none is."""
        over = self.over
        if over is None:
            return None
        found = (w for part in parts for w in self.windows.of(part[0]))
        return next((start for start, end in found if end <= over), None)

    def took(self, stream: str, parts: Iterable[Part], starts: Iterable[int]) -> list[int]:
        """An event was taken. Returns the starts of the windows that are dropped now.

        stream: the event's. parts: of it. starts: of the windows that it changed.
        """
        for start in starts:
            if self.starts.find([start, 0]) is None:
                self.starts.put([start, 0])
        latest = max((part[0] for part in parts), default=None)
        mark = self.cells[f"from {stream}"]
        if latest is not None:
            if len(mark) == 2:
                self.marks.put([latest, stream])
                mark.append(latest)
            mark[2] = max(mark[2], latest)
            self.state["clock"] = max(self.state.get("clock", latest), latest)
        over = self.over
        if over is None:
            return []
        # A stream whose events are all of windows that are gone need not be known: what a crash
        # sends again of it is refused for that.
        old = takewhile(lambda each: self._end(each[0]) <= over, self.marks.since([-(2**62)]))
        for entry in list(islice(old, DROPPED)):
            self.marks.remove(entry)
            last = self.cells[f"from {entry[1]}"][2]
            if self._end(last) <= over:
                del self.cells[f"from {entry[1]}"]
            else:
                self.marks.put([last, entry[1]])
        size = self.windows.size
        ended = takewhile(lambda each: each[0] + size <= over, self.starts.since([-(2**62)]))
        gone = list(islice(ended, DROPPED))
        for entry in gone:
            self.starts.remove(entry)
            self.cells.pop(str(entry[0]), None)
        return [entry[0] for entry in gone]

    def _end(self, time: int) -> int:
        """When the last window of a time ends."""
        return self.windows.of(time)[-1][1]
