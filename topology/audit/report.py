"""What came of an audit: sums per source and view, violations, and a hash per stream."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from topology.audit.finding import Violation
from topology.audit.verdict import bad_news, pending, unproved, verdict
from topology.counts import Counts
from topology.output_chain import Chain


@dataclass(slots=True)
class SourceReport:
    """What became of the messages of a source. behind: messages that are not read yet."""

    name: str
    read: int = 0
    events: int = 0
    malformed: int = 0
    unknown: int = 0
    behind: int = 0


@dataclass(slots=True)
class ViewReport:
    """counted: what the view says. found: what the records come to; its `processed` is with what
    was passed by. behind: input records that the view has not processed yet. halted: why, if it is.
    silent: events that were processed and wrote no output. repeats: outputs that came again.
    hashes: stream → what it said.
    """

    name: str
    counted: Counts = field(default_factory=Counts)
    found: Counts = field(default_factory=Counts)
    streams: int = 0
    behind: int = 0
    halted: str | None = None
    silent: int = 0
    repeats: int = 0
    unsure: bool = False
    hashes: dict[str, Chain] = field(default_factory=dict)


@dataclass(slots=True)
class Report:
    """violations: the first thousand of `number`. remarks: what is said besides. unreadable: topic
    → how many of its records cannot be decoded. contents: whether what handlers say was compared.
    whole: whether all views were audited.
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

    @property
    def sound(self) -> bool:
        """Whether all promises that an audit can prove are kept: nothing vanished, in order."""
        return not self.number

    @property
    def clean(self) -> bool:
        """Whether it is sound, and nothing is dead, failed, late, parked, skipped, malformed or
        halted: everything is processed, or still to come."""
        return self.sound and not bad_news(self)

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
            "bad_news": bad_news(self),
            "pending": pending(self),
            "unreadable": self.unreadable,
            "not_proved": unproved(self).removeprefix("not proved: "),
            "sources": [asdict(source) for source in self.sources],
            "views": views,
            "violations": [_told(violation) for violation in self.violations],
            "number": self.number,
            "remarks": self.remarks,
        }

    def __str__(self) -> str:
        lines = [line for source in self.sources for line in _source(source)]
        lines += [line for view in self.views for line in _view(view)]
        lines += [f"note: {remark}" for remark in self.remarks]
        return "\n".join([*lines, *verdict(self), unproved(self)])


PLACES = {
    "processed": "processed or passed by",
    "duplicate": "duplicate",
    "waiting": "waiting",
    "parked": "parked",
    "late": "late",
    "failed": "failed",
    "redelivering": "redelivering",
    "dead": "dead",
    "redriven": "dead, put back",
    "received": "received",
    "skipped": "skipped, never came",
    "written": "outputs",
}


def _source(source: SourceReport) -> list[str]:
    rest = f", {source.behind:,} not read yet" if source.behind else ""
    return [
        f"source {source.name}: {source.read:,} messages read{rest}",
        f"  {source.events:,} events, {source.malformed:,} malformed, {source.unknown:,} unknown",
    ]


def _view(view: ViewReport) -> list[str]:
    state = f"halted: {view.halted}" if view.halted else "at the end of its input"
    if view.behind:
        state = f"{view.behind:,} records behind" + (f", {state}" if view.halted else "")
    lines = [
        f"view {view.name}: {view.streams:,} streams, {state}",
        f"  {'':<24}{'counted':>12}{'found':>12}",
    ]
    counted, found = _sums(view.counted), _sums(view.found)
    for name, text in PLACES.items():
        mine, there = counted[name], found[name]
        known = not (view.unsure and name in ("processed", "duplicate", "skipped"))
        lines.append(f"  {text:<24}{mine:>12,}{f'{there:,}' if known else '?':>12}")
    if view.silent:
        lines.append(f"  {view.silent:,} events were processed and wrote no output")
    if view.repeats:
        lines.append(f"  {view.repeats:,} outputs came again, and say the same")
    return lines


def _sums(counts: Counts) -> Mapping[str, int]:
    found = asdict(counts)
    found["processed"] += found["passed"]
    return found


def _told(violation: Violation) -> dict[str, Any]:
    told = asdict(violation)
    told["place"] = violation.place and violation.place._asdict()
    told["input"] = violation.input and dict(
        zip(("topic", "partition"), violation.input, strict=True)
    )
    return told
