"""One view in one partition: are all events that came in one place, and are the counts right?"""

from collections.abc import Collection, Iterable, Mapping

import orjson

from topology.audit.came import NOTHING_CAME, Came
from topology.audit.cut import Partition
from topology.audit.finding import Findings
from topology.audit.outputs import Outputs
from topology.audit.rows import StateRows
from topology.audit.sequences import NONE, Sequences
from topology.audit.sides import NOTHING, Sides, header
from topology.audit.stream import Proof, Stream
from topology.audit.tally import Tally
from topology.event import Message
from topology.handling_epochs import EPOCH
from topology.redelivery import SEQUENCE
from topology.starts import First
from topology.view import View

_PROOFS: dict[str, Proof] = {
    "contiguous": "counted",
    "linked": "linked",
    "monotonic": "settled",
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
        self.tally = Tally(view, place)
        self.end = 0
        self.shortened = False
        """Whether retention has taken something of the output topic."""
        self.proves: Proof | None = None
        """How it is proved that nothing is left out; None for streams without one start and end."""
        if isinstance(view.start, First) and view.closing is None:
            self.proves = _PROOFS[view.of.sequence.kind]
        self.tally.uncounted = self.proves != "counted"
        self._passed: dict[str, Sequences] = {}
        self._done: dict[str, Sequences] = {}
        self._away: dict[str, list[int]] = {}

    def position(self, group: int, first: int) -> int:
        """The input offset up to which the view has processed. group: that of the group."""
        own = first if self.rows.counts is None else self.rows.positions.input
        self.end = group if own is None else own
        return self.end

    def passed_by(self, stream: str, number: int) -> None:
        """An event came of a kind that the view does not accept."""
        if self.proves is not None:
            _numbers(self._passed, stream).add(number)

    def output(self, record: Message) -> None:
        """A record of the output topic."""
        numbered = header(record, "sequence")
        if not numbered:
            self.findings.remark(f"{record.topic} has records that are no row changes of the view")
            return
        stream, sequence = (record.key or b"").decode(), int(numbered)
        if self.view.split is not None:
            stream = orjson.loads(record.value or b"{}")["stream"]
        known = self.proves is not None and not self.findings.exact
        if known and sequence > self.rows.last(stream, -(2**63) - 1):
            return
        epoch, before = int(header(record, EPOCH) or 0), self.outputs.chains.get(stream)
        if self.outputs.add(stream, sequence, record, epoch):
            self.tally.found.written += 1
            if before is not None and epoch > before.epoch:
                # What counts is what the stream says now.
                self._done.pop(stream, None)
            if self.proves is not None:
                _numbers(self._done, stream).add(self._number(sequence))

    def redelivered(self, record: Message) -> None:
        """A record of the redelivery topic; what was taken back already is of no interest."""
        if not self.rows.positions.took(record.offset):
            number = self._number(int(header(record, SEQUENCE)))
            self._away.setdefault((record.key or b"").decode(), []).append(number)

    def streams(self, received: Collection[str]) -> set[str]:
        """All streams that there is anything of. received: that came."""
        rows = self.rows
        known = {*received, *rows.streams, *rows.waits, *rows.asked}
        return {*known, *self.outputs.chains, *self._away}

    def check(self, received: Mapping[str, Came], events: int, sides: Sides, *, gone: bool) -> None:
        """Say what is wrong. received: stream → what came of it; events: how many, repeats
        included. sides: of all partitions. gone: whether the input is shortened by retention.
        """
        tally = self.tally
        if self.proves is None:
            self.findings.remark(
                f"view {self.view.name}: its streams do not all begin at one start and never end, "
                "so its places are compared in sum, and no event is looked for by itself"
            )
        tally.unsure = sides.dropped_unseen
        self.outputs.check(sides.drops)
        tally.found.received = events
        for name in sorted(self.streams(received)):
            came = received.get(name, NOTHING_CAME)
            stream = self._stream(name, came, sides)
            tally.add(
                stream,
                sides,
                name,
                away=len(self._away.get(name, ())),
                asked=len(self.rows.asked.get(name, ())),
            )
            if gone or name in sides.drops or self.proves is None:
                tally.unsure = True
                continue
            tally.handle(name, stream)
            self._check_stream(name, stream)
        tally.check(self.rows, self.findings, gone=gone, unwritten=self.shortened)

    def _stream(self, name: str, came: Came, sides: Sides) -> Stream:
        rows, skipped = self.rows, self.rows.skipped(name)
        order = self.view.of.sequence
        return Stream(
            came=came.numbers,
            last=self._number(rows.last(name, order.start - order.step)),
            skipped=Sequences((self._number(a), self._number(b) + 1) for a, b in skipped),
            ranges=len(skipped),
            waits=_set(map(self._number, rows.waits.get(name, ()))),
            done=self._done.get(name, NONE) | self._passed.get(name, NONE),
            away=_set(self._away.get(name, ())),
            late=sides.late.get(name, NOTHING).numbers
            | _set(map(self._number, rows.asked.get(name, ()))),
            failed=sides.failed.get(name, NOTHING).numbers,
            dead=sides.dead.get(name, NOTHING).numbers,
            told=sides.parked.get(name, NOTHING).numbers,
            parked=rows.parked(name),
            choosy=self.view.accepts is not None,
            rebuilt=rows.epoch(name) > 0,
            order=self.proves or "counted",
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

    def _number(self, sequence: int) -> int:
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
