"""What was seen at each look, in bounded memory: rates, lags in seconds, and places over time."""

import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from topology.faust.inspection import ViewCounts, views
from topology.faust.inspection.consumer_group import ConsumerGroup, consumer_group
from topology.monitoring import Lags

KEPT = 600
"""Looks that are kept: half an hour of them, while a browser looks."""
PLACES = ("processed", "waiting", "redelivering", "late", "failed", "parked", "dead")


class Situation(NamedTuple):
    """What there is.

    Attributes:
        counts: of the views.
        group: who has which partition.
        rates: of a view, events processed a second since the look before, nothing at the first; of
            what comes, under `came(…)`.
        lags: view, or a source's `came(…)` → for how many seconds something has not been done.
    """

    counts: ViewCounts
    group: ConsumerGroup
    rates: dict[str, float]
    lags: dict[str, float]


def came(name: str) -> str:
    """Under which there is the rate of what a view was given, or what of a source was re-keyed."""
    return f"{name}\0came"


class Samples:
    """The last looks at a topology."""

    def __init__(self) -> None:
        self._lags = Lags()
        self._last: tuple[float, dict[str, int]] | None = None
        self.places: dict[str, deque[tuple[float, tuple[int, ...]]]] = {}

    async def look(self, app: Any) -> Situation:
        """Look, and keep what was seen."""
        counts, group = await views(app), await consumer_group(app)
        return self.note(counts, group, time.monotonic(), time.time())

    def note(self, counts: ViewCounts, group: ConsumerGroup, now: float, date: float) -> Situation:
        """Keep a look.

        Args:
            counts: that were seen.
            group: who has what.
            now: seconds of a clock that does not jump.
            date: seconds since 1970.
        """
        places: dict[str, Mapping[Any, tuple[int, int]]] = {
            **{view.view: view.positions for view in counts.views},
            **{came(each.source): each.positions for each in counts.sources},
        }
        there = {(name, at): place for name, of in places.items() for at, place in of.items()}
        self._lags.note({key: end for key, (_, end) in there.items()}, now)
        lags = dict.fromkeys(places, 0.0)
        for (name, at), (position, _) in there.items():
            lag = self._lags.of((name, at), position, now)
            lags[name] = max(lags[name], round(lag[1], 1) if lag else 0.0)
        done = {view.view: view.counts.processed for view in counts.views}
        done |= {came(view.view): view.counts.received for view in counts.views}
        done |= {
            came(each.source): each.taken.read for each in counts.sources if each.taken is not None
        }
        rates: dict[str, float] = {}
        if self._last is not None and now > self._last[0]:
            before, seconds = self._last[1], now - self._last[0]
            rates = {name: (n - before.get(name, n)) / seconds for name, n in done.items()}
        self._last = now, done
        for each in counts.views:
            kept = self.places.setdefault(each.view, deque(maxlen=KEPT))
            kept.append((date, tuple(getattr(each.counts, name) for name in PLACES)))
        return Situation(counts, group, rates, lags)

    def lines(self, view: str, *places: str) -> dict[str, list[tuple[float, float]]]:
        """Place → how many events were there, at each look."""
        kept = list(self.places.get(view, ()))
        return {
            name: [(when, numbers[PLACES.index(name)]) for when, numbers in kept] for name in places
        }
