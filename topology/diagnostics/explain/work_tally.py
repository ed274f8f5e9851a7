"""The second stage of views with workers: what has arrived there and is not committed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from topology.diagnostics.explain.bad_news import (
    HALTED,
    LOST,
    MALFORMED,
    STILL,
    UNASSIGNED,
    Trouble,
    troubles,
)
from topology.diagnostics.explain.times import since
from topology.engine.state.work_status import WorkStatus
from topology.model.counted import counted
from topology.model.counts import Counts
from topology.model.printable import printable


@dataclass(frozen=True, slots=True)
class WorkTally:
    """The ordering manager of one partition.

    Attributes:
        number: of the partition of the arrivals topic.
        arrived: events that are not committed; at most so many, where they were not counted.
        counted: whether they were.
        ahead: offsets beyond the oldest of them that are done.
        parked: events that are set aside there.
        streams: whose they are, how many.
        status: what the manager said of itself last.
        owner: the group's member that has the partition, None if nobody has.
        now: the workers' clock (ms).
        position: the offset of the oldest that is not committed.
        still: whether nothing is committed, though a worker has the partition and there is work.
        oldest: when the oldest event arrived that is not committed (ms); what `Topology.parallel`
            declares knows only the time of its message.
    """

    number: int
    arrived: int
    counted: bool
    ahead: int
    parked: int
    streams: int
    status: WorkStatus
    owner: str | None
    now: int
    position: int = 0
    still: bool = False
    oldest: int | None = None

    @property
    def away(self) -> str | None:
        """What its database said, if that is away and there is work for it."""
        return self.status.away if self.arrived else None

    @property
    def open(self) -> bool:
        """Whether there is work, and nobody knows what would hold it up."""
        return bool(self.arrived and self.owner) and not (self.status.halted or self.away)

    @property
    def committed(self) -> tuple[int, int, int]:
        """What changes when something is committed."""
        return self.position, self.ahead, self.status.counts.get("committed", 0)


@dataclass(frozen=True, slots=True)
class StreamWork:
    """One stream in the second stage of its view.

    Attributes:
        arrived: sequences of its events that are not committed, those parked apart.
        parked: sequences that are set aside there.
        halted: why its partition is halted there, None if it is not.
        owner: the group's member that has the partition, None if nobody has.
        status: what the manager of its partition said of itself last.
        counted: whether its events were looked for: not where very much is not committed.
    """

    arrived: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()
    halted: str | None = None
    owner: str | None = None
    status: WorkStatus = field(default_factory=WorkStatus)
    counted: bool = True

    @property
    def away(self) -> str | None:
        """What the database said, if that is away and there may be work of the stream for it."""
        return self.status.away if self.arrived or not self.counted else None


@dataclass(frozen=True, slots=True)
class StageTally:
    """What `Topology.parallel` declares: a second stage alone. work: its partitions."""

    name: str
    work: tuple[WorkTally, ...]

    @property
    def troubles(self) -> list[Trouble]:
        """What is not well with it."""
        counts = committed_counts(Counts(), self.work)
        return [*troubles(self.name, counts, {}, ()), *work_troubles(self.name, self.work)]


def committed_counts(counts: Counts, work: Sequence[WorkTally]) -> Counts:
    """A view's counts: what its first stage takes for processed may not be committed."""
    names = ("failed", "dead", "unrouted", "malformed", "written")
    failed, dead, unrouted, malformed, written = (
        sum(getattr(each.status, name) or 0 for each in work) for name in names
    )
    parked, arrived = sum(each.parked for each in work), sum(each.arrived for each in work)
    return replace(
        counts,
        processed=max(0, counts.processed - arrived - parked - failed - dead - malformed),
        parked=counts.parked + parked,
        failed=counts.failed + failed,
        dead=counts.dead + dead,
        unrouted=counts.unrouted + unrouted,
        written=counts.written + written,
    )


def work_troubles(view: str, work: Sequence[WorkTally]) -> list[Trouble]:
    """What is not well with the workers of a view."""
    whose, found = f"workers of view {view}", []
    for each in work:
        if each.status.halted:
            why = printable(each.status.halted, 300)
            found.append(Trouble(whose, HALTED, f"halted in partition {each.number}: {why}"))
        if each.away:
            why = printable(each.away, 300)
            told = f"its database is away in partition {each.number}: {why}"
            found.append(Trouble(whose, STILL, told))
        elif each.still:
            told = (
                f"stand still in partition {each.number}, with {counted(each.arrived, 'event')} "
                "not committed: the worker's log says why, as a database or a disk, or a handler "
                "that does not end; if it may take so long, declare time_limit"
            )
            found.append(Trouble(whose, STILL, told))
        if malformed := each.status.malformed:
            what = counted(malformed, "message is", "messages are")
            told = f"{what} in the malformed topic, from partition {each.number}"
            found.append(Trouble(whose, MALFORMED, told))
        if lost := each.status.counts.get("lost"):
            what = counted(lost, "offset was", "offsets were")
            told = f"{what} deleted by retention before they were done, in partition {each.number}"
            found.append(Trouble(whose, LOST, told))
    if nobody := [str(each.number) for each in work if each.owner is None]:
        which = ", ".join(nobody)
        found.append(Trouble(whose, UNASSIGNED, f"no worker has partitions {which}"))
    return found


def work_text(view: str, work: Sequence[WorkTally]) -> list[str]:
    """The workers of a view, a line for each partition."""
    return [f"workers of view {view}, partition {each.number}: {_line(each)}" for each in work]


def _line(each: WorkTally) -> str:
    status, counts = each.status, each.status.counts
    most = "" if each.counted else "at most "
    told = f"{most}{each.arrived} arrived and not committed"
    if each.ahead:
        told += f", {each.ahead} done ahead of them"
    if status.when:
        told += (
            f"; {since(each.now, status.when)}: {status.waiting} not begun, {status.running} in "
            f"hand, {status.staged} done and waiting for their turn"
        )
    if status.paused:
        told += ", reading paused"
    happened = [f"{counts[name]} {text}" for name, text in _HAPPENED.items() if counts.get(name)]
    if each.parked:
        happened.append(f"{each.parked} parked in {counted(each.streams, 'stream')}")
    return f"{told}; {', '.join(happened)}" if happened else told


_HAPPENED = {
    "committed": "committed",
    "rolled_back": "rolled back",
    "failed": "attempts failed",
    "timed_out": "over the time limit",
    "paused": "times reading paused",
}
