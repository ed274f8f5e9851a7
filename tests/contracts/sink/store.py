"""How the contract's tests reach a backend's store."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import pytest

from stores.sinks import Applied, DeclaredTable, OutputRecord, Sink
from tests.contracts.sink.records import ODD_NAMES, ORDERS, Rows


class Store:
    """What a backend's test class says of itself: how its store is opened and looked into."""

    steps: ClassVar[Sequence[str]]
    """Methods, in order, that a batch is written by."""
    stepping: ClassVar[Any] = None
    """The class that has these methods; None for the sink itself."""
    atomic: ClassVar[bool] = True
    """Whether all that a batch writes is committed at once; otherwise the last step commits it."""
    cut_off_at: ClassVar[Sequence[str] | None] = None
    """The steps at which a batch is cut off that comes again in other batches; None for all."""
    odd_tables: ClassVar[Sequence[str]] = ODD_NAMES
    """What tables are called whose names are odd."""
    examples: ClassVar[int] = 60
    """How many logs to make up."""

    def open(self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> Sink:
        """Open the test's store, or a shadow of it."""
        raise NotImplementedError

    def rows(self, table: str) -> Rows:
        """Primary key → other columns that are not null; read without the sink."""
        raise NotImplementedError

    def dead(self) -> list[tuple[str, int, int, str, bytes | None]]:
        """The records that could not be applied: (topic, partition, offset, reason, value)."""
        raise NotImplementedError

    def forget(self) -> None:
        """Empty the store."""
        raise NotImplementedError

    def apply(self, *records: OutputRecord) -> Applied:
        """Apply a batch with a sink of its own, as after a restart."""
        with self.open([ORDERS]) as sink:
            return sink.apply(records)

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
