"""How far a view is in a stream: the last processed sequence, and what waits behind a gap."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from topology.model.event import Event
from topology.sequencer.ring import RingBuffer

SKIPPED_KEPT = 32
"""Ranges of given-up sequences remembered per stream; they tell late from duplicate."""
FAILED_KEPT = 1000
"""Failed sequences remembered per stream that may be rebuilt: they do not fail for the first time
there."""
RECENT_KEPT = 16
"""Sequences remembered per stream of an order without a count; they tell duplicate from late."""


class PendingRetry(NamedTuple):
    """A failed event is to be tried again: how often it was so far, and when it is due (ms).

    delay: how long that was from its failure (ms), 0 where a row of before does not say so.
    """

    attempts: int
    due: int
    delay: int = 0


@dataclass(slots=True)
class Progress:
    """The progress of a stream that waits, or that has skipped; any other stream's is an int.

    last: the last processed sequence. ring: the events that wait, or None. spilled: how many wait
    as rows beyond the ring; those up to sequence `loaded` are in it already. since: when the gap in
    front of them was noticed (ms). skipped: ranges (first, last) that were given up, newest last.
    held: whether the stream is set aside: whatever is above `last` waits. retry: when a held stream
    is to go on by itself. rejected: of a stream that waits, when an event was sent to come again
    last (ms), 0 if none was. recent: the latest sequences that were released or late, newest last,
    in an order that has no other way to know them. closed: when a closed stream is forgotten (ms).
    failed: the latest sequences whose handler failed and that the stream went on without, newest
    last, where streams are rebuilt; sent: those of them that had been handled before a rebuild, so
    that what they emit is sent. epoch: how often the stream was rebuilt or dropped. rebuild: the
    late events that it is to be rebuilt with, by their sequences: it waits for that. anew: the
    input offset that its history begins at, as it was dropped there. below: those of the skipped
    ranges, whole, that are before an event that the stream began with: nothing was missing there.
    forgot: the highest of the given-up sequences that are no longer remembered; None: all are. row:
    what the stream's row says of all this, where that is known, so that it is not written again.

    Where streams are rebuilt, what came and is at or below `last` was handled, unless it is in
    `skipped`, `failed` or `rebuild`: late and dead events are in `skipped` until they are handled.
    """

    last: int
    ring: RingBuffer | None = None
    spilled: int = 0
    since: int = 0
    loaded: int = 0
    skipped: tuple[tuple[int, int], ...] = ()
    held: bool = False
    retry: PendingRetry | None = None
    rejected: int = 0
    recent: tuple[int, ...] = ()
    closed: int | None = None
    epoch: int = 0
    rebuild: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    sent: tuple[int, ...] = ()
    anew: int = 0
    below: tuple[tuple[int, int], ...] = ()
    forgot: int | None = None
    row: bytes | None = field(default=None, compare=False, repr=False)

    @property
    def waiting(self) -> int:
        """Events that wait, in the ring and beyond it."""
        return self.spilled if self.ring is None else self.spilled + len(self.ring.slots)

    @property
    def suspended(self) -> bool:
        """Whether nothing is released, whatever comes."""
        return self.held or bool(self.rebuild)

    def copy(self) -> "Progress":
        """One to change, with a ring of its own."""
        ring = self.ring
        return replace(self, ring=ring.copy() if ring is not None and ring.slots else None)

    def plain(self) -> "int | Progress":
        """Itself, without an empty ring; an int if there is nothing more to say than `last`."""
        if self.ring is not None and not self.ring.slots:
            self.ring = None
        if self.ring is not None or self.spilled or self.skipped or self.held:
            return self
        if self.epoch or self.rebuild or self.failed or self.anew or self.closed is not None:
            return self
        more = self.retry or self.recent or self.below or self.forgot is not None
        return self if more else self.last

    def add_skipped(self, first: int, last: int) -> None:
        """Give sequences up that are above all that were before."""
        self._keep((*self.skipped, (first, last)))

    def _keep(self, ranges: tuple[tuple[int, int], ...]) -> None:
        """Remember these, in order, as given up, and of too many that the lowest are forgotten."""
        if len(ranges) > SKIPPED_KEPT:
            highest = ranges[-SKIPPED_KEPT - 1][1]
            self.forgot = highest if self.forgot is None else max(self.forgot, highest)
        self.skipped = ranges[-SKIPPED_KEPT:]

    def begin_behind(self, last: int, step: int) -> None:
        """The stream begins, or begins again, behind a sequence: what is up to there is late."""
        if last > self.last:
            self.add_skipped(self.last + step, last)
            self.below = (*self.below, self.skipped[-1])[-SKIPPED_KEPT:]

    def restore_skipped(self, sequences: Iterable[int], step: int) -> None:
        """What was struck off is not handled after all: its next copy is late again."""
        kept: list[tuple[int, int]] = []
        for first, last in sorted([*self.skipped, *((each, each) for each in sequences)]):
            if kept and first <= kept[-1][1] + step:
                kept[-1] = kept[-1][0], max(kept[-1][1], last)
            else:
                kept.append((first, last))
        self._keep(tuple(kept))

    def add_failed(self, sequences: Iterable[int]) -> None:
        self.failed = (*self.failed, *sequences)[-FAILED_KEPT:]

    def strike_failed(self, sequences: Collection[int]) -> None:
        """They were handled after all."""
        self.failed = tuple(each for each in self.failed if each not in sequences)
        self.sent = tuple(each for each in self.sent if each not in sequences)

    def remember(self, sequence: int) -> None:
        self.recent = (*self.recent, sequence)[-RECENT_KEPT:]

    def has_skipped(self, sequence: int) -> bool:
        """Whether `sequence` was given up, and has not come since."""
        return any(first <= sequence <= last for first, last in self.skipped)

    def has_forgotten(self, sequence: int) -> bool:
        """Whether it is no longer known that `sequence` was given up, if it was."""
        return self.forgot is not None and sequence <= self.forgot

    def strike_skipped(self, sequence: int, step: int) -> None:
        """Strike off a sequence that came late: its next copy is a duplicate."""
        for at, (first, last) in enumerate(self.skipped):
            if first <= sequence <= last:
                rest = [(first, sequence - step)] if first < sequence else []
                rest += [(sequence + step, last)] if sequence < last else []
                self._keep((*self.skipped[:at], *rest, *self.skipped[at + 1 :]))
                return


class State(Protocol):
    """What the sequencer reads of a view's state; the Progress that it is given it may change."""

    @property
    def progress(self) -> Callable[[str], "int | Progress"]:
        """Stream → progress; a stream not seen before is at `start - step`."""

    def spilled(self, stream: str, first: int, last: int) -> Iterable[Event]:
        """The stream's events that wait as rows, with first ≤ sequence ≤ last, in sequence."""


def last_of(progress: "int | Progress") -> int:
    """The last processed sequence."""
    return progress if isinstance(progress, int) else progress.last


def was_skipped(progress: "int | Progress", sequence: int) -> bool:
    """Whether a sequence was given up, and has not come since."""
    return isinstance(progress, Progress) and progress.has_skipped(sequence)


def may_be_skipped(progress: "int | Progress", sequence: int | None) -> bool:
    """Whether a sequence was given up, as far as it is remembered."""
    if isinstance(progress, int):
        return False
    return progress.has_forgotten(sequence or 0) or progress.has_skipped(sequence or 0)


def may_be_lost(progress: "int | Progress", event: Event) -> bool:
    """Whether an event that was dead may not have been handled, though no skip of it is known.

    Any other that its stream has passed came another time meanwhile, and was handled then.
    """
    if isinstance(progress, int) or not event.was_dead:
        return False
    return progress.has_forgotten(event.sequence)


def note_failed(changed: "dict[str, int | Progress]", events: Iterable[Event]) -> None:
    """Remember events whose handler failed with their streams, which went on. changed: by them."""
    for event in events:
        writable(changed, event.stream).add_failed([event.sequence])


def writable(changed: "dict[str, int | Progress]", stream: str) -> Progress:
    """The progress of one of the streams that a step changed, to change it further."""
    progress = changed[stream]
    if isinstance(progress, int):
        progress = changed[stream] = Progress(progress)
    return progress
