"""What a fold makes of its events: counts, sums that no order changes, and aggregates of yours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from topology.model.errors import DeclarationError, HandlerError
from topology.verbs.exact_sum import Sum, add_exactly, negated, rounded
from topology.verbs.steps import checked_function

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")
V = TypeVar("V", int, float, str)
Number = int | float


@dataclass(frozen=True, slots=True)
class Aggregate(Generic[T, S, R]):
    """How a fold takes one event after the other.

    Attributes:
        start: makes what there is before the first event; JSON can write it.
        add: (what there is, event) → what there is then. It may change what it is given.
        result: what is shown of it; of `start()` too, where a window has missing events only.
        merge: (of the earlier window, of the later) → of both; sessions and keys need it.
        subtract: (of both, of one) → of the other: undoes `merge`, in whatever order. Folds of rows
            that may be revised need it.
    """

    start: Callable[[], S]
    add: Callable[[S, T], S]
    result: Callable[[S], R]
    merge: Callable[[S, S], S] | None = None
    subtract: Callable[[S, S], S] | None = None


_TAKES = {"start": 0, "add": 2, "result": 1, "merge": 2, "subtract": 2}
"""How many arguments each function of an aggregate takes."""


class _Plain(Aggregate[T, S, R]):
    """One of those here: what it makes is as JSON gives it back."""

    __slots__ = ()


def is_plain(aggregate: Aggregate[Any, Any, Any]) -> bool:
    """Whether what an aggregate makes is as JSON gives it back, or JSON has it not at all."""
    return isinstance(aggregate, _Plain)


def check_aggregate(what: str, aggregate: object) -> None:
    """Raises DeclarationError for what no fold can keep."""
    if not isinstance(aggregate, Aggregate):
        raise DeclarationError(f"{what}: fold({aggregate!r:.100}): give count() or the like")
    for name, takes in _TAKES.items():
        if (function := getattr(aggregate, name)) is not None or name not in ("merge", "subtract"):
            checked_function(f"{what}: Aggregate({name})", function, takes)
    try:
        first = aggregate.start()
        kept = orjson.loads(orjson.dumps(first))
    except Exception as error:
        raise DeclarationError(f"{what}: Aggregate(start) makes no JSON: {error}") from None
    if type(kept) is not type(first) or kept != first:
        raise DeclarationError(
            f"{what}: Aggregate(start) makes {first!r:.100}, which JSON gives back as "
            f"{kept!r:.100}; keep numbers, texts, lists and dictionaries"
        )


def count() -> Aggregate[Any, int, int]:
    """How many events there are."""
    return _Plain(int, lambda n, _: n + 1, lambda n: n, lambda a, b: a + b, lambda a, b: a - b)


def total(of: Callable[[T], Number]) -> Aggregate[T, Sum, Number]:
    """The sum of a number of each event, exact until it is shown.

    It is an int where all are ints and it has 64 bits, else the nearest float.

    Args:
        of: the number of an event: an int or a finite float. Anything else fails the event.
    """
    return _Plain(
        list, lambda sums, event: add_exactly(sums, _number(of(event))), rounded, _both, _less
    )


def mean(of: Callable[[T], Number]) -> Aggregate[T, list[Any], float | None]:
    """The mean of a number of each event, None of none; its sum is exact until it is shown.

    Args:
        of: the number of an event: an int or a finite float. Anything else fails the event.
    """

    def add(found: list[Any], event: T) -> list[Any]:
        return [found[0] + 1, add_exactly(found[1], _number(of(event)))]

    def merge(a: list[Any], b: list[Any]) -> list[Any]:
        return [a[0] + b[0], _both(a[1], b[1])]

    def subtract(a: list[Any], b: list[Any]) -> list[Any]:
        return [a[0] - b[0], _less(a[1], b[1])]

    return _Plain(
        lambda: [0, []], add, lambda found: rounded(found[1]) / found[0] if found[0] else None,
        merge, subtract,
    )  # fmt: skip


def least(of: Callable[[T], V]) -> Aggregate[T, list[V], V | None]:
    """The least value of the events, None of none.

    Args:
        of: the value of an event: a number or a text, which is beyond all numbers. Anything else
            fails the event.
    """
    return _extreme(of, _before)


def most(of: Callable[[T], V]) -> Aggregate[T, list[V], V | None]:
    """The greatest value of the events, None of none.

    Args:
        of: the value of an event: a number or a text, which is beyond all numbers. Anything else
            fails the event.
    """
    return _extreme(of, lambda value, best: _before(best, value))


def _extreme(
    of: Callable[[T], V], beats: Callable[[Any, Any], bool]
) -> Aggregate[T, list[V], V | None]:
    def better(best: list[V], value: V) -> list[V]:
        # What is not equal to itself is a NaN, which would hide all that follows.
        if not isinstance(value, int | float | str) or value != value:
            raise HandlerError(
                f"{value!r:.100} has no place in an order: let `of` return a number or a text, and "
                "filter other events out"
            )
        return [value] if not best or beats(value, best[0]) else best

    return _Plain(
        list,
        lambda best, event: better(best, of(event)),
        lambda best: best[0] if best else None,
        lambda a, b: better(a, b[0]) if b else a,
    )


def _before(a: Any, b: Any) -> bool:
    """The order of numbers and texts. What is equal and looks otherwise, as 1 and 1.0, has one too:
    else which of them is shown would depend on which came first."""
    if isinstance(a, str) is not isinstance(b, str):
        return isinstance(b, str)
    return bool(a < b or (a == b and str(a) < str(b)))


def _both(a: Sum, b: Sum) -> Sum:
    for each in b:
        a = add_exactly(a, each)
    return a


def _less(a: Sum, b: Sum) -> Sum:
    return _both(a, negated(b))


def _number(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise HandlerError(
            f"{type(value).__name__} is no number: let `of` return an int or a float"
        )
    return value
