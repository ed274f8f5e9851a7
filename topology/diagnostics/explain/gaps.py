"""The gap ledger: what is missing in which stream of which view, the oldest first."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from types import MappingProxyType

from topology.diagnostics.explain.bad_news import Trouble
from topology.diagnostics.explain.missing import Missing, missing
from topology.engine.view_task import ViewTask
from topology.model.counts import saturated
from topology.sequencer.ordering import Ordering
from topology.sequencer.progress import Progress

NOBODY: Mapping[str, Collection[int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OpenGap:
    """A stream that misses something in a view.

    last: the last processed sequence. missing: the first ranges of `ranges`. count: how many
    sequences are missing in all, None where the order does not say. since: when the gap was noticed
    (ms). waiting: how many events wait in the stream, away: how many are in redelivery, dead: how
    many of those that it waits for are in the dead topic. parked: whether it is set aside besides.
    due: when the gap is given up, None if never.
    """

    view: str
    partition: int
    stream: str
    last: int
    missing: tuple[Missing, ...]
    ranges: int
    count: int | None
    since: int
    waiting: int
    parked: bool
    due: int | None
    redelivering: int = 0
    dead: int = 0


def open_gaps(
    task: ViewTask,
    partition: int,
    away: Mapping[str, Collection[int]],
    dead: Mapping[str, Collection[int]] = NOBODY,
) -> Iterator[OpenGap]:
    """The gaps of a view in one partition.

    task: made of the rows that `of_waiting` keeps. away, dead: stream → sequences in redelivery,
    and in the dead topic: they are not missing. A stream that waits for a dead one has a gap, too.
    """
    ordering = task.state.ordering
    for stream, progress in task.state.waiting.items():
        here = (event.sequence for event in task.state.waits(stream))
        found = open_gap(
            task.view.name, partition, stream, progress, here, ordering, away.get(stream, ()),
            dead.get(stream, ()), waiting=progress.waiting,
        )  # fmt: skip
        if found is not None:
            yield found


def open_gap(
    view: str, partition: int, stream: str, progress: Progress, here: Iterable[int],
    ordering: Ordering, away: Collection[int] = (), dead: Collection[int] = (), *,
    waiting: int | None = None,
) -> OpenGap | None:  # fmt: skip
    """What a stream that waits misses; None if that is nothing.

    Args:
        view: its name.
        partition: its number.
        stream: the stream's id.
        progress: of the stream; without its events where the order counts.
        here: the sequences that wait, sorted.
        ordering: of the view.
        away: the stream's sequences in redelivery.
        dead: the stream's sequences in the dead topic.
        waiting: how many wait; as many as `here` has unless given.
    """
    last = progress.last
    gone = {sequence for sequence in away if sequence > last}
    died = {sequence for sequence in dead if sequence > last} - gone
    if waiting is None:
        here = list(here)
        waiting = len(here)
    if gone or died:
        there = set(here)
        gone, died = gone - there, died - there
        here = sorted(there | gone | died)
    # An order that counts does not ask.
    goes_on = progress.suspended or (not ordering.counts and ordering.can_go_on(progress))
    counted = _Counted(iter(here))
    found, ranges = missing(ordering, last, counted, can_go_on=goes_on)
    if not (found or died):
        return None
    count: int | None = None
    if ordering.counts:
        count = (counted.highest - last) // ordering.step - counted.number
    due = None if progress.suspended else ordering.deadline(progress)
    return OpenGap(
        view, partition, stream, last, tuple(found), ranges, count, progress.since, waiting,
        progress.held, due, len(gone), len(died),
    )  # fmt: skip


class _Counted:
    """Sequences that go by, in order."""

    def __init__(self, sequences: Iterator[int]) -> None:
        self._sequences = sequences
        self.number = 0
        self.highest = 0

    def __iter__(self) -> Iterator[int]:
        for sequence in self._sequences:
            self.number += 1
            self.highest = sequence
            yield sequence


@dataclass(slots=True)
class Ledger:
    """The oldest `limit` gaps of those that are entered; the rest is counted only.

    now: the workers' clock (ms). streams: how many streams have gaps; a stream counts in each view.
    sequences: how many are missing in all, as far as the orders say. troubles: what else is not
    well with the views. unread: offsets that are not read yet. unseen: what was not looked at, in
    words.
    """

    now: int
    limit: int
    gaps: list[OpenGap] = field(default_factory=list)
    streams: int = 0
    sequences: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    unread: int = 0
    unseen: list[str] = field(default_factory=list)

    def enter(self, gaps: Iterable[OpenGap]) -> None:
        """Take gaps in."""
        found = list(gaps)
        self.streams += len(found)
        self.sequences = saturated(self.sequences + sum(gap.count or 0 for gap in found))
        self.gaps = nsmallest(
            self.limit, [*self.gaps, *found], key=lambda one: (one.since, one.view, one.stream)
        )
