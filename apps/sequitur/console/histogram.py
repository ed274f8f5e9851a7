"""How old gaps are: an outage, with gaps of one age, looks different from losses of all ages."""

from collections.abc import Iterable
from dataclasses import dataclass

_UPTO = ((10, "below 10 s"), (60, "10 s to 1 min"), (600, "1 to 10 min"), (3600, "10 min to 1 h"),
         (86_400, "1 h to 1 day"), (None, "1 day and more"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bar:
    """How many gaps there are of an age; width: its share of the longest bar, in percent."""

    age: str
    count: int
    width: int


def histogram(now: int, since: Iterable[int]) -> list[Bar]:
    """A bar for each range of ages. now, since: in milliseconds since 1970."""
    counts = [0] * len(_UPTO)
    for moment in since:
        age = max(0, now - moment) / 1000
        counts[next(i for i, (end, _) in enumerate(_UPTO) if end is None or age < end)] += 1
    most = max(1, *counts)
    return [
        Bar(name, count, -(-100 * count // most))
        for (_, name), count in zip(_UPTO, counts, strict=True)
    ]
