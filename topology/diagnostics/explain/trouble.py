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
    "skipped": "given up",
}
"""Counts that are not to be passed over in silence, and what is said of them."""
HALTED, UNASSIGNED, MALFORMED = "halted", "unassigned", "malformed"


@dataclass(frozen=True, slots=True)
class Trouble:
    """place: a count of `Counts`, or 'halted', 'unassigned', 'malformed'. what: in words."""

    whose: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.whose}: {self.what}"


def troubles(
    view: str, counts: Counts, halted: Mapping[int, str], unassigned: Collection[int]
) -> list[Trouble]:
    """What is not well with a view. halted: partition → reason. unassigned: partitions."""
    whose = f"view {view}"
    found = [
        Trouble(whose, HALTED, f"halted in partition {number}: {printable(reason, 300)}")
        for number, reason in halted.items()
    ]
    if unassigned:
        which = ", ".join(map(str, unassigned))
        found.append(Trouble(whose, UNASSIGNED, f"no worker has partitions {which}"))
    for place, what in PLACES.items():
        if number := getattr(counts, place):
            things = "sequence" if place == "skipped" else "event"
            many = "" if number == 1 else "s"
            found.append(Trouble(whose, place, f"{number} {things}{many} {what}"))
    return found
