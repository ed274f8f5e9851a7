"""Durations as options and environment variables take them: a number and its unit."""

import re

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST = 10_000 * 86_400
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])", re.ASCII)


def seconds_of(text: str) -> float:
    """Read a duration.

    Args:
        text: such as `500ms`, `30s`, `15m`, `4h` or `30d`; `0` needs no unit.

    Returns:
        Its seconds.

    Raises:
        ValueError: it has no unit, or is no duration of at most 10,000 days.
    """
    found = _DURATION.fullmatch("0s" if text == "0" else text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else -1.0
    if not 0 <= seconds <= _MOST:
        raise ValueError("write a number and its unit: 500ms, 30s, 15m, 4h or 30d (10000d at most)")
    return seconds
