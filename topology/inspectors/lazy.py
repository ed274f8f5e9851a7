"""A JSON body that is decoded by the first handler that looks into it."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_UNREAD = object()


class LazyJson(Mapping[str, Any]):
    """A mapping over a JSON object that is still bytes.

    raw: the bytes, or None. A body that is no JSON, or no object, raises ValueError in the handler
    that looks into it; `value` gives whatever JSON it is.
    """

    __slots__ = ("_value", "raw")

    def __init__(self, raw: bytes | None) -> None:
        self.raw = raw
        self._value: Any = _UNREAD

    @property
    def value(self) -> Any:
        """The decoded body; None for a message without one."""
        if self._value is _UNREAD:
            self._value = None if self.raw is None else orjson.loads(self.raw)
        return self._value

    def _object(self) -> dict[str, Any]:
        value = self.value
        if not isinstance(value, dict):
            raise ValueError(
                f"the body is no JSON object but a {type(value).__name__}; use .value or .raw"
            )
        return value

    def __getitem__(self, name: str) -> Any:
        return self._object()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._object())

    def __len__(self) -> int:
        return len(self._object())

    def __repr__(self) -> str:
        read = repr(self.raw) if self._value is _UNREAD else repr(self._value)
        return f"LazyJson({read})"
