"""Figures for Prometheus, as they are when they are asked for."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
"""Seconds: the bounds of histograms."""
SAMPLES = 1_024
"""Ends of a partition that are remembered at most, by which its lag in seconds is known."""

Samples = Iterable[tuple[Sequence[str], float]]
"""The labels' values, and the figure."""


def gauge(name: str, what: str, labels: Sequence[str] = (), samples: Samples = ()) -> Metric:
    """A figure that goes up and down.

    Args:
        name: of it, with its unit.
        what: what it says.
        labels: their names.
        samples: what there is.
    """
    return _filled(GaugeMetricFamily(name, what, labels=labels), samples)


def single(name: str, what: str, value: float) -> Metric:
    """A figure of the whole process.

    Args:
        name: of it, with its unit.
        what: what it says.
        value: it.
    """
    return GaugeMetricFamily(name, what, value=float(value))


def up(what: str, answered: bool) -> Metric:
    """Whether something outside answers.

    Args:
        what: "broker" or "database".
        answered: whether it did when it was asked.
    """
    return single(f"sequitur_{what}_up", f"Whether the {what} answers: 1, or 0.", answered)


def counter(name: str, what: str, labels: Sequence[str] = (), samples: Samples = ()) -> Metric:
    """A figure that only grows, while the process lives.

    Args:
        name: of it, without "_total".
        what: what it says.
        labels: their names.
        samples: what there is.
    """
    return _filled(CounterMetricFamily(name, what, labels=labels), samples)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples:
        family.add_metric(labels, float(value))
    return family


class Growth:
    """Counts that go down now and then, as counters: each from what it was at first, and only up.

    A counter that goes down is one that began anew, to Prometheus: all of it would be news.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[int, int]] = {}

    def of(self, what: Hashable, count: int) -> int:
        """How far a count has come, all in all.

        Args:
            what: is counted.
            count: how many there are now.
        """
        before, grown = self._known.get(what, (0, 0))
        grown += max(0, count - before)
        self._known[what] = count, grown
        return grown


class Lags:
    """How far partitions are behind their ends, in records and in seconds.

    The seconds are those since an end that is not reached yet was first seen: no record's time is
    trusted. They are as exact as the ends are asked for often.
    """

    def __init__(self) -> None:
        self._ends: dict[Hashable, list[tuple[int, float]]] = {}

    def note(self, ends: Mapping[Hashable, int], now: float) -> None:
        """Take in ends that were asked for.

        Args:
            ends: the offset behind all that is committed, of each partition.
            now: seconds of a clock that does not jump.
        """
        for gone in self._ends.keys() - ends.keys():
            del self._ends[gone]
        for partition, end in ends.items():
            seen = self._ends.setdefault(partition, [])
            if seen and end < seen[-1][0]:  # the topic was made anew
                seen.clear()
            if not seen or end > seen[-1][0]:
                if len(seen) == SAMPLES:
                    del seen[1::2]  # the older, the coarser
                seen.append((end, now))

    def of(self, partition: Hashable, position: int, now: float) -> tuple[int, float] | None:
        """(records, seconds) from a position to the end; None where the end is not known.

        Args:
            partition: of which.
            position: the offset behind what is done.
            now: seconds, as of `note`.
        """
        seen = self._ends.get(partition)
        if not seen:
            return None
        since = now
        for end, noted in reversed(seen):  # whoever is farther behind asks for the older ones
            if end <= position:
                break
            since = noted
        return max(0, seen[-1][0] - position), now - since

    def metrics(
        self, prefix: str, positions: Mapping[tuple[str, int], int], now: float
    ) -> tuple[Metric, Metric]:
        """The lags of partitions that are known as (topic, number).

        Args:
            prefix: of the metrics' names.
            positions: partition → the offset behind what is done.
            now: seconds, as of `note`.
        """
        found = [
            ((topic, str(number)), lag)
            for (topic, number), position in positions.items()
            if (lag := self.of((topic, number), position, now)) is not None
        ]
        at = ("topic", "partition")
        return (
            gauge(f"{prefix}_lag_records", "Records that are not done.", at,
                  ((labels, records) for labels, (records, _) in found)),
            gauge(f"{prefix}_lag_seconds", "Seconds since there is something that is not done.", at,
                  ((labels, seconds) for labels, (_, seconds) in found)),
        )  # fmt: skip
