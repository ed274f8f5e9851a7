"""How late events come: a bounded sketch, and the time to wait that it suggests.

A gap opens when the first event behind it arrives; an event that fills it is that much late. The
sketch counts latenesses in bins that grow by 5%, so that a time read off it is at most 5% too
long, whatever its size; there are some 500 bins at most. What is old weighs less and less.
"""

import math
from collections.abc import Iterable
from typing import Any

import orjson

from topology.declaration.policies import GapTime

GROWTH = 1.05
"""The ratio of neighbouring bins."""
BINS = 512
"""Bins at most: the last one begins after some years."""
HALVED_AT = 100_000
"""Weight at which all of it is halved: what came 100,000 late events ago counts half."""
FORGOTTEN = 1 / 64
"""Weight of a bin below which it is dropped when halved."""
GIVEN_UP_KEPT = 64
"""Gaps given up that are remembered, so that what comes of them can be learned from."""
_LOG = math.log(GROWTH)


class Lateness:
    """A view's sketch in one partition.

    bins: number → weight; bin n holds latenesses up to 1.05ⁿ ms. given_up: (stream, first, last,
    since in ms) of the gaps that were given up last.
    """

    def __init__(self) -> None:
        self.bins: dict[int, float] = {}
        self.weight = 0.0
        self.given_up: list[tuple[str, int, int, int]] = []

    def add(self, lateness: float) -> None:
        """Note that an event came `lateness` ms after the first one behind it."""
        number = 0 if lateness <= 1 else min(math.ceil(math.log(lateness) / _LOG - 1e-9), BINS - 1)
        self.bins[number] = self.bins.get(number, 0.0) + 1.0
        self.weight += 1.0
        if self.weight >= HALVED_AT:
            halves = ((n, weight / 2) for n, weight in self.bins.items())
            self.bins = {n: weight for n, weight in halves if weight >= FORGOTTEN}
            self.weight = math.fsum(self.bins.values())

    def gave_up(self, stream: str, first: int, last: int, since: int) -> None:
        """Remember a gap that was given up; what comes of it later is learned by `came_late`."""
        self.given_up = [*self.given_up[1 - GIVEN_UP_KEPT :], (stream, first, last, since)]

    def came_late(self, stream: str, sequence: int, arrived: int, waited: float) -> None:
        """Note an event that came at `arrived` ms, after its gap was given up.

        waited: how many ms gaps are held at present: all that is known if the gap is forgotten.
        """
        for name, first, last, since in reversed(self.given_up):
            if name == stream and first <= sequence <= last:
                self.add(max(arrived - since, waited))
                return
        self.add(waited * GROWTH)

    def after(self, policy: GapTime) -> int:
        """Milliseconds to hold a gap for, as the policy says, within its bounds."""
        try:
            chosen = policy.after(self)
            found = None if chosen is None else round(chosen * 1000)
        except Exception:
            # It is asked after each batch: a mistake in it must not stop the view.
            found = None
        if found is None:
            return math.ceil(policy.start * 1000)
        return min(max(found, math.ceil(policy.at_least * 1000)), math.ceil(policy.at_most * 1000))

    def all_but(self, count: float) -> float:
        """The seconds within which all late events came but `count`."""
        beyond, found = 0.0, 1.0
        for number in sorted(self.bins, reverse=True):
            beyond += self.bins[number]
            if beyond > count:
                found = GROWTH**number
                break
        # A gap is given up when its time has come: what is as late as that must still be in time.
        return (math.floor(found) + 1) / 1000

    def encode(self) -> bytes:
        """The row of the sketch, as JSON."""
        bins = [(n, round(weight, 6)) for n, weight in sorted(self.bins.items())]
        return orjson.dumps({"bins": bins, "given_up": self.given_up})


def decode_lateness(row: bytes | None) -> Lateness:
    """The sketch of a row; an empty one where there is none."""
    sketch = Lateness()
    if row is not None:
        found: dict[str, Any] = orjson.loads(row)
        sketch.bins = {int(n): float(weight) for n, weight in found["bins"]}
        sketch.weight = math.fsum(sketch.bins.values())
        sketch.given_up = [(s, first, last, since) for s, first, last, since in found["given_up"]]
    return sketch


def merged(sketches: Iterable[Lateness]) -> Lateness:
    """The latenesses of several sketches together, as of all partitions of a view."""
    total = Lateness()
    for sketch in sketches:
        for number, weight in sketch.bins.items():
            total.bins[number] = total.bins.get(number, 0.0) + weight
    total.weight = math.fsum(total.bins.values())
    return total
