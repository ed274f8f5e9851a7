"""What a scenario is: how it is measured, and how its figures are shown."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from bench.bench import Bench
from bench.results import Sample

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column:
    """A value in the scenario's table. digits: after the point.

    base: the subject by whose median it is divided, which makes it a ratio.
    over: values of the same subject; it is divided by the highest of these.
    """

    title: str
    value: str
    digits: int = 0
    base: str | None = None
    over: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """run: → samples of one repeat. how: what the reader has to know of the measuring.

    subjects: how subjects are shown, where not by their own names.
    """

    name: str
    title: str
    how: str
    columns: tuple[Column, ...]
    run: Callable[[Bench], Iterator[Sample]]
    subjects: Mapping[str, str] = field(default_factory=dict)


def in_turn(contestants: Iterable[T], turn: int) -> list[T]:
    """Who begins changes from repeat to repeat: the machine is not always as fast."""
    found = list(contestants)
    first = turn % len(found) if found else 0
    return found[first:] + found[:first]
