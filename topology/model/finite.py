"""Numbers that JSON has no way to write: a handler's NaN would reach the read store as NULL."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def unfinite(value: Any, path: str = "") -> tuple[str, str] | None:
    """(where, which number) of the first NaN or infinity in what orjson has written.

    where: the path to it, as in `lines[0].price`; empty if it is the value itself.
    """
    if isinstance(value, str | bytes | int) or value is None:
        return None
    parts: Iterable[tuple[str, Any]]
    if isinstance(value, Mapping):
        parts = ((f"{path}.{name}" if path else str(name), part) for name, part in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{path}[{at}]", part) for at, part in enumerate(value))
    elif is_dataclass(value):
        names = [each.name for each in fields(value)]
        parts = ((f"{path}.{name}" if path else name, getattr(value, name)) for name in names)
    elif hasattr(value, "tolist"):
        # NumPy's numbers and arrays.
        return unfinite(value.tolist(), path)
    else:
        lost = isinstance(value, float) and not math.isfinite(value)
        return (path, str(value)) if lost else None
    return next((found for name, part in parts if (found := unfinite(part, name))), None)
