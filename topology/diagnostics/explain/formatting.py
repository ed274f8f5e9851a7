"""Numbers and ranges in words."""

from collections.abc import Sequence

from topology.diagnostics.explain.missing import Missing
from topology.model.counted import counted


def spelled(gap: Missing, one: str = "is", more: str = "are") -> str:
    """`sequence 4 is` or `sequences 4 to 6 (3) are`."""
    if gap.count is None:
        return f"something between {gap.first - 1} and {gap.last + 1} {one}"
    if gap.count == 1:
        return f"sequence {gap.first} {one}"
    return f"sequences {gap.first} to {gap.last} ({gap.count}) {more}"


def numbered(ranges: Sequence[tuple[int, int]], count: int | None = None, shown: int = 5) -> str:
    """`sequence 4`, or `sequences 4 to 6, 9` and how many there are, where that is known."""
    told = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in ranges[:shown])
    one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    more = " …" if len(ranges) > shown else ""
    many = f" ({count})" if count is not None and count > 1 else ""
    return f"sequence{'' if one else 's'} {told}{more}{many}"


def not_read(number: int) -> str:
    """Say how many messages of the stream are not read yet."""
    return (
        counted(number, "message of the stream is", "messages of the stream are") + " not read yet"
    )


def lately(looked: int, topic: str) -> str:
    """What is said where only the end of a topic was read."""
    return f"only the last {counted(looked, 'offset')} of {topic} were read; --scan N reads more"


def ranges(missing: Sequence[Missing], number: int, shown: int = 5) -> str:
    """`4 to 6, 9 …`."""
    text = ", ".join(pair(gap.first, gap.last) for gap in missing[:shown])
    if missing and missing[0].count is None:
        text = f"between {missing[0].first - 1} and {missing[0].last + 1}"
    return f"{text} … ({number} ranges)" if number > min(shown, len(missing)) else text


def pair(first: int, last: int) -> str:
    """Say a range of sequences."""
    return str(first) if first == last else f"{first} to {last}"
