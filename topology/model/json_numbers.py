"""Numbers that JSON has no way to write: a handler's NaN would reach the read store as NULL."""

from typing import Any

from topology.model.value_parts import parts_of

_PLAIN = frozenset((str, int, bool, type(None)))


def finite(value: Any) -> bool:
    """Whether there is neither NaN nor infinity in what orjson has written."""
    kind = value.__class__
    if kind in _PLAIN:
        return True
    if kind is dict:
        return all(map(finite, value.values()))
    if kind is list:
        return all(map(finite, value))
    if isinstance(value, float):
        return value * 0 == 0  # zero times any number is zero
    return all(finite(part) for _, part in parts_of(value))


def unfinite(value: Any, path: str = "") -> tuple[str, str] | None:
    """(where, which number) of the first NaN or infinity in what orjson has written.

    where: the path to it, as in `lines[0].price`; empty if it is the value itself.
    """
    if finite(value):
        return None
    inner = (unfinite(part, where) for where, part in parts_of(value, path))
    return next((found for found in inner if found is not None), (path, str(value)))
