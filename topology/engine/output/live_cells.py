"""A stream's cells, as the handler of one event has them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

import orjson

from topology.model.changes import check_finite
from topology.model.errors import HandlerError
from topology.model.partition_table import KEY_BYTES, SHORT
from topology.model.unwritable import unwritable

KEY = 1_000
"""Letters of a cell's key, at most."""
LIMIT = 1_000_000
"""Bytes of a cell's value as JSON, at most: Kafka's own default limit is a little more."""

Kept = dict[str, bytes | None]
"""Key → a cell's value as JSON, None where there is none."""


class CellSource(Protocol):
    """The cells of a view before a step."""

    def get(self, stream: str, key: str) -> bytes | None:
        """The value as JSON, None where there is none."""
        ...

    def keys(self, stream: str) -> Iterable[str]:
        """The keys of the stream's cells, as texts sort."""
        ...


class Cells(MutableMapping[str, Any]):
    """A stream's cells, as the handler of one event has them: JSON values by key.

    A value that is taken out may be changed in place, as the stream's dictionary may. step: what
    earlier events of the step have left of the stream's cells. attempt: where the event has failed
    before, what takes a part of its outputs for a trial, and raises what it would raise of them.
    """

    attempt: Callable[[Iterable[Any]], None] | None = None

    def __init__(self, source: CellSource, stream: str, step: Kept) -> None:
        self._source, self._stream, self._step = source, stream, step
        self._raw: Kept = {}
        self._live: dict[str, Any] = {}
        self._gone: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key in self._live:
            return self._live[key]
        if key in self._gone or (raw := self._before(key)) is None:
            raise KeyError(key)
        found = self._live[key] = orjson.loads(raw)
        return found

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default`; the general one raises an exception to know."""
        if key in self._live:
            return self._live[key]
        gone = key in self._gone or self._before(key) is None
        return default if gone else self[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str) or not 0 < len(key) <= KEY:
            raise HandlerError(
                f"the key of a cell, {key!r:.100}: give a text of 1 to {KEY} letters"
            )
        if len(key) > SHORT:
            room = KEY_BYTES - len(self._stream.encode())
            if len(key.encode("utf-8", "replace")) > room:
                raise HandlerError(
                    f"the key of a cell, {key!r:.100}: beside its stream's id there is room for "
                    f"{room} bytes of UTF-8"
                )
        self._live[key] = value
        self._gone.discard(key)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._live.pop(key, None)
        self._gone.add(key)

    def clear(self) -> None:
        """Leave nothing; the general one would sort all keys for each of them."""
        for key in list(self):
            del self[key]

    def __contains__(self, key: object) -> bool:
        if key in self._live:
            return True
        return isinstance(key, str) and key not in self._gone and self._before(key) is not None

    def __iter__(self) -> Iterator[str]:
        known = {*self._source.keys(self._stream), *self._step, *self._live}
        return iter(sorted(key for key in known if key in self))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def apart(self) -> "Cells":
        """The same cells, to be changed for a trial: these stay as they are."""
        return Cells(_Inner(self), self._stream, {})

    def _before(self, key: str) -> bytes | None:
        """The cell as JSON before the event; the same one for as long as the event is handled."""
        if key not in self._raw:
            step = self._step
            self._raw[key] = step[key] if key in step else self._source.get(self._stream, key)
        return self._raw[key]

    def changed(self) -> Kept:
        """The cells that the event changes. Raises HandlerError for what JSON cannot hold."""
        found: Kept = {}
        for key, value in self._live.items():
            what = f"cell {key!r:.100}"
            try:
                raw = orjson.dumps(value)
            except TypeError:
                raise HandlerError(f"{what}: {unwritable(value, orjson.dumps)}") from None
            if len(raw) > LIMIT:
                raise HandlerError(f"{what} has {len(raw)} bytes; the limit is {LIMIT}")
            if b"null" in raw and orjson.loads(raw) != value:
                check_finite(what, value)
            if raw != self._before(key):
                found[key] = raw
        for key in self._gone:
            if self._before(key) is not None:
                found[key] = None
        return found


class _Inner:
    """The cells of an event, as a trial finds them."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells

    def get(self, stream: str, key: str) -> bytes | None:
        return orjson.dumps(self._cells[key]) if key in self._cells else None

    def keys(self, stream: str) -> Iterable[str]:
        return iter(self._cells)


class MemoryCells:
    """The cells of streams that are handled anew from their first event."""

    def __init__(self) -> None:
        self.kept: defaultdict[str, Kept] = defaultdict(dict)

    def get(self, stream: str, key: str) -> bytes | None:
        """The value as JSON, None where there is none."""
        return self.kept[stream].get(key)

    def keys(self, stream: str) -> Iterable[str]:
        """The keys of the stream's cells, as texts sort."""
        return sorted(key for key, value in self.kept[stream].items() if value is not None)

    def take(self, changed: Mapping[str, Kept]) -> None:
        """Take over what a step has left of the cells."""
        for stream, cells in changed.items():
            self.kept[stream].update(cells)
