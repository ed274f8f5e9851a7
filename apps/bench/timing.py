"""Watch output topics grow, and work out how fast they did."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import ge

from bench.cluster import Cluster, Partition

EVERY = 0.05
"""Seconds between two looks."""
SETTLED = 2.0
"""Seconds without growth after which enough records are taken for all."""
QUIET = 6.0
"""The same where nobody knows how many there will be."""
STALLED = 60.0
"""Seconds without growth after which no more are expected."""

SLOWEST = 200
"""Records a second below which waiting any longer is of no use."""


class Stalled(RuntimeError):
    """The outputs stopped growing too early."""


@dataclass(frozen=True, slots=True)
class Look:
    """seconds: since the watch began. ends: of each output. cpu: seconds used so far."""

    seconds: float
    ends: tuple[int, ...]
    cpu: float

    @property
    def offsets(self) -> int:
        """The sum of the ends."""
        return sum(self.ends)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long it took, in seconds since the watch began, and how fast it went.

    first: until the first records could be read. all: until the last. rate: records a second
    between these two, so that starting up does not count; where all came at once it does. cpu:
    CPU seconds per million records in the same stretch.
    """

    first: float
    all: float
    rate: float
    cpu: float


def timing(
    looks: Sequence[Look], records: int, complete: Sequence[int], *, behind: bool = False
) -> Timing:
    """Work it out from looks at outputs that grew to `records` records in the end.

    complete: the offset behind the last record of each output; an end that grows beyond is a
    marker, of a transaction without records. behind: whether these came behind the first look, all
    of them; whatever was put out before.
    Raises Stalled where nothing came.
    """
    first = next(look for look in looks if look.offsets)
    # What was read beyond the last look came behind it, and is not what was waited for.
    last = next((look for look in looks if all(map(ge, look.ends, complete))), looks[-1])
    final = last.offsets
    # Transaction markers have offsets too: their share is much the same from first to last.
    steady = records if behind else records * (final - first.offsets) / final
    if not steady:
        return Timing(first.seconds, last.seconds, records / last.seconds, last.cpu / records * 1e6)
    seconds = last.seconds - first.seconds
    if not seconds:
        raise Stalled(f"nothing came of {records:,} records")
    return Timing(
        first.seconds, last.seconds, steady / seconds, (last.cpu - first.cpu) / steady * 1e6
    )


def watch(
    cluster: Cluster,
    outputs: Sequence[Partition],
    records: int,
    cpu: Callable[[], float],
    check: Callable[[], None],
    done: Callable[[], bool] | None = None,
    quiet: float = QUIET,
    since: Look | None = None,
) -> Timing:
    """Wait until the outputs hold `records` records altogether and grow no more.

    cpu: → CPU seconds used by what writes them. check: raises if that has failed. done: whether all
    is worked off, where any number of records may come of `records` inputs, and nothing more has
    come for `quiet` seconds; with `since`, `records` are then those behind it. since: the first
    look, taken before, with the seconds of the monotonic clock. Raises Stalled.
    """
    began = grew = time.monotonic() if since is None else since.seconds
    limit = 300 + records / SLOWEST
    looks = [] if since is None else [replace(since, seconds=0.0)]
    while True:
        check()
        ends = tuple(cluster.ends(outputs).values())
        offsets, now = sum(ends), time.monotonic()
        if not looks or ends != looks[-1].ends:
            looks.append(Look(now - began, ends, cpu()))
            grew = now
        if done is not None:
            if offsets and now - grew > quiet and done():
                complete = cluster.complete(outputs)
                return timing(looks, records, complete, behind=since is not None)
        elif offsets >= records and now - grew > SETTLED:
            return timing(looks, records, cluster.complete(outputs))
        if now - grew > STALLED or now - began > limit:
            raise Stalled(f"{offsets:,} of {records:,} records after {now - began:.0f} s")
        time.sleep(EVERY)
