"""What is asked of a replay log: conditions, all of which must hold."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from types import MappingProxyType
from typing import Any

import orjson

from stores.replay.errors import ReplayError
from stores.replay.message import FieldKind, Value, kept_text
from topology.model.printable import printable

_MOST = 1_000
"""Values in one list."""
CONDITIONS = 100
"""Conditions on metadata."""


class Comparison(Enum):
    """How a metadata field is compared; a message that lacks the field fulfils NOT only."""

    IS = "="
    NOT = "!="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    BEGINS = "^="


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a metadata field.

    Attributes:
        field: its name.
        comparison: with what the field's value is compared by.
        value: what it is compared with.
    """

    field: str
    comparison: Comparison
    value: Value

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Read `field=value`, with any comparison. Raises ReplayError."""
        at = min((text.find(sign) for sign in "=<>!^" if sign in text), default=-1)
        for comparison in sorted(Comparison, key=lambda each: -len(each.value)):
            if at > 0 and text.startswith(comparison.value, at):
                return cls(text[:at].strip(), comparison, text[at + len(comparison.value) :])
        signs = " ".join(each.value for each in Comparison)
        raise ReplayError(f"{text!r} is no condition: write FIELD=VALUE, with one of {signs}")

    def fitted(self, kinds: Mapping[str, FieldKind]) -> "Condition":
        """The condition with a value of the field's kind. Raises ReplayError.

        Args:
            kinds: field → its kind.
        """
        kind = kinds.get(self.field)
        if kind is None:
            known = ", ".join(sorted(kinds)) or "none"
            raise ReplayError(f"there is no field {self.field!r}; declared are: {known}")
        if self.comparison is Comparison.BEGINS and kind is not FieldKind.TEXT:
            raise ReplayError(f"{self.field!r} is no text: ^= does not fit")
        if kind is FieldKind.TEXT:
            return Condition(self.field, self.comparison, kept_text(str(self.value)) or "")
        try:
            return Condition(self.field, self.comparison, _number(self.value))
        except (ValueError, OverflowError):
            raise ReplayError(
                f"{self.field!r} is a number, and {_said(self.value)} is none"
            ) from None


Offsets = Mapping[str, Mapping[int, tuple[int, int | None]]]
"""Topic → partition → (the first offset, the one behind the last; None: open)."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which messages; what is empty or None holds for all.

    Attributes:
        topics: where they were captured.
        sites: where they were published first.
        partitions: there they were captured.
        since: the record's time in seconds since 1970, at least.
        until: the record's time in seconds since 1970, below.
        streams: their ids.
        sequences: the lowest and the highest sequence.
        where: conditions on metadata.
        text: bytes that the content has, as UTF-8.
        offsets: of these topics only these ranges of these partitions.
        after: the log's id that they are behind.
        through: the log's last id among them.
    """

    topics: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    since: float | None = None
    until: float | None = None
    streams: tuple[str, ...] = ()
    sequences: tuple[int | None, int | None] = (None, None)
    where: tuple[Condition, ...] = ()
    text: str | None = None
    offsets: Offsets = field(default_factory=lambda: MappingProxyType({}))
    after: int = 0
    through: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The query as a JSON object, without what holds for all."""
        made: dict[str, Any] = {}
        anything = Query()
        for each in fields(self):
            value = getattr(self, each.name)
            if value == getattr(anything, each.name):
                continue
            if each.name == "where":
                value = [[one.field, one.comparison.value, one.value] for one in value]
            elif each.name == "offsets":
                value = {
                    topic: {str(number): list(ends) for number, ends in parts.items()}
                    for topic, parts in value.items()
                }
            made[each.name] = list(value) if isinstance(value, tuple) else value
        return made

    @classmethod
    def from_json(cls, given: object) -> "Query":
        """Read what `to_json` wrote, or a user. Raises ReplayError, which names what is wrong."""
        if not isinstance(given, Mapping):
            raise ReplayError("a query is a JSON object")
        known = {each.name for each in fields(cls)}
        if unknown := sorted(set(map(str, given)) - known):
            raise ReplayError(f"a query has no {unknown[0]!r}; it has {', '.join(sorted(known))}")
        made: dict[str, Any] = {}
        for name, value in given.items():
            try:
                made[name] = _READERS[name](value)
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                if isinstance(error, ReplayError):
                    raise
                raise ReplayError(f"{name}: {_said(value)} is not {_SHAPES[name]}") from None
        return cls(**made)

    def stored(self) -> str:
        """The query as JSON text that `from_json` reads. Raises ReplayError if it would not."""
        try:
            text = orjson.dumps(self.to_json())
        except TypeError as error:
            raise ReplayError(f"the query cannot be kept: {error}") from None
        self.from_json(orjson.loads(text))
        return text.decode()


def _said(value: object) -> str:
    return printable(repr(value), 200)


def _number(value: Value) -> int | float:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            value = float(value)
    if isinstance(value, bool) or value - value != 0:
        raise ValueError(value)
    if isinstance(value, int) and abs(value) >= 2**63:
        return float(value)
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    if not abs(value) < 1e12:
        raise ValueError(value)
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise TypeError(value)
    return value


def _partition(value: object) -> int:
    if (number := _whole(value)) >= 2**31:
        raise ValueError(value)
    return number


def _listed(value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple) or len(value) > _MOST:
        raise TypeError(value)
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    value.encode()
    return value


def _ends(value: object) -> tuple[int, int | None]:
    low, high = _listed(value)
    return _whole(low), None if high is None else _whole(high)


def _sequences(value: object) -> tuple[int | None, int | None]:
    low, high = _listed(value)
    if any(each is not None and not isinstance(each, int) for each in (low, high)):
        raise TypeError(value)
    if any(each is not None and abs(each) >= 2**63 for each in (low, high)):
        raise ValueError(value)
    return low, high


def _conditions(value: object) -> tuple[Condition, ...]:
    made = []
    if len(given := _listed(value)) > CONDITIONS:
        raise ValueError(value)
    for each in given:
        name, comparison, right = _listed(each)
        if isinstance(right, str):
            right.encode()
        elif not abs(right) < (2**63 if isinstance(right, int) else math.inf):  # nor is it NaN
            raise ValueError(value)
        made.append(Condition(_text(name), Comparison(comparison), right))
    return tuple(made)


def _offsets(value: Any) -> Offsets:
    _names([*value])
    return {
        _text(topic): {_partition(int(number)): _ends(ends) for number, ends in parts.items()}
        for topic, parts in value.items()
    }


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(_text, _listed(value)))


def _names(value: object) -> tuple[str, ...]:
    found = _texts(value)
    if any("\0" in each for each in found):  # PostgreSQL takes none
        raise ValueError(value)
    return found


def _or_none(read: Any) -> Any:
    return lambda value: None if value is None else read(value)


_READERS: Mapping[str, Any] = {
    "topics": _names,
    "sites": _names,
    "partitions": lambda value: tuple(map(_partition, _listed(value))),
    "since": _or_none(_seconds),
    "until": _or_none(_seconds),
    "streams": _texts,
    "sequences": _sequences,
    "where": _conditions,
    "text": _or_none(_text),
    "offsets": _offsets,
    "after": _whole,
    "through": _or_none(_whole),
}
_LIST = f"a list of at most {_MOST} texts"
_SHAPES = {
    "topics": _LIST,
    "sites": _LIST,
    "partitions": f"a list of at most {_MOST} numbers",
    "since": "a time in seconds since 1970",
    "until": "a time in seconds since 1970",
    "streams": _LIST,
    "sequences": "[lowest, highest], either of which may be null",
    "where": f"a list of at most {CONDITIONS}: "
    '[field, comparison, value], as in ["tail", "=", "N102UW"], with numbers of at most 64 bits',
    "text": "a text",
    "offsets": "topic → partition → [first, behind the last or null]",
    "after": "an id of the log",
    "through": "an id of the log",
}
