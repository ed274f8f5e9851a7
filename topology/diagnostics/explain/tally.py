"""Each view's counts, and whether their sum is what came in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from topology.diagnostics.explain.bad_news import PLACES, Trouble, troubles
from topology.diagnostics.explain.work_tally import WorkTally, committed_counts, work_troubles
from topology.model.counted import counted
from topology.model.counts import Counts


@dataclass(frozen=True, slots=True)
class PartitionTally:
    """A view in one partition.

    position: the input offset that it reads next. lag: offsets from there to the input's end.
    apart: whether it reads apart from the others. low, high: how many events there were before its
    position, at least and at most: the two differ where that was not counted, or while it changes.
    high is None where events may come again (at least once). owner: None if nobody has it. still:
    whether it stands still, though its worker has something to read.
    """

    number: int
    counts: Counts
    position: int
    lag: int
    apart: bool
    halted: str | None
    low: int
    high: int | None
    owner: str | None
    still: bool = False


@dataclass(frozen=True, slots=True)
class ViewTally:
    """A view over all partitions. came_low, came_high: as `low` and `high` of its partitions.

    work: of a view with workers, its second stage; what has arrived there and is not committed is
    not in `counts`. lag: offsets that are left, those included that are not re-keyed yet. halted:
    partition → reason. apart, unassigned, still: partitions. wrong: what does not add up, by
    partition; nothing if all does. positions: partition → (the offset that it reads next, the
    input's end).
    """

    view: str
    source: str
    counts: Counts
    came_low: int
    came_high: int | None
    lag: int
    halted: dict[int, str]
    apart: tuple[int, ...]
    unassigned: tuple[int, ...]
    wrong: tuple[str, ...]
    still: tuple[int, ...] = ()
    work: tuple[WorkTally, ...] = ()
    positions: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def adds_up(self) -> bool:
        """Whether every event that came is in exactly one place."""
        return not self.wrong

    @property
    def troubles(self) -> list[Trouble]:
        """What is not well with it, though it adds up."""
        first = troubles(self.view, self.counts, self.halted, self.unassigned, self.still)
        return [*first, *work_troubles(self.view, self.work)]

    @property
    def arrived(self) -> int:
        """How many events wait for the workers, or are with them."""
        return sum(each.arrived for each in self.work)

    @property
    def verdict(self) -> str:
        """The same in a line. Of what is in the places, it names what should not be there."""
        counts = self.counts
        if self.wrong:
            return f"view {self.view} does NOT add up: {'; '.join(self.wrong)}"
        came = _between(self.came_low, self.came_high)
        malformed = sum(each.status.malformed for each in self.work)
        placed = counts.accounted - counts.redriven + self.arrived + malformed
        places = f"{came} came, {placed} in its places"
        if self.arrived:
            places += f", of them {self.arrived} arrived and not committed"
        bad = [f"{number} {n}" for n in PLACES if (number := getattr(counts, n))]
        bad += [f"{malformed} malformed"] if malformed else []
        named = f"; but {', '.join(bad)}" if bad else ""
        return f"view {self.view} adds up: {places}{named}"


def tally(
    view: str,
    source: str,
    partitions: Sequence[PartitionTally],
    unkeyed: int = 0,
    work: tuple[WorkTally, ...] = (),
) -> ViewTally:
    """Sum a view up.

    unkeyed: offsets of its source's topics that are not re-keyed yet. work: its second stage.
    """
    total = Counts()
    for each in partitions:
        total += each.counts
    highs = [each.high for each in partitions]
    return ViewTally(
        view,
        source,
        committed_counts(total, work) if work else total,
        sum(each.low for each in partitions),
        None if None in highs else sum(high for high in highs if high is not None),
        sum(each.lag for each in partitions) + unkeyed,
        {each.number: each.halted for each in partitions if each.halted},
        tuple(each.number for each in partitions if each.apart),
        tuple(each.number for each in partitions if each.owner is None),
        tuple(wrong for each in partitions for wrong in discrepancies(each)),
        tuple(each.number for each in partitions if each.still),
        work,
        {each.number: (each.position, each.position + each.lag) for each in partitions},
    )


def discrepancies(partition: PartitionTally) -> list[str]:
    """What does not add up in one partition."""
    counts, where = partition.counts, f"partition {partition.number}"
    found: list[str] = []
    if counts.accounted != counts.received:
        found.append(
            f"{where}: {counted(counts.received, 'event')} received, {counts.accounted} in "
            "its places"
        )
    came = _between(partition.low, partition.high)
    if counts.came < partition.low:
        found.append(
            f"{where}: {came} came before offset {partition.position}, {counts.came} "
            f"were received, {partition.low - counts.came} missing"
        )
    if partition.high is not None and counts.came > partition.high:
        found.append(
            f"{where}: {came} came before offset {partition.position}, {counts.came} "
            f"were received, {counts.came - partition.high} too many"
        )
    return found


def came_apart(position: int, committed: int, events: int, between: int | None) -> tuple[int, int]:
    """(least, most) events before a position that is not the group's.

    committed, events: the group's offset, and the events before it. between: how many events there
    are between the two, None if that was not counted.
    """
    most = abs(committed - position) if between is None else between
    least = 0 if between is None else between
    if position <= committed:
        return events - most, events - least
    return events + least, events + most


def came_since(began: int, position: int, low: int, high: int, seen: int | None) -> tuple[int, int]:
    """(least, most) events that a view could see which began at an offset above 0.

    low, high: how many came before its position in all. seen: how many there are since it began,
    None if that was not counted.
    """
    if seen is not None:
        return seen, seen
    return max(0, low - began), min(high, max(0, position - began))


def _between(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} or more events"
    return counted(low, "event") if low == high else f"{low} to {high} events"
