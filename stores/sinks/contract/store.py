"""How the contract's tests reach a store: what a test class for a sink says of itself."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest

from stores.sinks import Applied, DeclaredTable, OutputRecord, Sink, StoreError
from stores.sinks.contract.example_records import ODD_NAMES, ORDERS, Rows

KEYS = {"sales": 2, "notes": 2}
"""How many columns the keys have of the tables that the tests make up, where it is not one."""


class StoreUnderTest:
    """See `SinkContract`."""

    steps: ClassVar[Sequence[str]] = ()
    stepping: ClassVar[Any] = None
    atomic: ClassVar[bool] = True
    cut_off_at: ClassVar[Sequence[str] | None] = None
    odd_tables: ClassVar[Sequence[str]] = ODD_NAMES
    examples: ClassVar[int] = 60

    def open(self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> Sink:
        """Open the test's store, or shadow tables in it."""
        raise NotImplementedError

    def forget(self) -> None:
        """Empty the store, or take another place; nothing of it is open."""
        raise NotImplementedError

    def rows(self, table: str) -> Rows:
        """Primary key → other columns that are not null; nothing where there is no such table.

        Read it without the sink where that can be done.
        """
        with self.open() as sink:
            try:
                found = list(sink.rows(table))
            except StoreError:
                return {}
        size = KEYS.get(table, 1)
        pairs = (list(row.items()) for row in found)
        return {tuple(v for _, v in row[:size]): dict(row[size:]) for row in pairs}

    def dead(self) -> list[tuple[str, int, int, str, bytes | None]]:
        """The records that could not be applied: (topic, partition, offset, reason, value)."""
        with self.open() as sink:
            return [each[:5] for each in sink.last_dead(1_000_000)]

    def apply(self, *records: OutputRecord) -> Applied:
        """Apply a batch with a sink of its own, as after a restart."""
        with self.open([ORDERS]) as sink:
            return sink.apply(records)

    def crash_points(self, steps: Sequence[str]) -> Sequence[str]:
        """The steps; skips the test of a sink that names none."""
        if not steps:
            pytest.skip("the sink names no steps to be cut off at")
        return steps

    def crash(self, patch: pytest.MonkeyPatch, sink: Sink, step: str, which: str) -> None:
        """Let a step of the sink end by a `Crash`, `before` or `after` it is done."""
        owner = self.stepping or sink
        patch.setattr(owner, step, crashing(getattr(owner, step), which))


class Crash(Exception):
    """What a step ends by."""


def crashing(step: Callable[..., Any], which: str) -> Callable[..., Any]:
    """The step, with a crash `before` or `after` it."""

    def crash(*arguments: Any) -> Any:
        if which == "after":
            step(*arguments)
        raise Crash

    return crash
