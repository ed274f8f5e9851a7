"""What each source brought, and whether what was re-keyed is what was read."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from topology.diagnostics.explain.bad_news import MALFORMED, PLACES, STILL, UNASSIGNED, Trouble
from topology.engine.intake import IntakeCounts, sum_of
from topology.model.counted import counted
from topology.model.printable import printable

SHARE = 0.01
"""The share of malformed messages, of the latest, from which on a source is not well, unless told
otherwise."""


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """What a source brought.

    taken: of the source's topics, None where they are the views' input themselves. read: of the
    views' input, by the views that read together. unkeyed, unread: offsets that are left in the
    one and the other. wrong: what does not add up, None if all does. sample: why a message of it
    was malformed lately, None where that is not known. routed: whether it is what a stage routes;
    unknown messages of that are those without a destination. positions: partition of the source's
    topics → (the offset that is re-keyed next, its end); nothing where none has to be. still:
    partitions of its topics in which nothing moves, though a worker has them and there is something
    to re-key, or to route. held: where in these, or in the views' input, an open transaction hides
    what there is, in words. unassigned: partitions of what a stage routes that no worker has.
    """

    source: str
    taken: IntakeCounts | None
    read: IntakeCounts
    unkeyed: int
    unread: int
    wrong: str | None
    sample: str | None = None
    routed: bool = False
    positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    still: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    unassigned: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """What it is, and its name."""
        return f"{'route' if self.routed else 'source'} {self.source}"

    @property
    def malformed(self) -> int:
        """Messages that no event could be made of."""
        return self.read.malformed + (self.taken.malformed if self.taken else 0)

    @property
    def share(self) -> float:
        """The malformed ones' share of the latest messages, 0 to 1."""
        taken = self.taken.recent_share if self.taken else 0.0
        return taken + (1 - taken) * self.read.recent_share

    def troubles(self, share: float = SHARE) -> list[Trouble]:
        """What is said of partitions that are held, stand still or have no worker, of parked
        messages, and of malformed ones if their share is this large."""
        found = [
            Trouble(self.named, STILL, f"{each}: nothing behind that is read until it ends")
            for each in self.held
        ]
        if self.still:
            what = (
                f"stands still in {', '.join(self.still)}, with messages to read: the worker's log "
                "says why"
            )
            found.append(Trouble(self.named, STILL, what))
        if self.unassigned:
            which = ", ".join(self.unassigned)
            found.append(Trouble(self.named, UNASSIGNED, f"no worker has {which}"))
        if self.read.parked:
            what = f"{counted(self.read.parked, 'message')} {PLACES['parked']}"
            found.append(Trouble(self.named, "parked", what))
        if self.share and self.share >= share:
            sample = f"; lately: {printable(self.sample, 300)}" if self.sample else ""
            told = f"{self.share:.2%} of the latest messages are malformed, {self.malformed} in all"
            found.append(Trouble(self.named, MALFORMED, told + sample))
        return found


def source_totals(
    source: str,
    taken: IntakeCounts | None,
    read: IntakeCounts,
    unkeyed: int,
    unread: int,
    *,
    exactly_once: bool = True,
) -> SourceTotals:
    """Compare what was re-keyed with what was read of it."""
    wrong = None
    if taken is not None and exactly_once and not 0 <= taken.events - read.read <= unread:
        wrong = (
            f"source {source}: {taken.events} events were re-keyed, {read.read} of them are read "
            f"and {unread} at most are unread"
        )
    return SourceTotals(source, taken, read, unkeyed, unread, wrong)


def route_totals(
    route: str, routed: Iterable[IntakeCounts], unread: int, unassigned: Iterable[str] = ()
) -> SourceTotals:
    """What a stage has routed. routed: of its topics' partitions."""
    return SourceTotals(
        route, None, sum_of(routed), 0, unread, None, routed=True, unassigned=tuple(unassigned)
    )
