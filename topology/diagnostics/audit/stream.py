"""One stream in one view: each of its events in one place, and nothing passed over unrecorded."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topology.declaration.orders import Contiguous, StreamOrder
from topology.diagnostics.audit.sequences import NONE, Sequences

TOLD = 10_000
"""Events of a stream that the parked topic is told of when the stream is parked."""

_CONTIGUOUS = Contiguous()


class Discrepancy(NamedTuple):
    """number: of the event. sure: whether a crash at least once cannot have caused it."""

    number: int
    what: str
    sure: bool = True


@dataclass(slots=True)
class Stream:
    """All that is known of a stream, as numbers from 0 on in the order of its events.

    came: that the view has read. last: processed last, -1 if none was. skipped: that it gave up,
    as far as it remembers. forgot: the highest of those that it does not, -1 if none. waits: that
    have a row. done: that have an output, or are of a kind that is not accepted. away: in the
    redelivery topic. redriven: dead once, and put back. told: that the parked topic has. choosy:
    whether the view does not accept all kinds. closed: whether an event came that closes it, behind
    which all is late. rebuilt: whether the stream was, with all that came. order: what is known of
    its numbers: that none is left out; or which one is before each, and `unlinked`, which of these
    never came → the events that name them; or that they grow. jumped: what links lead over, which
    may have come when the stream was past it.
    """

    came: Sequences = NONE
    last: int = -1
    skipped: Sequences = NONE
    forgot: int = -1
    waits: Sequences = NONE
    done: Sequences = NONE
    away: Sequences = NONE
    late: Sequences = NONE
    failed: Sequences = NONE
    dead: Sequences = NONE
    redriven: Sequences = NONE
    told: Sequences = NONE
    parked: bool = False
    choosy: bool = False
    closed: bool = False
    rebuilt: bool = False
    order: StreamOrder = _CONTIGUOUS
    unlinked: Mapping[int, list[int]] = field(default_factory=dict)
    jumped: Sequences = NONE

    @property
    def passed(self) -> Sequences:
        """What is at or below the last processed sequence, whether it came or not."""
        return Sequences([(0, self.last + 1)])

    @property
    def waiting(self) -> Sequences:
        """What waits; rows of what is processed already are only not deleted yet."""
        return self.waits - self.passed

    @property
    def recorded(self) -> Sequences:
        """What the view, or one of its topics, tells of."""
        elsewhere = self.late | self.failed | self.dead | self.redriven | self.told
        return (self.passed - self.skipped) | self.waits | self.done | self.away | elsewhere

    @property
    def missing(self) -> Sequences:
        """What never came, and is passed, where all numbers are there to come."""
        return self.passed - self.came if self.order.counts else NONE

    @property
    def doubtful(self) -> Sequences:
        """What died or is away, and yet may have been handled, if it came more than once."""
        away = self.dead | self.redriven | self.away
        found = (away | self.jumped) & self.came & self.passed
        known = self.skipped | self.late | self.failed
        # Of a view that is choosy, what is done may only be of a kind that it does not accept.
        # And a rebuild handles what came when the stream was past it, and was discarded then.
        done = self.done - self.jumped if self.rebuilt else self.done
        known = known if self.choosy else known | done
        # What merely settles is late too if it is a copy of what was handled long ago.
        copies = self._perhaps_copies
        return (found | copies) - (known - copies)

    @property
    def perhaps_uncounted(self) -> Sequences:
        """What failed when its stream was rebuilt, and may have been discarded in its time.

        The rebuild counts it as processed no more; nobody remembers that it was a duplicate.
        """
        return self.failed & self.jumped & self.passed if self.rebuilt else NONE

    @property
    def _perhaps_copies(self) -> Sequences:
        """What is late, and yet may have been handled before, if another copy is late."""
        if not self.order.settles:
            # What died is late when it is put back, if its stream has passed it by then.
            return self.redriven & self.late & self.came & self.passed
        found = self.late & self.came & self.passed
        return found if self.choosy else found - self.done - self.failed

    @property
    def handled(self) -> Sequences:
        """What was surely processed, or passed by."""
        elsewhere = self.skipped | self.late | self.failed
        if self.order.settles and not self.choosy:
            elsewhere -= self.done - self.failed
        return (self.came & self.passed) - elsewhere - self.doubtful

    @property
    def silent(self) -> Sequences:
        """What was processed and has no output."""
        return self.handled - self.done

    @property
    def forgetful(self) -> bool:
        """Whether it has given up more than is remembered."""
        return self.forgot >= 0

    def wrong(self) -> Iterator[Discrepancy]:
        """What is not as promised, in words."""
        passed, elsewhere = self.passed, self.dead | self.away
        over = self.late if self.closed else NONE
        yield from _each(self.waiting - self.came, "it waits, but it never came")
        yield from _each(
            self.came - passed - self.waits - elsewhere - over,
            "it came and is nowhere: the view has not processed it, and it does not wait",
        )
        lost = self.missing - self.skipped
        if self.forgetful:
            lost -= Sequences([(0, self.forgot + 1)])
        yield from _each(lost, "it never came and no skip is recorded, but the view is past it")
        if self.order.links:
            yield from self._broken_links()
        yield from _each(
            (self.came & self.skipped) - elsewhere - self.late,
            "it came, is recorded as skipped, and is not in the late topic",
        )
        yield from _each(self.done - self.came, "it has an output, but it never came")
        copies = self.choosy or self.order.settles
        ended = self.failed if copies else self.failed | self.late
        # A rebuild takes in what was late or failed when its view had another policy for the late.
        ended = NONE if self.rebuilt else ended
        yield from _each(
            (ended - self.redriven) & self.done,
            "it has an output, and is in the late or error topic too",
            sure=False,
        )
        if self.parked and len(self.waiting) <= TOLD:
            yield from _each(
                self.waiting - self.told, "it is parked, and the parked topic lacks it"
            )

    def _broken_links(self) -> Iterator[Discrepancy]:
        """Events that were handled though their predecessor never came, and was not given up."""
        handled, moved = self.handled, (self.came & self.passed) - self.late
        for previous, events in sorted(self.unlinked.items()):
            if previous in self.skipped or previous <= self.forgot:
                continue
            for number in sorted(events):
                before = moved.below(number)
                # One that is behind already is not waited for.
                if number in handled and not (before and before.bounds[-1] > previous):
                    what = "its predecessor never came and no skip is recorded, but it was handled"
                    yield Discrepancy(number, what)

    def unread(self) -> Iterator[Discrepancy]:
        """What topics tell of, though the view has not processed it; nothing may be in flight."""
        late = NONE if self.closed else self.late
        ended = (late | self.failed) - (self.came & self.passed)
        yield from _each(
            ended, "it is in the late or error topic, but was not processed", sure=False
        )


def _each(numbers: Sequences, what: str, *, sure: bool = True) -> Iterator[Discrepancy]:
    """The first number of each range."""
    for first, _ in numbers:
        yield Discrepancy(first, what, sure)
