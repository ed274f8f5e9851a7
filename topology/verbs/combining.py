"""The view that combines what comes to a key from all streams, over a topic of the topology's own.

Streams have no order among each other. So what crosses them is combined with `Aggregate.merge`,
whose result must not depend on the order; everything else about the rows is kept to that, too: no
window is closed, and none is too old unless the user says so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar

from topology.declaration.policies import Advance, OnError
from topology.declaration.seconds import is_seconds
from topology.declaration.topology import Topology
from topology.declaration.view import CellRange
from topology.inspectors.normalise import STREAM_LETTERS
from topology.inspectors.stream_ids import StreamIds
from topology.model.changes import Late
from topology.model.column_types import ColumnType
from topology.model.errors import DeclarationError, HandlerError
from topology.model.event import Event
from topology.model.table import Table
from topology.verbs.aggregates import Aggregate, is_plain
from topology.verbs.contributions import Contribution, InOffsetOrder, contribution_of
from topology.verbs.declared_views import declare
from topology.verbs.hop_inspector import HopInspector
from topology.verbs.kept_windows import KeptWindows
from topology.verbs.revisions import Applied, Cells, Change, Reader, Said, applied, told_by_row
from topology.verbs.steps import named
from topology.verbs.windows import Hopping, Session, Windows, moment

R = TypeVar("R")

SESSIONS = (
    "window(session(…)) behind by(…): sessions of several streams; use each().window(session(…)), "
    "or tumbling(…) and hopping(…)"
)
EARLY = "window(…): say when events happened, as in events(…, time=…)"
KEYS = StreamIds()
"""How keys are read: GUIDs in lower case with hyphens, any other text as it is."""


class CombineOptions(TypedDict, total=False):
    """What `Topology.view` takes of a view that combines; its input has no gaps."""

    error: OnError
    tables: Iterable[Table]
    timeout: float


@dataclass(frozen=True, slots=True)
class KeyRow(Generic[R]):
    """What a fold by key has found, of one key in one window.

    Attributes:
        key: the key; the stream of a fold of rows within their view.
        start: when the window begins; None of a fold without windows.
        end: when it ends.
        value: the aggregate's result.
        missing: how many events were given up, or failed, right before one of this window in the
            stream of that; of rows, the sum of theirs.
    """

    key: str
    start: datetime | None
    end: datetime | None
    value: R
    missing: int


def key_columns(windows: Windows | None) -> tuple[dict[str, ColumnType], dict[str, ColumnType]]:
    """(the key, the other columns but `value`) of rows by key."""
    if windows is None:
        return {"key": str}, {"missing": int}
    return {"key": str, "start": datetime}, {"missing": int, "end": datetime}


def combined(
    graph: Topology,
    name: str,
    topic: str,
    fed_by: str,
    aggregate: Aggregate[Any, Any, Any],
    windows: Hopping | None,
    options: CombineOptions,
    told: Reader,
    forget: Callable[[str, Cells], None],
    keep: int | None = None,
) -> None:
    """Declare the view that combines, and the topic between.

    Args:
        graph: the topology.
        name: the view's.
        topic: the topic.
        fed_by: the view that fills it.
        aggregate: with a `merge`.
        windows: of the key's events or rows.
        options: the view's.
        told: says what is to be said of its rows.
        forget: is called with a row that nothing revises any more.
        keep: ms behind the key's clock for which windows are kept, None for ever.

    Raises:
        DeclarationError: a name is taken or no name, or an option is wrong.
    """
    if unknown := options.keys() - CombineOptions.__annotations__.keys():
        raise DeclarationError(
            f"view {name!r}: {min(unknown, key=str)}= is no option of a view that combines, which "
            f"has {', '.join(CombineOptions.__annotations__)}"
        )

    def bounds(start: int, end: int) -> tuple[datetime | None, datetime | None]:
        return (None, None) if windows is None else (moment(start), moment(end))

    def row(key: str, start: int, end: int, cell: Sequence[Any]) -> KeyRow[Any]:
        return KeyRow(key, *bounds(start, end), aggregate.result(cell[0]), cell[1])

    def combine(event: Event, state: dict[str, Any], cells: Cells) -> Said:
        part: Contribution = event.content
        mark = f"from {part.stream}"
        known = cells.get(mark, [])
        if [part.epoch, part.sequence] <= known[:2]:
            return []  # it was sent again after a crash
        cells[mark] = [part.epoch, part.sequence, *known[2:]]
        said: Said = []
        kept, over, key = None, None, event.stream
        if keep is not None and windows is not None:
            kept = KeptWindows(windows, keep, state, cells)
            over = kept.over
            if (refused := kept.refused([*part.plus, *part.minus])) is not None:
                late = f"its window, which began at {moment(refused)}, is kept no more"
                said.append(Late(late))

        def change_of(item: Applied) -> Change:
            start, end, cell = item
            if cell is None:
                return gone_of(item)[1]
            made = row(key, start, end, cell)
            return Change(str(start), made, start, made.missing)

        def gone_of(item: Applied) -> tuple[str, Change]:
            start, end, _ = item
            made: KeyRow[Any] = KeyRow(key, *bounds(start, end), None, 0)
            which = f"the row of key {key!r}" + (f", {made.start}" if windows is not None else "")
            return which, Change(str(start), made, start, gone=True)

        changed = applied("", part.plus, part.minus, cells, aggregate, windows, over)
        said += told_by_row(told, key, changed, change_of, gone_of, cells)
        if kept is not None:
            parts = [*part.plus, *part.minus]
            for start in kept.took(part.stream, parts, [start for start, _, _ in changed]):
                forget(str(start), cells)
        return said

    def rows(key: str, _: Any, cells: CellRange) -> Iterator[Any]:
        for at, cell in cells("-", ":"):  # numbers: all other cells begin with a letter
            if cell[2] > 0:
                start = int(at)
                end = start if windows is None else start + windows.size
                try:
                    made = row(key, start, end, cell)
                except Exception:
                    continue  # there is none: the error log has said so
                yield asdict(made)

    order, partitions = InOffsetOrder(), graph.views[fed_by].of.partitions
    inspector = HopInspector(contribution_of, KEYS)
    source = graph.add_hop(f"{name}-by", topic, (fed_by,), inspector, order, partitions)
    over = () if windows is None else (str(windows),)
    handler = named(combine, (), *over, "fold by key")
    given: Any = {**options}
    declare(graph, name, source, handler, given, plain_state=is_plain(aggregate))
    view = graph.views[name]
    # An error policy of the user's is for the whole event.
    by_row = isinstance(view.error, Advance)
    graph.replace_view(replace(view, folds={name: rows}, by_row=by_row))


def checked_windows(windows: object, timed: bool, keep: float | None) -> tuple[Hopping, int | None]:
    """(the windows, for how many ms they are kept, None for ever).

    Raises DeclarationError for windows that several streams cannot have, and what is no time.
    """
    if keep is not None and keep != 0 and not is_seconds(keep):
        raise DeclarationError(f"window(keep={keep!r}): give 0 or more seconds, or None for ever")
    if isinstance(windows, Session):
        raise DeclarationError(SESSIONS)
    if not isinstance(windows, Hopping):
        raise DeclarationError(f"window({windows!r:.100}): give tumbling(…) or hopping(…)")
    if not timed:
        raise DeclarationError(EARLY)
    return windows, None if keep is None else round(keep * 1000)


def key_text(key: Any, ids: StreamIds = KEYS, of: str = "by(…)") -> str:
    """A key as its record has it. Raises HandlerError for what is none."""
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if not isinstance(key, str) or not key:
        raise HandlerError(
            f"{of} returned {key!r:.100}; let it return a text or a whole number, and filter "
            "events without a key out"
        )
    if len(key) > STREAM_LETTERS:
        raise HandlerError(
            f"{of} returned {key[:40]!r}… of {len(key)} letters; the limit is {STREAM_LETTERS}"
        )
    if "\0" in key:
        raise HandlerError(f"{of} returned {key[:100]!r}, which has a NUL; no stream has one")
    return ids.read(str.__str__(key))  # of an enum, too
