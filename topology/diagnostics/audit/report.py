"""What came of an audit: sums per source and view, violations, and a hash per stream."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from topology.diagnostics.audit.finding import Violation
from topology.diagnostics.audit.report_parts import SourceReport, ViewReport
from topology.diagnostics.explain.bad_news import UNASSIGNED
from topology.diagnostics.explain.source_totals import SourceTotals
from topology.diagnostics.explain.tables_text import source_text
from topology.diagnostics.explain.work_tally import (
    StageTally,
    WorkTally,
    committed_counts,
    work_text,
    work_troubles,
)

LOST = ("dead", "failed", "late", "parked", "skipped")
"""Places of events that a read store lacks."""
PENDING = ("waiting", "redelivering")
"""Places of events whose turn is still to come."""


@dataclass(slots=True)
class AuditReport:
    """violations: the first thousand of `number`. remarks: what is said besides. unreadable: topic
    → how many of its records cannot be decoded. contents: whether what handlers say was compared.
    whole: whether all views were audited. too_late: records of events that were late in their own
    time. without_rows: rows that could not be made.
    without_messages: handled events whose messages were left out. work: view → its second stage,
    a moment later. parallel: what `Topology.parallel` declares, of which nothing is proved. routes:
    what stages have routed, and what they have not, a moment later. unseen: what could not be
    looked at, in words.
    """

    topology: str
    sources: list[SourceReport]
    views: list[ViewReport]
    violations: list[Violation]
    number: int
    remarks: list[str]
    unreadable: dict[str, int] = field(default_factory=dict)
    contents: bool = False
    whole: bool = True
    too_late: int = 0
    without_rows: int = 0
    without_messages: int = 0
    work: dict[str, tuple[WorkTally, ...]] = field(default_factory=dict)
    parallel: list[StageTally] = field(default_factory=list)
    routes: list[SourceTotals] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def add_work(self, name: str, work: tuple[WorkTally, ...]) -> None:
        """Tell of the second stage of a view: what its first one has handed on may be open there.

        What is open is found there: its events and rows are what is counted.
        """
        self.work[name] = work
        (view,) = [view for view in self.views if view.name == name]
        view.counted = committed_counts(view.counted, work)
        parked = sum(each.parked for each in work)
        arrived = sum(each.arrived for each in work)
        still = arrived + parked + sum(each.status.malformed for each in work)
        view.found.parked += parked
        view.found.processed = max(0, view.found.processed - still)
        view.silent = max(0, view.silent - still)
        view.arrived = arrived

    @property
    def sound(self) -> bool:
        """Whether all promises that an audit can prove are kept: nothing vanished, in order."""
        return not self.number

    @property
    def clean(self) -> bool:
        """Whether it is sound, and nothing is dead, failed, late, parked, skipped, malformed or
        halted: everything is processed, or still to come."""
        return self.sound and not self.bad_news

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON, without the hashes."""
        views = []
        for view in self.views:
            counted, found = asdict(view.counted), asdict(view.found)
            views.append(
                {
                    "name": view.name, "streams": view.streams, "counted": counted, "found": found,
                    "behind": view.behind, "halted": view.halted, "silent": view.silent,
                    "repeats": view.repeats,
                }
            )  # fmt: skip
        return {
            "topology": self.topology,
            "clean": self.clean,
            "sound": self.sound,
            "bad_news": self.bad_news,
            "pending": self.pending,
            "unreadable": self.unreadable,
            "not_proved": self.unproved.removeprefix("not proved: "),
            "sources": [asdict(source) for source in self.sources],
            "routes": [asdict(route) for route in self.routes],
            "views": views,
            "violations": [_told(violation) for violation in self.violations],
            "number": self.number,
            "remarks": self.remarks,
            "work": {name: [asdict(each) for each in work] for name, work in self.work.items()},
        }

    @property
    def bad_news(self) -> list[str]:
        """What is not processed and will not be by itself, as in `3 dead`."""
        counts = [view.counted for view in self.views]
        found = [(sum(getattr(each, name) for each in counts), name) for name in LOST]
        malformed = sum(source.malformed for source in self.sources)
        found.append((malformed + sum(each.malformed for each in self.routes), "malformed"))
        found += [(each.read.parked, f"parked in {each.named}") for each in self.routes]
        found.append((self.too_late, "late in their own time"))
        found.append((self.without_rows, "rows that could not be made"))
        found.append((self.without_messages, "handled but for their messages"))
        troubles = [t for name, work in self.work.items() for t in work_troubles(name, work)]
        troubles += [trouble for each in self.parallel for trouble in each.troubles]
        stopped = [str(each) for each in troubles if each.place != UNASSIGNED]
        halted = [f"view {v.name} halted" for v in self.views if v.halted]
        return _numbered(found) + halted + stopped + self.unseen

    @property
    def pending(self) -> list[str]:
        """What is still to come, as in `2 waiting`."""
        found = [(sum(getattr(view.counted, n) for view in self.views), n) for n in PENDING]
        # A source is as far behind as its messages, a view as what it reads.
        unread = sum(source.behind for source in self.sources)
        found.append((unread + sum(each.unread for each in self.routes), "not read yet"))
        behind = max((view.behind for view in self.views), default=0)
        found.append((behind, "records that a view is behind"))
        found.append((sum(view.arrived for view in self.views), "arrived and not committed"))
        return _numbered(found)

    @property
    def verdict(self) -> list[str]:
        """The last lines but one: whether all is in order, and whether it is complete."""
        lost, still = self.bad_news, self.pending
        both = ", ".join([*lost, *still])
        if self.number:
            number = f"{self.number} violation{'s' if self.number > 1 else ''}; the first one:"
            return [number, f"  {self.violations[0]}", *([f"besides, {both}"] if both else ())]
        if lost:
            return [f"in order, but not complete: {both}"]
        if still:
            return [f"in order so far: {both}"]
        return ["clean: in order and complete, every message is in one place"]

    @property
    def unproved(self) -> str:
        """The last line: what this audit does not prove."""
        found = [] if self.contents else ["what handlers made of the events (--contents)"]
        found += [] if self.whole else ["the views that were not asked for"]
        found += ["what is done with the topics of parallel()"] if self.parallel else []
        found += ["where routes sent what they read"] if self.routes else []
        found += ["what the notes above say"] if self.remarks else []
        found += ["what the read stores hold"]
        return f"not proved: {'; '.join(found)}"

    def __str__(self) -> str:
        lines = [*map(str, self.sources), *map(source_text, self.routes), *map(str, self.views)]
        for name, work in self.work.items():
            lines += work_text(name, work)
        lines += [f"note: {remark}" for remark in self.remarks]
        return "\n".join([*lines, *self.verdict, self.unproved])


def _numbered(found: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{number:,} {name}" for number, name in found if number]


def _told(violation: Violation) -> dict[str, Any]:
    told = asdict(violation)
    told["place"] = violation.place and violation.place._asdict()
    told["input"] = violation.input and dict(
        zip(("topic", "partition"), violation.input, strict=True)
    )
    return told
