"""What the promises say of one stream in one view, as plainly as it can be said."""

from collections import defaultdict
from collections.abc import Iterable

from tests.topology.deliveries import Arrival, moments


class Model:
    """One stream: no ring, no rows, no batches; `after` ms until a gap is given up, or None."""

    def __init__(self, start: int = 1, step: int = 1, after: int | None = None) -> None:
        self.step = step
        self.after = after
        self.last = start - step
        self.waiting: dict[int, int] = {}
        self.given_up: set[int] = set()
        self.handled: list[int] = []
        self.received = self.duplicates = self.late = self.skipped = 0

    def arrive(self, sequence: int, at: int) -> None:
        """An event arrives at `at` ms."""
        self.received += 1
        if sequence in self.given_up:
            self.given_up.remove(sequence)
            self.late += 1
        elif sequence <= self.last or sequence in self.waiting:
            self.duplicates += 1
        else:
            self.waiting[sequence] = at
            self._handle_the_run()

    def advance(self, at: int) -> None:
        """All that arrived by `at` is here: give up the gaps that are due."""
        if self.after is None:
            return
        while self.waiting and min(self.waiting.values()) + self.after <= at:
            head = min(self.waiting)
            missing = range(self.last + self.step, head, self.step)
            self.given_up.update(missing)
            self.skipped += len(missing)
            self.last = head - self.step
            self._handle_the_run()

    def _handle_the_run(self) -> None:
        while self.last + self.step in self.waiting:
            self.last += self.step
            del self.waiting[self.last]
            self.handled.append(self.last)


def models(
    arrivals: Iterable[Arrival], start: int = 1, step: int = 1, after: int | None = None
) -> dict[str, Model]:
    """Stream → the model after all arrivals, with the clock moving on after each moment."""
    found: dict[str, Model] = defaultdict(lambda: Model(start, step, after))
    for at, together in moments(arrivals):
        for stream, nth, _ in together:
            found[stream].arrive(start + step * nth, at)
        for model in found.values():
            model.advance(at)
    return dict(found)
