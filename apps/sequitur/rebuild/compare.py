"""Compares the tables of a shadow with the live ones: how many rows, and which of them differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stores.sinks import Sink
from stores.sinks.errors import NoSuchTable
from topology.model.counted import counted

SHOWN = 5
"""Differing rows of a table that are shown."""

Row = Mapping[str, Any]


@dataclass(slots=True)
class Compared:
    """A table. live, shadow: how many rows. only_live, only_shadow, differing: rows by key.

    examples: the first of these, in words.
    """

    table: str
    live: int = 0
    shadow: int = 0
    only_live: int = 0
    only_shadow: int = 0
    differing: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not (self.only_live or self.only_shadow or self.differing)

    def __str__(self) -> str:
        what = f"table {self.table}: {counted(self.live, 'row')} live, {self.shadow:,} rebuilt"
        if self.same:
            return f"{what}, all the same"
        return (
            f"{what}; {self.differing:,} different, {self.only_live:,} only live, "
            f"{self.only_shadow:,} only rebuilt: {'; '.join(self.examples)}"
        )

    def example(self, text: str) -> None:
        if len(self.examples) < SHOWN:
            self.examples.append(text)


def compare(live: Sink, shadow: Sink, table: str, key: Sequence[str]) -> Compared:
    """Compare a table, read in key order on both sides. Raises StoreError."""
    found = Compared(table)
    ours, theirs = _rows(live, table), _rows(shadow, table)
    one, other = next(ours, None), next(theirs, None)
    if one is not None and not one.keys() >= set(key):
        found.live = found.only_live = 1 + sum(1 for _ in ours)
        found.shadow = found.only_shadow = (other is not None) + sum(1 for _ in theirs)
        found.example(f"the live one has another key than {', '.join(key)}")
        return found
    while one is not None or other is not None:
        here = None if one is None else tuple(one[name] for name in key)
        there = None if other is None else tuple(other[name] for name in key)
        if there is None or (here is not None and here < there):
            found.live += 1
            found.only_live += 1
            found.example(f"{_shown(key, here)} is only live")
            one = next(ours, None)
        elif here is None or there < here:
            found.shadow += 1
            found.only_shadow += 1
            found.example(f"{_shown(key, there)} is only rebuilt")
            other = next(theirs, None)
        else:
            found.live += 1
            found.shadow += 1
            if one != other:
                found.differing += 1
                assert one is not None
                assert other is not None
                found.example(f"{_shown(key, here)}: {_difference(one, other)}")
            one, other = next(ours, None), next(theirs, None)
    return found


def _rows(sink: Sink, table: str) -> Iterator[Row]:
    try:
        yield from sink.rows(table)
    except NoSuchTable:
        return  # a table that no row change has made yet has no rows


def count_of(sink: Sink, table: str) -> int:
    """How many rows a table has, 0 where no row change has made it yet. Raises StoreError."""
    try:
        return sink.count(table)
    except NoSuchTable:
        return 0


def _shown(key: Sequence[str], values: tuple[Any, ...] | None) -> str:
    return str(dict(zip(key, values or (), strict=True)))


def _difference(one: Row, other: Row) -> str:
    columns = sorted(c for c in one.keys() | other.keys() if one.get(c) != other.get(c))
    return ", ".join(f"{c} {one.get(c)!r} is {other.get(c)!r} rebuilt" for c in columns[:3])
