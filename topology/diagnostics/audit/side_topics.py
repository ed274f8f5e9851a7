"""What the side topics say of one view: what is late, failed, dead, parked and dropped."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from topology.declaration.lanes import LANE, joined_lane
from topology.declaration.starts import First
from topology.declaration.view import View
from topology.diagnostics.audit.finding import Findings, Violation, place_of
from topology.diagnostics.audit.sequences import Sequences
from topology.diagnostics.records import last_header
from topology.engine.output.failure import HEALED, WITHOUT_MESSAGES, WITHOUT_ROW
from topology.model.counted import counted
from topology.model.event import Message
from topology.model.origin_headers import IN_SEQUENCE, REASON


@dataclass(slots=True)
class SideTopicCounts:
    """What a topic tells of a stream. numbers: of its events, from 0 on. records: how many."""

    numbers: Sequences = field(default_factory=Sequences)
    records: int = 0


NOTHING = SideTopicCounts()
"""Of a stream that a topic does not tell of; never changed."""


class SideTopics:
    """The records about one view. late, failed, dead, parked: stream → what is told. redriven: the
    same of dead events that were put back, those with an offset in `put_back`.

    refused: the late ones that no rebuild has taken in. skipped: the streams that somebody gave
    sequences up in by command.
    """

    def __init__(self, view: View, findings: Findings) -> None:
        self.view = view.name
        self.order = view.of.sequence
        self.laned = view.split is not None
        self.findings = findings
        self._closes = view.closing is not None
        self._often = (
            self.order.settles
            or not isinstance(view.start, First)
            or view.late.rebuilds
            or self._closes
        )
        """Whether a copy of an event that was late, or handled long ago, may be late as well."""
        self.late: dict[str, SideTopicCounts] = {}
        self.refused: dict[str, SideTopicCounts] = {}
        self.failed: dict[str, SideTopicCounts] = {}
        self.dead: dict[str, SideTopicCounts] = {}
        self.redriven: dict[str, SideTopicCounts] = {}
        self.put_back: set[int] = set()
        self.parked: dict[str, SideTopicCounts] = {}
        self.drops: dict[str, int] = {}
        self.skipped: set[str] = set()
        self._twice: dict[str, list[tuple[int, Violation]]] = {}
        self._claimed: set[str] = set()

    def came_late(self, record: Message) -> None:
        if any(name == IN_SEQUENCE for name, _ in record.headers):
            self.findings.too_late += 1
            return  # it was handled
        stream, sequence = (record.key or b"").decode(), header(record, "sequence")
        if any(name == LANE for name, _ in record.headers) and self.laned:
            stream = joined_lane(stream, header(record, LANE))
        if any(name == REASON for name, _ in record.headers):
            self._add(self.refused, stream, int(sequence))
        if self._often:
            self._add(self.late, stream, int(sequence))
        else:
            self._once(self.late, stream, sequence, record)

    def died(self, record: Message) -> None:
        stream = (record.key or b"").decode()
        into = self.redriven if record.offset in self.put_back else self.dead
        self._add(into, stream, int(header(record, "sequence")))

    def has_failed(self, record: Message) -> None:
        """An error log record; only of an event that was passed does it end there, and only until a
        rebuild handles it."""
        report = report_of(record)
        stream, sequence = str(report["stream"]), report["sequence"]
        if report["done"] == HEALED:
            self._heal(stream, int(str(sequence)))
        if report["done"] == WITHOUT_ROW:
            self.findings.without_rows += int(str(report.get("rows", 1)))
        self.findings.without_messages += report["done"] == WITHOUT_MESSAGES
        if report["done"] != "advance":
            return
        if self._closes:
            # A stream that was forgotten and begins again fails again.
            self._add(self.failed, stream, int(str(sequence)))
        else:
            self._once(self.failed, stream, sequence, record)

    def was_parked(self, record: Message) -> None:
        report = report_of(record)
        self._add(self.parked, str(report["stream"]), int(str(report["sequence"])))

    def commanded(self, record: Message) -> None:
        """An audit record. Commands that only say what they would do, do nothing."""
        report = report_of(record)
        if not report.get("done") or report.get("dry_run"):
            return
        if report["name"] == "drop":
            stream = str(report["stream"])
            self.drops[stream] = self.drops.get(stream, 0) + 1
        elif report["name"] in ("skip", "unpark"):
            self.skipped.add(str(report["stream"]))

    def tell(self, stream: str) -> bool:
        """Whether anything is told of a stream."""
        return any(stream in each for each in self._tellings())

    def claim(self, streams: Iterable[str]) -> None:
        """These streams came, in one of the partitions."""
        told = self.drops.keys() | {name for each in self._tellings() for name in each}
        self._claimed |= told.intersection(streams)

    @property
    def dropped_unseen(self) -> bool:
        """Whether a stream was dropped that never came, so that its partition is not known."""
        return not self.drops.keys() <= self._claimed

    def check(self) -> None:
        """Say what is twice, and, all partitions having claimed their streams, what never came."""
        findings = self.findings
        if self.drops:
            dropped = counted(len(self.drops), "stream was", "streams were")
            findings.remark(
                f"view {self.view}: {dropped} dropped by command: whether all that came is "
                "recorded cannot be said"
            )
        for stream, twice in self._twice.items():
            if stream not in self.drops:
                copies = self.redriven.get(stream, NOTHING).numbers
                for number, violation in twice:
                    # One that died, and was put back when its stream had passed it, is late too.
                    if number not in copies:
                        findings.violation(violation)
        if not findings.exact:
            return
        for topic, told in zip(("late", "error", "dead"), self._tellings(), strict=False):
            for stream in told.keys() - self._claimed:
                text = f"it is in the {topic} topic, but never came"
                findings.violation(Violation(text, None, self.view, stream))

    def _tellings(self) -> tuple[dict[str, SideTopicCounts], ...]:
        return self.late, self.failed, self.dead, self.parked, self.redriven

    def _once(
        self, into: dict[str, SideTopicCounts], stream: str, sequence: object, record: Message
    ) -> None:
        number = int(str(sequence))
        if self._add(into, stream, number) or not self.findings.once:
            return
        text = f"it is twice in {record.topic}"
        wrong = Violation(text, place_of(record), self.view, stream, number)
        self._twice.setdefault(stream, []).append((self._number(number), wrong))

    def _add(self, into: dict[str, SideTopicCounts], stream: str, sequence: int) -> bool:
        told = into.get(stream)
        if told is None:
            told = into[stream] = SideTopicCounts()
        new = told.numbers.add(self._number(sequence))
        told.records += new or self.findings.once
        return new

    def _heal(self, stream: str, sequence: int) -> None:
        told, number = self.failed.get(stream, NOTHING), self._number(sequence)
        if number in told.numbers:
            told.numbers -= Sequences([(number, number + 1)])
            told.records -= 1

    def _number(self, sequence: int) -> int:
        return (sequence - self.order.start) // self.order.step


def header(record: Message, name: str) -> str:
    """Return the last header of that name as text, empty if there is none."""
    return (last_header(record, name) or b"").decode()


def report_of(record: Message) -> dict[str, object]:
    """The JSON body of an error log, parked or audit record."""
    body: dict[str, object] = orjson.loads(record.value or b"{}")
    return body
