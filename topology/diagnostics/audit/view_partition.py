"""One view in one partition: are all events that came in one place, and are the counts right?"""

from collections.abc import Collection, Iterable, Mapping

from topology.declaration.starts import First
from topology.declaration.view import View
from topology.diagnostics.audit.finding import Findings
from topology.diagnostics.audit.rows import StateRows
from topology.diagnostics.audit.sequence_log import EMPTY_LOG, SequenceLog
from topology.diagnostics.audit.sequences import NONE, Sequences
from topology.diagnostics.audit.side_topics import NOTHING, SideTopics
from topology.diagnostics.audit.snapshot import Partition
from topology.diagnostics.audit.stream import Stream
from topology.diagnostics.audit.tally import AuditTally
from topology.diagnostics.audit.view_records import ViewRecords
from topology.model.counted import counted
from topology.model.counts import left_behind
from topology.sequencer.progress import Progress


class ViewPartition:
    """Fed with the view's rows first, then with the records of topics; `check` says what is wrong.

    Within, an event is a number from 0 on: its place in the order of its stream. end: the input
    offset up to which the view has processed.
    """

    def __init__(self, view: View, place: Partition, findings: Findings) -> None:
        self.view = view
        self.place = place
        self.findings = findings
        self.rows = StateRows()
        self.records = ViewRecords(view, place, findings, self.rows)
        self.tally = AuditTally(view, place)
        self.end = 0
        self.shortened = False
        """Whether retention has taken something of the output topic."""
        self.order = view.of.sequence
        """Says how it is proved that nothing is left out."""
        self.closers = frozenset(view.closing.kinds if view.closing else ())
        self.anew: set[str] = set()
        """Streams that may have been closed, forgotten, and begun once more."""
        self._name = view.name
        self.tally.uncounted = not self.order.counts
        self._handled: dict[str, Sequences] = {}
        self._unknown: set[str] = set()

    def position(self, group: int, first: int) -> int:
        """The input offset up to which the view has processed. group: that of the group."""
        own = first if self.rows.counts is None else self.rows.positions.input
        if own is None:
            own = left_behind(self.rows.counts_row, group)
        self.end = group if own is None else own
        return self.end

    def streams(self, received: Collection[str]) -> set[str]:
        """All streams that there is anything of. received: that came."""
        rows = self.rows
        known = {*received, *rows.streams, *rows.waits, *rows.asked}
        return {*known, *self.records.outputs.chains, *self.records.away}

    def check(
        self,
        received: Mapping[str, SequenceLog],
        ahead: Mapping[str, SequenceLog],
        events: int,
        side_topics: SideTopics,
        *,
        gone: bool,
    ) -> None:
        """Say what is wrong.

        Args:
            received: stream → what came of it before the group's offset.
            ahead: stream → what came behind that, at least once: a state may be ahead of it.
            events: how many were received, repeats included.
            side_topics: of all partitions.
            gone: whether the input is shortened by retention.
        """
        tally = self.tally
        tally.unsure = side_topics.dropped_unseen
        tally.found.written = self.records.written
        tally.found.received = events
        for name in sorted(self.streams(received)):
            came = received.get(name, EMPTY_LOG)
            if name in ahead:
                recorded = self._stream(name, came, side_topics).recorded
                came = came.joined(ahead[name], recorded)
            if self._in_order(name, came, side_topics) and not gone:
                tally.found.processed += len(came.numbers)
                self._handled[name] = came.numbers
                continue
            stream = self._stream(name, came, side_topics)
            tally.add(
                stream,
                side_topics,
                name,
                away=len(self.records.away.get(name, ())),
                asked=len(self.rows.asked.get(name, ())),
            )
            if came.closing and not self._lives_once(name, came, stream):
                self.anew.add(name)
                self._check_lives(name, stream)
            if gone or name in side_topics.drops or name in self.anew:
                tally.unsure = True
                if gone and not (
                    self.view.stateful or name in side_topics.drops or name in self.anew
                ):
                    self._note_handled(name, stream)
                else:
                    self._unknown.add(name)
                continue
            self._note_handled(name, stream)
            tally.handle(name, stream, openings=self._openings(name, stream, side_topics))
            self._check_stream(name, stream)
        self.records.outputs.check(side_topics.drops, self.anew)
        if self.anew:
            self.findings.remark(
                f"view {self._name}: {counted(len(self.anew), 'stream')} may have begun anew "
                "after being closed and forgotten: what is recorded of them came, but whether "
                "all that came is recorded cannot be said"
            )
        tally.check(self.rows, self.findings, gone=gone, unwritten=self.shortened)

    def handled(self) -> tuple[Mapping[str, Sequences], set[str]]:
        """After `check`: stream → the numbers of the events that were handled; and the streams of
        which that is not known."""
        return self._handled, self._unknown

    def _note_handled(self, name: str, stream: Stream) -> None:
        done = stream.done
        passed = (stream.came & stream.passed) - stream.skipped
        ended = (stream.late | stream.failed | stream.dead) - done
        # Another copy of what died may have been handled in silence; and a rebuild handles what had
        # failed once more. Where there is state, what follows depends on it.
        ended_once = stream.failed | stream.dead | stream.late
        unsure = stream.doubtful or (stream.rebuilt and ended_once)
        if (self.view.stateful and unsure) or (stream.jumped & passed) - done:
            self._unknown.add(name)
        else:
            self._handled[name] = passed - ended

    def _in_order(self, name: str, came: SequenceLog, side_topics: SideTopics) -> bool:
        """Whether all that there is of a stream is what was handled, from the first number on."""
        rows, done = self.rows, self.records.done.get(name)
        last = rows.streams.get(name)
        if last.__class__ is not int or done is None or not self.order.counts:
            return False
        bounds, passed = came.numbers.bounds, self.records.passed.get(name)
        if passed is not None or done.bounds != bounds or len(bounds) != 2 or bounds[0]:
            return False
        if bounds[1] != self.number(rows.last(name, 0)) + 1:
            return False
        told = name in rows.waits or name in rows.asked or name in self.records.away
        if told or side_topics.tell(name) or name in side_topics.drops or came.closing:
            return False
        return self.records.outputs.chains[name].last == last

    def _lives_once(self, name: str, came: SequenceLog, stream: Stream) -> bool:
        """Whether a stream that was closed cannot have been forgotten and begun again since."""
        counts = self.rows.counts
        if counts is None or not counts.dropped:
            return True
        progress = self.rows.streams.get(name)
        if not isinstance(progress, Progress) or progress.closed is None:
            return False
        return came.closing == {stream.last: 1}

    def _check_lives(self, name: str, stream: Stream) -> None:
        """What holds however often a stream began: nothing is recorded of what never came."""
        ends = stream.done | stream.late | stream.failed | stream.dead
        for first, _ in ends - stream.came if self.findings.exact else ():
            what = "something is recorded of it, but it never came"
            self.findings.violation(self.tally.violation(what, name, self._sequence(first)))

    def _openings(self, name: str, stream: Stream, side_topics: SideTopics) -> tuple[int, int]:
        """Of what a stream gave up: how much at least, and at most, is no gap but what was before
        the event that it began with, which no view counts."""
        if stream.rebuilt and self.view.start.open_after is not None:
            # The view does not know which of the late events were before the beginning.
            self.tally.uncounted = True
        given_up = (stream.skipped | stream.late) & stream.passed
        if isinstance(self.view.start, First) or self.tally.uncounted or not given_up:
            return 0, 0
        if stream.forgetful or stream.rebuilt or self.closers or name in side_topics.skipped:
            return 0, len(given_up)
        before = 0 if given_up.first else given_up.bounds[1]
        return (before if self.view.start.open_after is not None else 0), before

    def _stream(self, name: str, came: SequenceLog, side_topics: SideTopics) -> Stream:
        rows, order = self.rows, self.order
        ranges, none = rows.skipped(name), order.start - order.step
        passed = Sequences((self.number(a), self.number(b) + 1) for a, b in ranges)
        # Another copy of what had no rebuild may have led to one since: then it is handled.
        handled = side_topics.refused.get(name, NOTHING).numbers - passed
        late = side_topics.late.get(name, NOTHING).numbers - handled
        return Stream(
            came=came.numbers,
            last=self.number(rows.last(name, none)),
            skipped=passed,
            forgot=self.number(rows.forgot(name, none)),
            waits=_set(map(self.number, rows.waits.get(name, ()))),
            done=self.records.done.get(name, NONE) | self.records.passed.get(name, NONE),
            away=_set(self.records.away.get(name, ())),
            late=late | _set(map(self.number, rows.asked.get(name, ()))),
            failed=side_topics.failed.get(name, NOTHING).numbers,
            dead=side_topics.dead.get(name, NOTHING).numbers,
            redriven=side_topics.redriven.get(name, NOTHING).numbers,
            told=side_topics.parked.get(name, NOTHING).numbers,
            parked=rows.parked(name),
            choosy=self.view.accepts is not None,
            rebuilt=rows.epoch(name) > 0,
            order=order,
            closed=came.closing is not None,
            unlinked=came.unlinked,
            jumped=came.jumped if order.links else NONE,
        )

    def _check_stream(self, name: str, stream: Stream) -> None:
        findings = self.findings
        wrong = [*stream.wrong(), *(stream.unread() if findings.exact else ())]
        for number, what, sure in wrong:
            violation = self.tally.violation(what, name, self._sequence(number))
            if sure or findings.once:
                findings.violation(violation)
            else:
                findings.remark(f"{violation}: a crash at least once can leave that")
        chain, last = self.records.outputs.chains.get(name), self._sequence(stream.last)
        if findings.exact and chain is not None and chain.last > last:
            what = f"it has an output, but the view has processed up to {last} only"
            findings.violation(self.tally.violation(what, name, chain.last))

    def number(self, sequence: int) -> int:
        """An event's place in the order of its stream, from 0 on."""
        return self.records.number(sequence)

    def _sequence(self, number: int) -> int:
        return self.order.start + number * self.order.step


def _set(numbers: Iterable[int]) -> Sequences:
    return Sequences((number, number + 1) for number in numbers)
