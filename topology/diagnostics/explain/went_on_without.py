"""What a stream went on without, and what of it lies in the dead topic."""

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from topology.diagnostics.explain.stream_context import SetAside, StreamContext
from topology.engine.redelivery.records import AT_WORKERS, GONE
from topology.sequencer.progress import Progress, may_be_skipped
from topology.sequencer.sequencer import Ordering

_BY_HAND = re.compile(" (unparked its stream|skipped up to|dropped its stream) ?")
"""In the reason of an event that a command sent to the dead topic: it was meant to be passed."""

Ranges = tuple[tuple[int, int], ...]
"""(first, last) of sequences that follow each other."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Where the events of a stream are that its view did not handle, or not in their place.

    ahead: in the dead topic, and not passed yet: the stream waits for them. lost: in the dead
    topic, and the stream went on without them. back: were in the dead topic, and were put back, or
    came another time. failed: passed over, as their handler failed. late: came after they were
    given up. skipped: given up, and they never came; ranges.
    """

    ahead: tuple[SetAside, ...] = ()
    lost: tuple[SetAside, ...] = ()
    back: tuple[SetAside, ...] = ()
    failed: tuple[SetAside, ...] = ()
    late: tuple[int, ...] = ()
    skipped: Ranges = ()

    @property
    def recoverable(self) -> tuple[SetAside, ...]:
        """Those ahead that can be put back. Of the others nobody has the bodies: they are missing
        again."""
        return tuple(filter(can_be_put_back, self.ahead))

    def __bool__(self) -> bool:
        """Whether the stream went on without something."""
        return bool(self.lost or self.failed or self.late or self.skipped)


def passed(
    progress: int | Progress,
    last: int,
    here: Iterable[int],
    context: StreamContext,
    ordering: Ordering,
) -> Passed:
    """Sort what the side topics have. here: the sequences that wait or are in redelivery.

    An event that is farther ahead of its stream than `ordering` has it be is not waited for.
    """
    there, reach = set(here), ordering.jump
    ahead: list[SetAside] = []
    lost: list[SetAside] = []
    back: list[SetAside] = []
    skipped = progress.skipped if isinstance(progress, Progress) else ()
    for each in context.dead:
        sequence = each.sequence or 0
        if each.again or sequence in there:
            back.append(each)
        elif each.reason.endswith(AT_WORKERS):
            # The first stage has passed it, even where it has forgotten its stream since.
            lost.append(each)
        elif last < sequence <= last + reach and not by_hand(each):
            ahead.append(each)
        elif sequence > last or may_be_skipped(progress, sequence):
            # What the ring had no room for is in front of the stream when it dies: it was passed
            # because it came another time, or because it was given up.
            lost.append(each)
        else:
            back.append(each)
    late = {a.sequence for a in context.late if a.sequence is not None}
    told = {each.sequence for each in lost} | late
    rest = tuple(_but(skipped, told, ordering.step))
    if below := progress.below if isinstance(progress, Progress) else ():
        rest = tuple(r for r in rest if not any(a <= r[0] and r[1] <= b for a, b in below))
    else:
        rest = _since_it_began(rest, told, ordering)
    return Passed(tuple(ahead), tuple(lost), tuple(back), context.failed, tuple(sorted(late)), rest)


def _since_it_began(skipped: Ranges, late: Container[int | None], ordering: Ordering) -> Ranges:
    """What was given up, but for what is below the event that a stream was joined at, where its
    row does not say what that is.

    Where gaps are given up, a stream whose opening event never came begins without it: that is
    given up like any other.
    """
    joined = ordering.open_after is not None or (ordering.opens and ordering.skip_after is None)
    if not joined:
        return skipped
    expected, kept = ordering.start, []
    for first, last in sorted(skipped):
        # What came of it since is no longer in its range.
        while expected < first and expected in late:
            expected += ordering.step
        if first == expected:
            expected = last + ordering.step
        else:
            kept.append((first, last))
    return tuple(kept)


def by_hand(dead: SetAside) -> bool:
    """Whether a command sent an event to the dead topic."""
    return _BY_HAND.search(dead.reason) is not None


def can_be_put_back(dead: SetAside) -> bool:
    """Whether its stream would get an event of the dead topic again."""
    return dead.reason != GONE and not dead.reason.endswith(AT_WORKERS)


def _but(ranges: Ranges, told: Iterable[int | None], step: int) -> Iterator[tuple[int, int]]:
    """The ranges without the sequences that are told of already."""
    known = sorted(each for each in told if each is not None)
    for first, last in ranges:
        for each in known:
            if first <= each <= last:
                if first < each:
                    yield first, each - step
                first = each + step
        if first <= last:
            yield first, last


def ranges_of(sequences: Iterable[int], step: int = 1) -> Ranges:
    """Sequences as ranges of those that follow each other."""
    found: list[tuple[int, int]] = []
    for sequence in sorted(set(sequences)):
        if found and sequence <= found[-1][1] + step:
            found[-1] = found[-1][0], sequence
        else:
            found.append((sequence, sequence))
    return tuple(found)


NOTHING = Passed()
