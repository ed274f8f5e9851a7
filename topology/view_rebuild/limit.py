"""How far the live view is in a stream: so far it is rebuilt, and no further."""

from dataclasses import dataclass

from topology.engine.state.rows import decode_progress
from topology.sequencer.progress import Progress


@dataclass(frozen=True, slots=True)
class Limit:
    """last: the last sequence that the live view has processed. skipped: the ranges (first, last)
    that it gave up, as far as it remembers. forgot: the highest of those that it does not remember.
    epoch: how often it has made the stream anew. anew: the offset in its input from which on that
    is the stream, as it was dropped there.
    """

    last: int
    skipped: tuple[tuple[int, int], ...] = ()
    forgot: int | None = None
    epoch: int = 0
    anew: int = 0

    def lost(self, first: int, last: int, step: int) -> int:
        """How many sequences from `first` to `last` the live view must have had.

        They are missing in the history; what the live view gave up as well is not.
        """
        if self.forgot is not None:
            first = max(first, first + -(-(self.forgot + 1 - first) // step) * step)
        count = max(0, (last - first) // step + 1)
        for low, high in self.skipped:
            low, high = max(low, first), min(high, last)
            if low <= high:
                count -= (high - first) // step - (low - first - 1) // step
        return count


def limit_of(row: bytes) -> Limit:
    """The limit that a stream's progress row of the view's changelog says."""
    progress, _ = decode_progress(row)
    if not isinstance(progress, Progress):
        return Limit(progress)
    return Limit(progress.last, progress.skipped, progress.forgot, progress.epoch, progress.anew)
