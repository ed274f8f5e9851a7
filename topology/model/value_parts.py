"""What a value is made of, as orjson writes it: the one walk of all that look into values."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from topology.model.printable import printable


def parts_of(value: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    """(path, part) of what a value holds, as in `lines[0].price`; nothing for what has no parts.

    An enumeration's member and what is NumPy's are written as something else, which is their one
    part and has their own path.
    """
    if value is None or (
        isinstance(value, str | bytes | int | float) and not isinstance(value, Enum)
    ):
        return ()
    if isinstance(value, Mapping):
        return ((_named(path, name), part) for name, part in value.items())
    if isinstance(value, list | tuple):
        return ((f"{path}[{at}]", part) for at, part in enumerate(value))
    if isinstance(value, Enum):
        return ((path, value.value),)
    if isinstance(value, type):
        return ()
    if is_dataclass(value):
        return ((_named(path, each.name), getattr(value, each.name)) for each in fields(value))
    return ((path, value.tolist()),) if hasattr(value, "dtype") else ()


def _named(path: str, name: Any) -> str:
    return f"{path}.{printable(name)}" if path else printable(name)
