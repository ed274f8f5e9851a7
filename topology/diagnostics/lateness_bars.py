"""How late events were, in a few ranges that people can read."""

from collections.abc import Iterable

_UPTO = (
    (10, "up to 10 ms"), (100, "10 to 100 ms"), (1_000, "0.1 to 1 s"), (10_000, "1 to 10 s"),
    (60_000, "10 s to 1 min"), (600_000, "1 to 10 min"), (3_600_000, "10 min to 1 h"),
    (86_400_000, "1 h to 1 day"), (None, "1 day and more"),
)  # fmt: skip


def lateness_bars(weights: Iterable[tuple[float, float]]) -> list[tuple[str, float]]:
    """Sum weights up by ranges.

    Args:
        weights: (lateness in ms, how many events were so late).

    Returns:
        (range, how many), from the first range; the last ones without any are left out.
    """
    sums = [0.0] * len(_UPTO)
    for lateness, weight in weights:
        sums[next(n for n, (end, _) in enumerate(_UPTO) if end is None or lateness <= end)] += (
            weight
        )
    last = max((n for n, each in enumerate(sums) if each), default=-1)
    return [(_UPTO[n][1], sums[n]) for n in range(last + 1)]
