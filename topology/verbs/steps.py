"""Verbs as one function: what is left of a value after them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

Verb = Literal["filter", "map", "flat_map", "peek"]
Step = tuple[Verb, Callable[[Any], Any]]
"""A verb, and the user's function."""


def named(function: Callable[..., Any], steps: Sequence[Step], *more: str) -> Callable[..., Any]:
    """A handler that says in `describe()` which verbs it is."""
    function.__name__ = " → ".join((*(verb for verb, _ in steps), *more))
    return function


def fused(steps: Sequence[Step]) -> Callable[[Any], Iterable[Any]]:
    """One function that takes the steps in turn: a value → what they make of it, in order."""

    def run(value: Any) -> Iterable[Any]:
        values = [value]
        for verb, function in steps:
            if verb == "filter":
                values = [each for each in values if function(each)]
            elif verb == "map":
                values = [function(each) for each in values]
            elif verb == "flat_map":
                values = [made for each in values for made in function(each)]
            else:
                for each in values:
                    function(each)
            if not values:
                break
        return values

    return run
