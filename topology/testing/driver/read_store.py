"""The read store of a test: the tables that row changes make, by the very rules of the sinks."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from stores.sinks import DeadRecord, OutputRecord, Position
from stores.sinks.columns import read
from stores.sinks.decoding import Mark, Stream
from stores.sinks.limits import DELTA_LIMITS, NO_LIMITS, POSTGRES_LIMITS, STRICTEST, StoreLimits
from stores.sinks.reduction import FEW, Reduction
from stores.sinks.schema import Schema, TableState
from topology.model.table import Table

StoreRules = Literal["any", "sqlite", "postgresql", "delta"]
"""Whose rules hold for rows; `any`: a row is taken that every read store takes."""
LIMITS: Mapping[StoreRules, StoreLimits] = {
    "any": STRICTEST,
    "sqlite": NO_LIMITS,
    "postgresql": POSTGRES_LIMITS,
    "delta": DELTA_LIMITS,
}

Row = dict[str, Any]


class DeadRow(AssertionError):
    """A read store would have put a record's row changes aside; the text says which, and why."""


class ReadStore:
    """tables: name → key → row; a column that was set to None is None. dead: the records that
    could not be applied.

    declared: tables that are there from the start. Raises StoreError where they contradict each
    other, ValueError for a store that there is not.
    """

    at_once = FEW

    def __init__(self, declared: Iterable[Table], store: StoreRules) -> None:
        if store not in LIMITS:
            raise ValueError(f"store={store!r}: it is one of {', '.join(get_args(StoreRules))}")
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {}
        self.dead: list[DeadRecord] = []
        self._marks: dict[Stream, Mark] = {}
        self._positions: dict[tuple[str, int], Position] = {}
        self._schema = Schema([], (), LIMITS[store])
        for table in declared:
            self._schema.declare(table)

    def apply(self, records: Iterable[OutputRecord]) -> list[DeadRecord]:
        """Apply records as a sink does; return those that cannot be."""
        positions = {at: replace(position) for at, position in self._positions.items()}
        reduction = Reduction(self._schema, self, positions)
        reduction.fold(records)
        for name, rows in reduction.rows.items():
            table, kept = self._schema.tables[name], self.tables.setdefault(name, {})
            for key, values in rows.values.items():
                at = tuple(map(read, key, table.key.values()))
                if values is None or key in rows.reset:
                    kept.pop(at, None)
                if values is not None:
                    row = kept.setdefault(at, dict(zip(table.key, at, strict=True)))
                    row.update(_read(values, table))
        self._marks.update({stream: reduction.marks[stream] for stream in reduction.moved})
        self._positions.update(reduction.positions)
        self.dead += reduction.dead
        return reduction.dead

    # What a reduction asks.

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """See `StoredProgress.marks`."""
        return {stream: self._marks[stream] for stream in streams if stream in self._marks}

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """See `StoredProgress.is_dead`."""
        return any(each[:3] == (topic, partition, offset) for each in self.dead)

    def forgetting(self, topic: str) -> str:
        """See `StoredProgress.forgetting`."""
        return "make a new driver"


def _read(values: Row, table: TableState) -> Row:
    kinds = table.columns
    return {c: None if v is None else read(v, kinds[c]) for c, v in values.items()}
