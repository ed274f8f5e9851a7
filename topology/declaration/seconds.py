"""What a declaration takes for a number of seconds."""

from typing import TypeGuard

LONGEST = 1e10


def is_seconds(value: object, most: float = LONGEST) -> TypeGuard[int | float]:
    """Whether a value is a number of seconds, above 0 and `most` at most."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value <= most  # type: ignore[operator]
