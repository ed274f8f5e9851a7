"""The counts of one view in one partition beside what the records come to."""

from topology.declaration.view import View
from topology.diagnostics.audit.finding import Findings, Violation
from topology.diagnostics.audit.rows import StateRows
from topology.diagnostics.audit.side_topics import NOTHING, SideTopics
from topology.diagnostics.audit.snapshot import Partition
from topology.diagnostics.audit.stream import Stream
from topology.model.counts import Counts

PLACES = ("waiting", "parked", "late", "failed", "dead", "redriven", "redelivering")
"""The places that records or rows tell of, one by one."""
BY_WORKERS = ("failed", "dead")
"""Those of them that a view's workers count too, in their second stage."""


class AuditTally:
    """found: what the records come to; `processed` is with what was passed by.

    gone: whether the input is shortened by retention. handled: how many events the view says that
    it handled or passed by; and how many there were, at least and at most; None where not all that
    was counted can be found.
    unsure: whether streams were dropped or records are gone by retention, so that not all that was
    counted can be found.
    """

    def __init__(self, view: View, place: Partition) -> None:
        self.view = view
        self.place = place
        self.counted = Counts()
        self.found = Counts()
        self.unsure = False
        self.gone = False
        self.handled: tuple[int, int, int] | None = None
        self.uncounted = False
        """Whether the order does not say how many events are missing."""
        self.silent = 0
        self._suspect: tuple[str, int] | None = None
        self._doubtful = 0
        self._uncounted = 0
        self._openings = 0
        self._forgetful = False

    def add(
        self, stream: Stream, side_topics: SideTopics, name: str, *, away: int, asked: int
    ) -> None:
        """Count what is of a stream in each place that records or rows tell of."""
        found, waiting = self.found, len(stream.waiting)
        if stream.parked:
            found.parked += waiting
        else:
            found.waiting += waiting
        found.late += side_topics.late.get(name, NOTHING).records + asked
        found.failed += side_topics.failed.get(name, NOTHING).records
        found.dead += side_topics.dead.get(name, NOTHING).records
        found.redelivering += away
        # It is received once more when it is put back.
        redriven = side_topics.redriven.get(name, NOTHING).records
        found.redriven += redriven
        found.received += redriven

    def handle(self, name: str, stream: Stream, *, openings: tuple[int, int] = (0, 0)) -> None:
        """Count what was handled of a stream, and what was given up.

        openings: how much of that, at least and at most, was merely before its beginning.
        """
        surely, perhaps = openings
        self.found.skipped -= surely
        self._openings += perhaps - surely
        self.found.processed += len(stream.handled)
        self._doubtful += len(stream.doubtful)
        self._uncounted += len(stream.perhaps_uncounted)
        self._forgetful |= stream.forgetful
        given_up = stream.late & stream.came & stream.passed | stream.skipped & stream.came
        self.found.skipped += len(stream.missing) + len(given_up)
        if silent := stream.silent:
            self.silent += len(silent)
            if self._suspect is None:
                order = self.view.of.sequence
                self._suspect = name, order.start + silent.first * order.step

    def check(self, rows: StateRows, findings: Findings, *, gone: bool, unwritten: bool) -> None:
        """Compare with the view's own counts. gone: the input is shortened by retention; unwritten:
        the output topic is."""
        found, self.gone = self.found, gone
        counted = self.counted = rows.counts or Counts()

        def counts_row(what: str) -> Violation:
            return Violation(what, rows.counted, self.view.name, input=self.place)

        def compare(what: str, mine: int, there: int, *, ends: bool = False) -> None:
            suspect = self._suspect if ends and mine > there else None
            if suspect is None:
                violation = counts_row(what)
            else:
                violation = self.violation(f"{what}{self._of()}", *suspect)
            findings.count(violation, mine, there, gone=gone)

        if counted.accounted != counted.received:
            what = f"its counts add up to {counted.accounted}, not to {counted.received} received"
            findings.violation(counts_row(what))
        if counted.unrouted and not self.view.paths:
            what = f"it counted {counted.unrouted} messages as unrouted, but it has no rules"
            findings.violation(counts_row(what))
        if not gone:
            again = f", {found.redriven} of them put back" if found.redriven else ""
            what = f"it counted {counted.received} events as received, {found.received} came{again}"
            compare(what, counted.received, found.received)
        for place in PLACES:
            if place in BY_WORKERS and self.view.work is not None:
                continue
            mine, there = getattr(counted, place), getattr(found, place)
            what = f"it counted {mine} as {place}, there are {there}"
            compare(what, mine, there, ends=place in ("late", "failed", "dead", "redriven"))
        if not unwritten and self.view.work is None:
            what = f"it wrote {counted.written} outputs, there are {found.written}"
            compare(what, counted.written, found.written, ends=True)
        found.duplicate = found.received - found.accounted
        if self.unsure:
            return
        if self.uncounted:
            # One is counted per gap, and how long a gap was nobody knows.
            found.skipped = counted.skipped
        if 0 < found.skipped - counted.skipped <= self._openings:
            found.skipped = counted.skipped
        forgotten = counted.skipped - found.skipped
        if forgotten < 0 or (forgotten and not (self._forgetful or self._doubtful)):
            what = f"it counted {counted.skipped} as skipped, {found.skipped} were"
            compare(what, counted.skipped, found.skipped)
            return
        # What was given up so long ago that it is forgotten is a duplicate where it came late.
        found.skipped += forgotten
        found.duplicate += forgotten
        found.processed -= forgotten
        handled, least = counted.processed + counted.passed, found.processed
        self.handled = handled, least - self._uncounted, least + self._doubtful
        if self.view.work is None and not self.handled[1] <= handled <= self.handled[2]:
            what = f"it counted {handled} as processed or passed by, {least} were"
            compare(what, handled, least)

    def violation(
        self, what: str, stream: str | None = None, sequence: int | None = None
    ) -> Violation:
        """One that concerns the view in this partition."""
        return Violation(what, None, self.view.name, stream, sequence, self.place)

    def _of(self) -> str:
        if self.silent == 1:
            return "; this one was processed, and there is no record of it"
        return f"; this is the first of {self.silent} that were processed and left no record"
