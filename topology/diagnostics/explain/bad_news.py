"""What of a view is not well, though it adds up."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from topology.model.counts import Counts
from topology.model.printable import printable

PLACES = {
    "dead": "in the dead topic",
    "failed": "passed over, as the handler failed",
    "late": "late",
    "parked": "parked",
    "skipped": "skipped",
}
"""Counts that are not to be passed over in silence, and what is said of them."""
HALTED, UNASSIGNED, MALFORMED, STILL = "halted", "unassigned", "malformed", "still"
LOST = "lost"
"""What retention deleted before the workers of a view had done it."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is not well. place: a count of `Counts`, or one of the words above."""

    whose: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.whose}: {self.what}"


def troubles(
    view: str,
    counts: Counts,
    halted: Mapping[int, str],
    unassigned: Collection[int],
    still: Collection[int] = (),
) -> list[Trouble]:
    """What is not well with a view.

    Args:
        view: its name.
        counts: over all partitions.
        halted: partition → reason.
        unassigned: partitions that no worker has.
        still: partitions in which nothing moves, though a worker has them and there is input.
    """
    whose = f"view {view}"
    found = [
        Trouble(whose, HALTED, f"halted in partition {number}: {printable(reason, 300)}")
        for number, reason in halted.items()
    ]
    if unassigned:
        which = ", ".join(map(str, unassigned))
        found.append(Trouble(whose, UNASSIGNED, f"no worker has partitions {which}"))
    if still:
        which = ", ".join(map(str, still))
        found.append(
            Trouble(
                whose,
                STILL,
                f"stands still in partitions {which}, with messages to read: the worker's log says "
                "why, as a full disk or a handler that does not end",
            )
        )
    for place, what in PLACES.items():
        if number := getattr(counts, place):
            things = "sequence" if place == "skipped" else "event"
            many = "" if number == 1 else "s"
            found.append(Trouble(whose, place, f"{number} {things}{many} {what}"))
    return found
