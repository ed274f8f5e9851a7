"""What a view's rows say of one stream, as of the last commit."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from topology.declaration.view import View
from topology.engine.state.cells import decode_cell
from topology.engine.state.rows import (
    cell_key,
    cell_range,
    decode_progress,
    progress_key,
    split_cell_key,
    without_state,
)
from topology.model.partition_table import PartitionTable
from topology.sequencer.progress import Progress, last_of

LIMIT = 1_000
"""Cells or rows of a page, at most."""
BYTES = 1_000_000
"""Bytes of a page after which no more is added to it."""


@dataclass(frozen=True, slots=True)
class StreamReading:
    """A stream in a view. known: whether the view has seen it. sequence: its last processed one.
    waits: whether events of it wait for others before them."""

    known: bool
    sequence: int | None
    epoch: int
    waits: bool
    state: dict[str, Any]


class StreamReader:
    """Reads one stream of a view from the rows of its table.

    Args:
        view: the view.
        table: its table in the stream's partition.
        stream: the stream.
    """

    def __init__(self, view: View, table: PartitionTable, stream: str) -> None:
        self._view, self._table, self._stream = view, table, stream
        row = table.get(progress_key(stream))
        progress, state = (view.ordering.first, None) if row is None else decode_progress(row)
        self._last = last_of(progress)
        whole = progress if isinstance(progress, Progress) else Progress(progress)
        self.stream = StreamReading(
            known=row is not None,
            sequence=None if row is None or self._last == view.ordering.first else self._last,
            epoch=whole.epoch,
            waits=bool(row and b'"since":' in without_state(row)),
            state={} if state is None else orjson.loads(state),
        )

    def cells(self, first: str = "", end: str = "", skip: int = 0) -> Iterator[tuple[str, Any]]:
        """The cells from one key on, before another, as texts sort.

        Args:
            first: a key, empty for the first.
            end: a key, empty for no end.
            skip: how many are left out.
        """
        low, high = cell_range(self._stream)
        if first:
            low = cell_key(self._stream, first)
        if end:
            high = cell_key(self._stream, end)
        found = (
            (split_cell_key(key)[1], orjson.loads(value))
            for key, row in self._table.scan(low, high)
            if (value := decode_cell(row, self._last)) is not None
        )
        return islice(found, skip, None)

    def rows(self, fold: str, skip: int = 0) -> Iterator[Any]:
        """The rows of a fold that may still change.

        Args:
            fold: its name.
            skip: how many are left out.

        Raises:
            KeyError: the view has no such fold.
        """
        rows = self._view.folds[fold](self._stream, self.stream.state, self.cells)
        return islice(iter(rows), skip, None)


def page(found: Iterator[Any], limit: int, skip: int) -> tuple[list[Any], int | None]:
    """(some of what there is, how many the next page leaves out; None where this is the last).

    limit: how many at most. skip: how many `found` has left out.
    """
    taken: list[Any] = []
    size = 0
    for each in found:
        if len(taken) >= min(limit, LIMIT) or size >= BYTES:
            return taken, skip + len(taken)
        taken.append(each)
        size += len(orjson.dumps(each, default=str))
    return taken, None
