"""One view in one partition: are all events that came in one place, and are the counts right?"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import orjson

from topology.declaration.lanes import split_lane
from topology.declaration.starts import EarliestSeen, First
from topology.declaration.view import View
from topology.diagnostics.audit.finding import Findings, Violation, place_of
from topology.diagnostics.audit.outputs import Outputs
from topology.diagnostics.audit.rows import StateRows
from topology.diagnostics.audit.sequence_log import EMPTY_LOG, SequenceLog
from topology.diagnostics.audit.sequences import NONE, Sequences
from topology.diagnostics.audit.side_topics import NOTHING, SideTopics, header
from topology.diagnostics.audit.snapshot import Partition
from topology.diagnostics.audit.stream import Proof, Stream
from topology.diagnostics.audit.tally import AuditTally
from topology.engine.dead_events import dead_at
from topology.engine.record_formatter import EPOCH
from topology.engine.redelivery import SEQUENCE
from topology.model.counts import left_behind
from topology.model.event import Message
from topology.sequencer.progress import Progress

_PROOFS: dict[str, Proof] = {
    "contiguous": "counted",
    "linked": "linked",
    "monotonic": "settled",
    "followed": "followed",
}


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
        self.outputs = Outputs(view, findings)
        self.tally = AuditTally(view, place)
        self.end = 0
        self.shortened = False
        """Whether retention has taken something of the output topic."""
        self.proves: Proof = _PROOFS[view.of.sequence.kind]
        """How it is proved that nothing is left out."""
        self.closers = frozenset(view.closing.kinds if view.closing else ())
        self.anew: set[str] = set()
        """Streams that may have been closed, forgotten, and begun once more."""
        self._name = view.name
        self._start, self._add = view.of.sequence.start, view.of.sequence.step
        self.tally.uncounted = self.proves != "counted"
        self._handled: dict[str, Sequences] = {}
        self._unknown: set[str] = set()
        self._passed: dict[str, Sequences] = {}
        self._done: dict[str, Sequences] = {}
        self._away: dict[str, list[int]] = {}

    def position(self, group: int, first: int) -> int:
        """The input offset up to which the view has processed. group: that of the group."""
        own = first if self.rows.counts is None else self.rows.positions.input
        if own is None:
            own = left_behind(self.rows.counts_row, group)
        self.end = group if own is None else own
        return self.end

    def passed_by(self, stream: str, number: int) -> None:
        """An event came of a kind that the view does not accept."""
        _numbers(self._passed, stream).add(number)

    def output(self, record: Message) -> None:
        """A record of the output topic."""
        numbered, epoch = b"", 0
        for name, value in record.headers:
            if name == "sequence":
                numbered = value
            elif name == EPOCH:
                epoch = int(value)
        body, sequence = orjson.loads(record.value or b""), int(numbered)
        stream = body["stream"]
        if not isinstance(body["changes"], list) or stream.__class__ is not str:
            raise ValueError("it says no row changes of a stream")
        if not self._agrees(record, body, sequence):
            what = "its key, its headers and its body do not say the same view, stream and sequence"
            self.findings.violation(
                Violation(what, place_of(record), self._name, stream, sequence, self.place)
            )
        rows = self.rows
        if not self.findings.exact and sequence > rows.last(stream, -(2**63) - 1):
            return
        before = self.outputs.chains.get(stream)
        if self.outputs.add(stream, sequence, record, epoch, body):
            self.tally.found.written += 1
            if epoch and before is not None and epoch > before.epoch:
                # What counts is what the stream says now.
                self._done.pop(stream, None)
            done = self._done.get(stream)
            if done is None:
                done = self._done[stream] = Sequences()
            done.add((sequence - self._start) // self._add)

    def _agrees(self, record: Message, body: Mapping[str, Any], sequence: int) -> bool:
        """Whether an output record says the same in all of its parts."""
        stream = body["stream"]
        key = stream if self.view.split is None else split_lane(stream)[0]
        if body["sequence"] != sequence or body["view"] != self._name:
            return False
        return bool(record.key == key.encode())

    def redelivered(self, record: Message) -> None:
        """A record of the redelivery topic; what was taken back already is of no interest."""
        # One that is put back is dead until the view takes it.
        if not self.rows.positions.took(record.offset) and dead_at(record) is None:
            number = self.number(int(header(record, SEQUENCE)))
            self._away.setdefault((record.key or b"").decode(), []).append(number)

    def streams(self, received: Collection[str]) -> set[str]:
        """All streams that there is anything of. received: that came."""
        rows = self.rows
        known = {*received, *rows.streams, *rows.waits, *rows.asked}
        return {*known, *self.outputs.chains, *self._away}

    def check(
        self,
        received: Mapping[str, SequenceLog],
        events: int,
        side_topics: SideTopics,
        *,
        gone: bool,
    ) -> None:
        """Say what is wrong. received: stream → what came of it; events: how many, repeats
        included. sides: of all partitions. gone: whether the input is shortened by retention.
        """
        tally = self.tally
        tally.unsure = side_topics.dropped_unseen
        tally.found.received = events
        for name in sorted(self.streams(received)):
            came = received.get(name, EMPTY_LOG)
            if self._in_order(name, came, side_topics) and not gone:
                tally.found.processed += len(came.numbers)
                self._handled[name] = came.numbers
                continue
            stream = self._stream(name, came, side_topics)
            tally.add(
                stream,
                side_topics,
                name,
                away=len(self._away.get(name, ())),
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
        self.outputs.check(side_topics.drops, self.anew)
        if self.anew:
            self.findings.remark(
                f"view {self._name}: {len(self.anew):,} streams may have begun anew after they "
                "were closed and forgotten: what is recorded of them came, but whether all that "
                "came is recorded cannot be said"
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
        rows, done = self.rows, self._done.get(name)
        last = rows.streams.get(name)
        if last.__class__ is not int or done is None or self.proves != "counted":
            return False
        bounds, passed = came.numbers.bounds, self._passed.get(name)
        if passed is not None or done.bounds != bounds or len(bounds) != 2 or bounds[0]:
            return False
        if bounds[1] != self.number(rows.last(name, 0)) + 1:
            return False
        told = name in rows.waits or name in rows.asked or name in self._away
        if told or side_topics.tell(name) or name in side_topics.drops or came.closing:
            return False
        return self.outputs.chains[name].last == last

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
        if stream.rebuilt and isinstance(self.view.start, EarliestSeen):
            # The view does not know which of the late events were before the beginning.
            self.tally.uncounted = True
        given_up = (stream.skipped | stream.late) & stream.passed
        if isinstance(self.view.start, First) or self.tally.uncounted or not given_up:
            return 0, 0
        if stream.forgetful or stream.rebuilt or self.closers or name in side_topics.skipped:
            return 0, len(given_up)
        before = 0 if given_up.first else given_up.bounds[1]
        return (before if isinstance(self.view.start, EarliestSeen) else 0), before

    def _stream(self, name: str, came: SequenceLog, side_topics: SideTopics) -> Stream:
        rows, order = self.rows, self.view.of.sequence
        skipped = rows.skipped(name)
        passed = Sequences((self.number(a), self.number(b) + 1) for a, b in skipped)
        # Another copy of what had no rebuild may have led to one since: then it is handled.
        handled = side_topics.refused.get(name, NOTHING).numbers - passed
        late = side_topics.late.get(name, NOTHING).numbers - handled
        return Stream(
            came=came.numbers,
            last=self.number(rows.last(name, order.start - order.step)),
            skipped=passed,
            ranges=len(skipped),
            waits=_set(map(self.number, rows.waits.get(name, ()))),
            done=self._done.get(name, NONE) | self._passed.get(name, NONE),
            away=_set(self._away.get(name, ())),
            late=late | _set(map(self.number, rows.asked.get(name, ()))),
            failed=side_topics.failed.get(name, NOTHING).numbers,
            dead=side_topics.dead.get(name, NOTHING).numbers,
            redriven=side_topics.redriven.get(name, NOTHING).numbers,
            told=side_topics.parked.get(name, NOTHING).numbers,
            parked=rows.parked(name),
            choosy=self.view.accepts is not None,
            rebuilt=rows.epoch(name) > 0,
            order=self.proves,
            closed=came.closing is not None,
            unlinked=came.unlinked,
            jumped=came.jumped if self.proves == "linked" else NONE,
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
        chain, last = self.outputs.chains.get(name), self._sequence(stream.last)
        if findings.exact and chain is not None and chain.last > last:
            what = f"it has an output, but the view has processed up to {last} only"
            findings.violation(self.tally.violation(what, name, chain.last))

    def number(self, sequence: int) -> int:
        """An event's place in the order of its stream, from 0 on."""
        order = self.view.of.sequence
        return (sequence - order.start) // order.step

    def _sequence(self, number: int) -> int:
        order = self.view.of.sequence
        return order.start + number * order.step


def _numbers(of: dict[str, Sequences], stream: str) -> Sequences:
    found = of.get(stream)
    if found is None:
        found = of[stream] = Sequences()
    return found


def _set(numbers: Iterable[int]) -> Sequences:
    return Sequences((number, number + 1) for number in numbers)
