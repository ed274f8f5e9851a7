"""What of a value JSON cannot hold: where it is, why, and what to give instead."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from topology.model.printable import printable
from topology.model.value_parts import parts_of

DEEP = 20
"""Levels of a value that are looked into; a culprit below is named by the level above it."""

_TOO_DEEP = "Recursion limit"
"""What orjson says of what is nested deeper than it writes, or contains itself."""

_REMEDIES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (int, "give a text"),
    (Decimal, "give str(…) of it, or float(…) where it need not be exact"),
    ((bytes, bytearray, memoryview), "give a text, as Base64 is one"),
    ((set, frozenset), "give a list"),
    (str, "leave the surrogates out, as text.encode('utf-8', 'replace').decode() does"),
)


def unwritable(value: Any, dumps: Callable[[Any], bytes]) -> str:
    """Of a value that `dumps` refuses with TypeError: `lines[0] cannot be written as JSON: …`."""
    where, what, error = culprit(value, dumps)
    return f"{where or 'the value'} cannot be written as JSON: {error}; {remedy(what, error)}"


def remedy(value: Any, error: object) -> str:
    """What to give instead of a value that orjson refused."""
    if _TOO_DEEP in str(error):
        return "keep it flatter: 254 levels are written at most, and nothing that contains itself"
    if isinstance(value, dict):
        odd = next((key for key in value if not isinstance(key, str)), None)
        return f"name each value by a text, not by {printable(repr(odd))}"
    known = (told for kinds, told in _REMEDIES if isinstance(value, kinds))
    return next(known, "give texts, numbers, lists and dictionaries whose keys are texts")


def culprit(
    value: Any, dumps: Callable[[Any], bytes], path: str = "", depth: int = 0
) -> tuple[str, Any, TypeError | None]:
    """(where, what, why) of the innermost part that is refused."""
    try:
        dumps(value)
        return path, value, None
    except TypeError as error:
        found = path, value, error
    # What is too deep is as deep everywhere below.
    if depth < (1 if _TOO_DEEP in str(found[2]) else DEEP):
        for name, part in parts_of(value, path):
            inner = culprit(part, dumps, name, depth + 1)
            if inner[2] is not None:
                return inner
    return found
