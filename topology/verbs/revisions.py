"""Rows that may be revised, and folds of them by differences. Pure.

Who reads rows keeps in a cell what it has said of each: [key, time, missing, what was made of it].
The difference to that is what a change comes to, whatever made the row change.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from topology.model.changes import FailedRows, Late, Output
from topology.model.errors import HandlerError, described
from topology.verbs.aggregates import Aggregate
from topology.verbs.contributions import Part
from topology.verbs.window_fold import EVER
from topology.verbs.windows import Windows

Cells = MutableMapping[str, Any]
X = TypeVar("X")
Applied = tuple[int, int, list[Any] | None]
"""(start, end, cell) of a window that changes, None for the cell where nothing is left."""
Said = list[Output | Late | FailedRows]


@dataclass(slots=True)
class Change:
    """A row as an event leaves it.

    id: tells it from the other rows of its stream. row: it; of one that is gone, its key is right.
    time: what windows go by (ms); the same for as long as the row is there. missing: what was given
    up before it. gone: whether it is there no longer. settled: whether nothing revises it any more.
    """

    id: str
    row: Any
    time: int = 0
    missing: int = 0
    gone: bool = False
    settled: bool = False


Sink = Callable[[Any, bool], Output]
"""A row, and whether it is there no longer → what is said of it."""
Reader = Callable[[str, Sequence[Change], Cells], Iterable[Output]]
"""(stream, all rows that one event of it changes, the stream's cells) → what is said of it."""


def told_by_row(
    told: Reader,
    stream: str,
    items: Sequence[X],
    change_of: Callable[[X], Change],
    gone_of: Callable[[X], tuple[str, Change]],
    cells: Cells,
) -> Said:
    """What readers say of the rows that one event changes.

    Where something of the event has failed before, each row is tried by itself. One that cannot be
    made holds up no other, nor what the event does besides: a right event of a lookup, or a
    contribution to a fold, would be lost for all rows. It is there no longer, whatever it was
    before, so that this does not depend on the order of events either.

    Args:
        told: the readers.
        stream: the event's.
        items: what rows are made of.
        change_of: a row, of such an item.
        gone_of: (which row, in words; the row as one that is there no longer).
        cells: the stream's.
    """
    attempt = getattr(cells, "attempt", None)
    if attempt is None:
        return [*told(stream, [change_of(item) for item in items], cells)]
    changes, errors = list[Change](), list[BaseException]()
    for item in items:
        trial = cells.apart()  # type: ignore[attr-defined]
        try:
            change = change_of(item)
            attempt(told(stream, [change], trial))
            trial.changed()
        except Exception as error:
            which, change = gone_of(item)
            failed = HandlerError(f"{which} cannot be made: {described(error)}")
            failed.__cause__ = error
            errors.append(failed)
        changes.append(change)
    said = told(stream, changes, cells)
    return [*said, FailedRows(errors)] if errors else [*said]


def differences(
    name: str,
    changes: Iterable[Change],
    cells: Cells,
    part_of: Callable[[Change], Part | None],
) -> dict[str, tuple[list[Part], list[Part]]]:
    """What changes come to: key → (what is to be added, what is not so any more).

    name: of who reads. part_of: a row → [key, time, missing, what is made of it], None for nothing.
    """
    found: dict[str, tuple[list[Part], list[Part]]] = {}
    for change in changes:
        at = f"{name}:{change.id}"
        before = cells.get(at)
        now = None if change.gone else part_of(change)
        if now != before:
            for part, which in ((now, 0), (before, 1)):
                if part is not None:
                    found.setdefault(part[0], ([], []))[which].append(part[1:])
        if now is not None and not change.settled:
            cells[at] = now
        elif before is not None:
            del cells[at]
    return found


def applied(
    prefix: str,
    plus: Iterable[Part],
    minus: Iterable[Part],
    cells: Cells,
    aggregate: Aggregate[Any, Any, Any],
    windows: Windows | None,
    over: int | None = None,
) -> list[Applied]:
    """Add to the fold of a key, and take away from it.

    prefix: of its cells' keys, each [what there is, missing, how many parts it has]. over: windows
        that have ended by then are left out.

    Returns:
        Each window that changes.
    """
    changed: dict[int, tuple[int, list[Any]]] = {}
    for parts, combine, sign in ((minus, aggregate.subtract, -1), (plus, aggregate.merge, 1)):
        for part in parts:
            for start, end in [(0, EVER)] if windows is None else windows.of(part[0]):
                if over is not None and end <= over:
                    continue
                cell = cells.setdefault(f"{prefix}{start}", [aggregate.start(), 0, 0])
                if len(part) > 2:
                    assert combine is not None
                    cell[0] = combine(cell[0], part[2])
                    cell[2] += sign
                cell[1] += sign * part[1]
                changed[start] = end, cell
    rows: list[Applied] = []
    for start, (end, cell) in changed.items() if len(changed) < 2 else sorted(changed.items()):
        if not cell[2] and not cell[1]:
            del cells[f"{prefix}{start}"]
        rows.append((start, end, cell if cell[2] > 0 else None))
    return rows
