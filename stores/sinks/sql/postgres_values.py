"""Values as PostgreSQL takes them: JSON without exponents, text without NUL."""

import re
from decimal import Context, Decimal
from typing import Any

import orjson

_NUL, _ESCAPE = "\ue0000", "\ue000e"
"""What stands for NUL and for the private character U+E000 itself."""


_EXPONENT = re.compile(r"\de")


def with_points(text: str) -> str:
    """JSON whose large floating-point numbers have a point, and no exponent.

    JSONB keeps the point, by which a number is known to be one; of 1e16 it would make an integer,
    whose digits are not those of the floating-point number.
    """
    if not _EXPONENT.search(text):
        return text
    return orjson.dumps(_pointed(orjson.loads(text))).decode()


def _pointed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _pointed(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_pointed, value))
    if value.__class__ is float and value.is_integer():
        return orjson.Fragment(f"{Decimal(repr(value)).quantize(0, context=_WIDE):f}.0")
    return value


_WIDE = Context(prec=400)


def written_text(value: Any) -> Any:
    """A value of an own table as PostgreSQL takes it."""
    if value.__class__ is str and ("\0" in value or "\ue000" in value):
        return value.replace("\ue000", _ESCAPE).replace("\0", _NUL)
    return value


def read_text(value: Any) -> Any:
    """A value of an own table as it was written."""
    if value.__class__ is str and "\ue000" in value:
        return value.replace(_NUL, "\0").replace(_ESCAPE, "\ue000")
    return value
