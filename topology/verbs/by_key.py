"""Folds by a key of the event, over all streams: one hop through a topic of the topology's own.

Streams have no order among each other. So what crosses them is combined with `Aggregate.merge`,
whose result must not depend on the order; everything else about the rows is kept to that, too: no
window is closed, and none is too old.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack

from topology.declaration.starts import First
from topology.model.changes import Emit, Output
from topology.model.column_types import ColumnType
from topology.model.errors import DeclarationError, HandlerError
from topology.model.event import Event
from topology.verbs.aggregates import Aggregate, check_aggregate
from topology.verbs.contributions import (
    Contribution,
    InOffsetOrder,
    as_correction,
    contribution_of,
)
from topology.verbs.declared_views import ViewOptions, declare
from topology.verbs.fold_rows import Fold
from topology.verbs.folds import Input
from topology.verbs.steps import fused, named
from topology.verbs.window_fold import EVER, missing_before
from topology.verbs.windows import Hopping, Session, Windows, milliseconds_of, moment

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")

SESSIONS = (
    "window(session(…)) behind by(…): sessions of several streams; use each().window(session(…)), "
    "or tumbling(…) and hopping(…)"
)


@dataclass(frozen=True, slots=True)
class KeyRow(Generic[R]):
    """What a fold by key has found, of one key in one window.

    Attributes:
        key: the key.
        start: when the window begins; None of a fold without windows.
        end: when it ends.
        value: the aggregate's result.
        missing: how many events were given up, or failed, right before one of this window in the
            stream of that.
    """

    key: str
    start: datetime | None
    end: datetime | None
    value: R
    missing: int


@dataclass(frozen=True, slots=True)
class ByKey(Generic[T]):
    """Events of all streams, by a key of theirs."""

    _input: Input
    _key: Callable[[Any], Any]
    _windows: Windows | None = None

    def window(self, windows: Windows) -> "ByKey[T]":
        """Split each key's events by time: `tumbling` or `hopping`.

        Args:
            windows: what assigns events to windows.

        Raises:
            DeclarationError: they are sessions, or nothing says when events happened.
        """
        if isinstance(windows, Session):
            raise DeclarationError(SESSIONS)
        if not isinstance(windows, Hopping):
            raise DeclarationError(f"window({windows!r:.100}): give tumbling(…) or hopping(…)")
        if self._input.time is None:
            raise DeclarationError("window(…): say when events happened, as in events(…, time=…)")
        return replace(self, _windows=windows)

    def fold(
        self, aggregate: Aggregate[T, S, R], *, name: str, **options: Unpack[ViewOptions]
    ) -> Fold[KeyRow[R]]:
        """Fold the events of each key, and window.

        There are two views: `<name>-by` takes the streams in sequence, and sends what each event
        comes to by key to the topic `<topology>.<name>.by-key`; the other one, with the name given,
        combines that.

        Args:
            aggregate: what to make of them; its `merge` combines what several events come to, in
                any order.
            name: of the view that combines.
            options: what `Topology.view` takes, for the view `<name>-by`; `tables` are those of
                the view that combines.

        Returns:
            The fold, for `to_rows` and `to`.

        Raises:
            DeclarationError: a name is taken or no name, an option is wrong, or the aggregate has
                no `merge`.
        """
        check_aggregate(f"view {name!r}", aggregate)
        if aggregate.merge is None:
            raise DeclarationError(
                f"view {name!r}: by(…) combines what events of several streams come to, in any "
                "order; give Aggregate(merge=…)"
            )
        if options.get("reopen") == "start":
            raise DeclarationError(
                f"view {name!r}: reopen='start': a stream that begins again would be counted again;"
                " write a handler that tells its lives apart"
            )
        topic = f"{self._input.graph.name}.{name}.by-key"
        tables = options.pop("tables", ())
        self._send(aggregate, name, topic, options)
        return self._combine(aggregate, name, topic, ViewOptions(tables=tables))

    def _send(
        self, aggregate: Aggregate[Any, Any, Any], name: str, topic: str, options: ViewOptions
    ) -> None:
        """Declare the view that takes the streams in sequence."""
        given, key, view = self._input, self._key, f"{name}-by"
        order, run = given.source.sequence, fused(given.steps)
        starts = isinstance(options.get("start") or First(), First)
        first = order.start - order.step if starts else None

        def send(event: Event, state: dict[str, Any]) -> Iterator[Emit]:
            content = given.read(event.content)
            time = 0 if given.time is None else milliseconds_of(given.time(content))
            missing = state.pop("missing", 0)
            if order.counts:
                missing += missing_before(state, event.sequence, order.step, first)
            found: dict[str, Any] = {}
            for value in run(content):
                at = _text(key(value))
                before = found[at] if at in found else aggregate.start()
                found[at] = aggregate.add(before, value)
            if not found and missing:
                state["missing"] = missing  # the next event that has a key has them
            for at, made in found.items():
                yield Emit(topic, at, Contribution(missing, time, [made]).encode())
                missing = 0

        graph = given.graph
        declare(graph, view, given.source, named(send, given.steps, "by"), options, emits=[topic])
        declared = graph.views[view]
        graph.replace_view(replace(declared, hops={topic: as_correction}))

    def _combine(
        self, aggregate: Aggregate[Any, Any, Any], name: str, topic: str, options: ViewOptions
    ) -> Fold[KeyRow[Any]]:
        """Declare the view that combines what comes from all streams."""
        graph, windows, merge = self._input.graph, self._windows, aggregate.merge
        assert merge is not None
        key: dict[str, ColumnType] = {"key": str}
        own: dict[str, ColumnType] = {"missing": int}
        if windows is not None:
            key["start"] = own["end"] = datetime
        found: Fold[KeyRow[Any]] = Fold(graph, name, key, own)

        def combine(event: Event, state: dict[str, Any], cells: Any) -> Iterator[Output]:
            part: Contribution = event.content
            mark = f"from {part.stream}"
            if [part.epoch, part.sequence] <= cells.get(mark, []):
                return  # it was sent again after a crash
            cells[mark] = [part.epoch, part.sequence]
            missing = part.missing
            for start, end in [(0, EVER)] if windows is None else windows.of(part.time):
                cell = cells.setdefault(str(start), [aggregate.start(), 0])
                for made in part.made:
                    cell[0] = merge(cell[0], made)
                cell[1] += missing
                yield from _said(event.stream, start, end, cell)

        def _said(key: str, start: int, end: int, cell: list[Any]) -> Iterator[Output]:
            first = None if windows is None else moment(start)
            last = None if windows is None else moment(end)
            row = KeyRow(key, first, last, aggregate.result(cell[0]), cell[1])
            for sink in found._sinks:
                yield sink(row, False)

        source = graph.add_hop(
            f"{name}-by", topic, (f"{name}-by",), contribution_of, InOffsetOrder(),
            self._input.source.partitions,
        )  # fmt: skip
        over = () if windows is None else (str(windows),)
        declare(graph, name, source, named(combine, (), *over, "fold by key"), options)
        return found


def _text(key: Any) -> str:
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if not isinstance(key, str) or not key:
        raise HandlerError(
            f"by(…) returned {key!r:.100}; let it return a text or a whole number, and filter "
            "events without a key out"
        )
    return key
