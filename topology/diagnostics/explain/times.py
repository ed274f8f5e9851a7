"""Times for people: when, and for how long."""

from datetime import UTC, datetime

from topology.model.printable import printable

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


def at(moment: int) -> str:
    """A time in UTC, to the second."""
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def since(now: int, moment: int) -> str:
    """A time, and how far it is from now."""
    away = moment - now
    far = f"in {lasting(away)}" if away > 0 else f"{lasting(-away)} ago" if away else "now"
    return f"{at(moment)} ({far})"


def seconds_of(text: str) -> float:
    """`90`, `90s`, `15m`, `2h`, `3d` in seconds. Raises ValueError."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        found = float(number) * units[unit]
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e10:
        raise ValueError(f"{printable(repr(text))} is no duration: write 90, 90s, 15m, 2h or 3d")
    return found
