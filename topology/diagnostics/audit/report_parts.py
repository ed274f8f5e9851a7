"""What an audit found of one source, and of one view."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from topology.engine.output.output_chain import OutputChain
from topology.model.counted import counted
from topology.model.counts import Counts

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


@dataclass(slots=True)
class SourceReport:
    """What became of the messages of a source. behind: messages that are not read yet."""

    name: str
    read: int = 0
    events: int = 0
    malformed: int = 0
    unknown: int = 0
    behind: int = 0

    def __str__(self) -> str:
        rest = f", {self.behind:,} not read yet" if self.behind else ""
        return (
            f"source {self.name}: {counted(self.read, 'message')} read{rest}\n"
            f"  {counted(self.events, 'event')}, {self.malformed:,} malformed, "
            f"{self.unknown:,} unknown"
        )


@dataclass(slots=True)
class ViewReport:
    """counted: what the view says. found: what the records come to; its `processed` is with what
    was passed by. behind: input records that the view has not processed yet. halted: why, if it is.
    arrived: events that wait for the workers of the view, or are with them. silent: events that
    were processed and wrote no output. repeats: outputs that came again.
    hashes: stream → what it said.
    """

    name: str
    counted: Counts = field(default_factory=Counts)
    found: Counts = field(default_factory=Counts)
    streams: int = 0
    behind: int = 0
    halted: str | None = None
    arrived: int = 0
    silent: int = 0
    repeats: int = 0
    unsure: bool = False
    hashes: dict[str, OutputChain] = field(default_factory=dict)

    def __str__(self) -> str:
        state = f"halted: {self.halted}" if self.halted else "at the end of its input"
        if self.behind:
            behind = f"{counted(self.behind, 'record')} behind"
            state = f"{behind}, {state}" if self.halted else behind
        lines = [
            f"view {self.name}: {counted(self.streams, 'stream')}, {state}",
            f"  {'':<24}{'counted':>12}{'found':>12}",
        ]
        says, found = _sums(self.counted), _sums(self.found)
        for name, text in PLACES.items():
            mine, there = says[name], found[name]
            known = not (self.unsure and name in ("processed", "duplicate", "skipped"))
            lines.append(f"  {text:<24}{mine:>12,}{f'{there:,}' if known else '?':>12}")
            if name == "processed" and self.arrived:
                lines.append(f"  {'arrived, not committed':<24}{'':>12}{self.arrived:>12,}")
        if self.silent:
            silent = counted(self.silent, "event was", "events were")
            lines.append(f"  {silent} processed and wrote no output")
        if self.repeats:
            lines.append(f"  {counted(self.repeats, 'output')} came again with the same content")
        return "\n".join(lines)


def _sums(counts: Counts) -> Mapping[str, int]:
    found = asdict(counts)
    found["processed"] += found["passed"]
    return found
