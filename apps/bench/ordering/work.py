"""The events of the bench of ordering, and the least time that they take."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from bench.cluster import Sent

CONCURRENCY = 100
"""Handlers side by side."""
MOST = 5_000
"""Microseconds that an event's work takes at most; at least none."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        name: what it is called.
        keys: how many streams; None: messages without a key.
        commit: of the view.
        published: seconds of Confluent's Parallel Consumer, by its README.
        run_in: where handlers run. Threads sleep to a fraction of a millisecond, tasks to one.
    """

    name: str
    keys: int | None
    commit: str = "stream"
    published: float | None = None
    run_in: str = "tasks"

    def messages(self, events: int) -> list[Sent]:
        """(key, microseconds of work) of each event, the same every time."""
        chance = random.Random(7)
        return [
            (
                None if self.keys is None else b"key-%d" % chance.randrange(self.keys),
                b"%d" % chance.randint(0, MOST),
            )
            for _ in range(events)
        ]

    def bound(self, events: int) -> float:
        """The least seconds, if each event's work takes exactly as long as it should."""
        return least((key, int(work)) for key, work in self.messages(events))


def least(work: Iterable[tuple[bytes | None, int]]) -> float:
    """The seconds that no order can do without. work: key and microseconds of each event."""
    by_key: dict[bytes | None, int] = defaultdict(int)
    for key, took in work:
        by_key[key] += took
    whole = sum(by_key.values()) / CONCURRENCY
    return max(whole, *(0 if key is None else took for key, took in by_key.items())) / 1e6


ROWS = (
    Row("1 key", 1, run_in="threads", published=26.7),
    Row("2 keys", 2, run_in="threads", published=13.6),
    Row("5 keys", 5, run_in="threads", published=5.9),
    Row("10 keys", 10, run_in="threads", published=3.3),
    Row("20 keys", 20, run_in="threads", published=2.24),
    Row("100 keys", 100, published=2.18),
    Row("1,000 keys", 1_000, published=2.06),
    Row("unordered", None, published=2.83),
    Row("by arrival, 1,000 keys", 1_000, "arrival"),
    Row("by arrival, 20 keys", 20, "arrival", run_in="threads"),
    Row("by arrival, no keys", None, "arrival"),
)
