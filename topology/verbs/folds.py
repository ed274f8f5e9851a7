"""Folds over each stream's own events: as long as the stream, or window by window."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack

from topology.declaration.seconds import is_seconds
from topology.declaration.view import CellRange
from topology.model.changes import Late, Output
from topology.model.column_types import ColumnType
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.verbs.aggregates import Aggregate, check_aggregate, is_plain
from topology.verbs.declared_views import ViewOptions
from topology.verbs.inputs import Input
from topology.verbs.revisions import Change
from topology.verbs.rows import Rows
from topology.verbs.steps import fused, named
from topology.verbs.window_fold import Folded, WindowFold
from topology.verbs.windows import Hopping, Session, Windows, moment

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")
REOPEN = (
    "a stream that begins again would begin its rows again; write a handler whose rows tell its "
    "lives apart"
)


@dataclass(frozen=True, slots=True)
class Row(Generic[R]):
    """What a fold has found, of one stream in one window.

    Attributes:
        stream: the stream.
        start: when the window begins; None of a fold without windows.
        end: when it ends, and is final; that of a session moves with it.
        value: the aggregate's result.
        final: whether the stream has passed the window, or was closed. What comes later in the
            sequence, but with an earlier time, revises it as long as it is kept.
        missing: how many events were given up, or failed, right before one of this window.
    """

    stream: str
    start: datetime | None
    end: datetime | None
    value: R
    final: bool
    missing: int


@dataclass(frozen=True, slots=True)
class EachStream(Generic[T]):
    """Each stream by itself."""

    _input: Input

    def window(self, windows: Windows, keep: float = 0) -> "Windowed[T]":
        """Split each stream by time: `tumbling`, `hopping` or `session`.

        A stream's clock is its own, the latest time of its events in sequence; no wall clock and no
        other stream closes a window.

        Args:
            windows: what assigns events to windows.
            keep: seconds of the stream's clock for which a window that is final may be revised by
                an event with an earlier time. What is for an older one goes to the late topic.

        Raises:
            DeclarationError: a number is wrong, or nothing says when events happened.
        """
        if not isinstance(windows, Hopping | Session):
            raise DeclarationError(
                f"window({windows!r:.100}): give tumbling(…), hopping(…) or session(…)"
            )
        if self._input.time is None:
            raise DeclarationError("window(…): say when events happened, as in events(…, time=…)")
        if keep != 0 and not is_seconds(keep):
            raise DeclarationError(f"window(keep={keep!r}): give 0 or more seconds")
        return Windowed(self._input, windows, round(keep * 1000))

    def fold(
        self, aggregate: Aggregate[T, S, R], *, name: str, **options: Unpack[ViewOptions]
    ) -> Rows[Row[R]]:
        """Fold all events of each stream, as long as it lasts.

        Args:
            aggregate: what to make of them.
            name: of the view that does it.
            options: what `Topology.view` takes.

        Raises:
            DeclarationError: a name is taken or no name, or an option is wrong.
        """
        return _declared(self._input, None, 0, aggregate, name, options)


@dataclass(frozen=True, slots=True)
class Windowed(Generic[T]):
    """Each stream by itself, window by window."""

    _input: Input
    _windows: Windows
    _keep: int

    def fold(
        self, aggregate: Aggregate[T, S, R], *, name: str, **options: Unpack[ViewOptions]
    ) -> Rows[Row[R]]:
        """Fold the events of each window.

        Args:
            aggregate: what to make of them; sessions need one with `merge`.
            name: of the view that does it.
            options: what `Topology.view` takes.

        Raises:
            DeclarationError: a name is taken or no name, or an option is wrong.
        """
        check_aggregate(f"view {name!r}", aggregate)
        if self._windows.merging and aggregate.merge is None:
            raise DeclarationError(
                f"view {name!r}: an event may join two sessions; give Aggregate(merge=…)"
            )
        return _declared(self._input, self._windows, self._keep, aggregate, name, options)


def _declared(
    given: Input,
    windows: Windows | None,
    keep: int,
    aggregate: Aggregate[Any, Any, R],
    name: str,
    options: ViewOptions,
) -> Rows[Row[R]]:
    check_aggregate(f"view {name!r}", aggregate)
    given.check_reopen(name, options, REOPEN)
    order = given.source.sequence
    fold = WindowFold(
        windows, aggregate, keep, order.step, given.first(options), order.counts
    )  # fmt: skip
    run = fused(given.steps)
    key: dict[str, ColumnType] = {"stream": str}
    own: dict[str, ColumnType] = {"missing": int, "final": bool}
    if windows is not None:
        key["start"] = own["end"] = datetime
    windowed = windows is not None
    within = given.within
    fold_name, cells_of = ("", "") if within is None else (name, within.cells)
    found: Rows[Row[R]] = Rows(
        given.graph, given.view(name), key, own, windowed, _fold=fold_name, _cells=cells_of
    )

    readers, sinks = found._readers, found._sinks.values()

    def handle(event: Event, state: dict[str, Any], cells: Any = None) -> list[Output | Late]:
        content, time = given.taken(event)
        closes = event.kind in kinds
        rows, beyond, over = fold.take(state, event.sequence, time, run(content), closes)
        said: list[Output | Late] = []
        if readers:
            clock = state["clock"] - keep
            changes = [
                Change(
                    str(each.start) if windowed else "", _row(event.stream, each, windowed),
                    each.start, each.missing, each.gone, each.end <= clock,
                )
                for each in rows
            ]  # fmt: skip
            said += found.told(event.stream, changes, cells)
            for start in over:
                found.forget(start, cells)
        else:
            for each in rows:
                row = _row(event.stream, each, windowed)
                for sink in sinks:
                    said.append(sink(row, each.gone))
        if beyond is not None:
            said.append(Late(f"its window, which began at {moment(int(beyond))}, is kept no more"))
        return said

    over = () if windows is None else (str(windows),)
    handler = named(handle, given.steps, *over, "fold")
    given.declare(name, handler, options, plain_state=is_plain(aggregate))
    view = given.graph.views[given.view(name)]
    kinds = view.closing.kinds if view.closing else ()

    def rows_of(stream: str, state: dict[str, Any], cells: CellRange) -> Iterator[Any]:
        if within is not None:
            at = within.cell(name)
            state = next((cell for _, cell in cells(at, f"{at}\0")), {})
        for each in fold.rows(state):
            yield asdict(_row(stream, each, windowed))

    given.graph.replace_view(replace(view, folds={**view.folds, name: rows_of}))
    return found


def _row(stream: str, found: Folded[Any], windowed: bool) -> Row[Any]:
    start = moment(found.start) if windowed else None
    end = moment(found.end) if windowed else None
    return Row(stream, start, end, found.value, found.final, found.missing)
