"""Times for people: when, and for how long."""

from datetime import UTC, datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def lasting(milliseconds: int) -> str:
    """A duration in its two largest units: `3 min 20 s`."""
    if milliseconds < 1000:
        return f"{max(0, milliseconds)} ms"
    for at, (size, name) in enumerate(_UNITS):
        if milliseconds >= size:
            text = f"{milliseconds // size} {name}"
            if at + 1 < len(_UNITS) and (rest := milliseconds % size // _UNITS[at + 1][0]):
                text += f" {rest} {_UNITS[at + 1][1]}"
            return text
    raise AssertionError(milliseconds)


def waited(now: int, since: int) -> int:
    """For how many ms something has waited; 0 if the clock is behind what it began at."""
    return max(now - since, 0)


def at(moment: int) -> str:
    """A time in UTC, to the second."""
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def since(now: int, moment: int) -> str:
    """A time, and how far it is from now."""
    away = moment - now
    far = f"in {lasting(away)}" if away > 0 else f"{lasting(-away)} ago" if away else "now"
    return f"{at(moment)} ({far})"
