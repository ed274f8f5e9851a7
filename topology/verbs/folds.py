"""Folds over each stream's own events: as long as the stream, or window by window."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Generic, TypeVar, Unpack

from topology.declaration.seconds import is_seconds
from topology.declaration.source import Source
from topology.declaration.starts import First
from topology.declaration.topology import Topology
from topology.model.changes import Delete, Emit, Late, Output, Upsert
from topology.model.column_types import ColumnType
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.model.names import checked_topic
from topology.model.table import Table
from topology.verbs.aggregates import Aggregate, check_aggregate
from topology.verbs.declared_views import ViewOptions, declare, own_table, sends_to
from topology.verbs.steps import Step, checked_columns, checked_function, fused, named, written
from topology.verbs.window_fold import Folded, WindowFold
from topology.verbs.windows import Hopping, Session, Windows, milliseconds_of, moment

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Input:
    """What a fold takes: a source's content, read, with its time, and the verbs so far."""

    graph: Topology
    source: Source
    read: Callable[[Any], Any]
    time: Callable[[Any], Any] | None
    steps: tuple[Step, ...]


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
        if keep and not is_seconds(keep):
            raise DeclarationError(f"window(keep={keep!r}): give 0 or more seconds")
        return Windowed(self._input, windows, round(keep * 1000))

    def fold(
        self, aggregate: Aggregate[T, S, R], *, name: str, **options: Unpack[ViewOptions]
    ) -> "Fold[R]":
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
    ) -> "Fold[R]":
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


Sink = Callable[[Folded[Any], Row[Any]], Output]


@dataclass(frozen=True, slots=True)
class Fold(Generic[R]):
    """A fold that was declared: where its rows go."""

    _graph: Topology
    _name: str
    _windowed: bool
    _sinks: list[Sink] = field(default_factory=list)

    def to_rows(
        self, table: str, columns: Mapping[str, Callable[[Row[R]], Any]] | None = None
    ) -> "Fold[R]":
        """Write what was found to a read-store table, one row for each stream and window.

        The key is `stream`, and `start` where there are windows.

        Args:
            table: the table.
            columns: column → a function of the `Row`; `value`, `missing`, `final` and, of windows,
                `end` unless given.

        Returns:
            The fold, for another verb.

        Raises:
            DeclarationError: the table is another view's, or its name is none.
        """
        key: dict[str, ColumnType] = {"stream": str}
        own: dict[str, ColumnType] = {"missing": int, "final": bool}
        if self._windowed:
            key["start"] = own["end"] = datetime
        declared = Table(table, key, own if columns is None else {})
        if columns is not None:
            checked_columns(f"view {self._name!r}: to_rows(columns", columns)
            if not columns.keys().isdisjoint(key):
                raise DeclarationError(
                    f"view {self._name!r}: to_rows(columns=…): the key is {', '.join(key)} already"
                )
        known = self._graph.views[self._name].tables
        self._graph.add_tables(self._name, own_table(self._name, known, declared))
        names = ("value", *own)
        made = columns if columns is not None else {name: attrgetter(name) for name in names}

        def write(folded: Folded[Any], row: Row[Any]) -> Upsert | Delete:
            at = {name: getattr(row, name) for name in key}
            if folded.gone:
                return Delete(table, at)
            return Upsert(table, at, {column: of(row) for column, of in made.items()})

        self._sinks.append(write)
        return self

    def to(self, topic: str, value: Callable[[Row[R]], Any] | None = None) -> "Fold[R]":
        """Send what was found to a topic with each change, with the stream as key.

        Args:
            topic: the topic.
            value: the record's value, written as JSON unless it is bytes; the `Row` unless given. A
                session that became part of another one is a record whose `value` is null, and is
                not given to this function.

        Returns:
            The fold, for another verb.

        Raises:
            DeclarationError: it is no topic, or one of the topology's own.
        """
        checked_topic(topic)
        if value is not None:
            checked_function(f"view {self._name!r}: to(value", value)
        sends_to(self._graph, self._name, topic)

        def send(folded: Folded[Any], row: Row[Any]) -> Emit:
            said = row if folded.gone or value is None else value(row)
            return Emit(topic, row.stream, written(said))

        self._sinks.append(send)
        return self


def _declared(
    given: Input,
    windows: Windows | None,
    keep: int,
    aggregate: Aggregate[Any, Any, R],
    name: str,
    options: ViewOptions,
) -> Fold[R]:
    check_aggregate(f"view {name!r}", aggregate)
    if options.get("reopen") == "start":
        raise DeclarationError(
            f"view {name!r}: reopen='start': a stream that begins again would begin its rows "
            "again; write a handler whose rows tell its lives apart"
        )
    order = given.source.sequence
    starts = isinstance(options.get("start") or First(), First)
    fold = WindowFold(
        windows, aggregate, keep, order.step,
        order.start - order.step if order.counts and starts else None, order.counts,
    )  # fmt: skip
    closes = options.get("closes") or ()
    kinds = frozenset([closes] if isinstance(closes, str) else closes)
    run = fused(given.steps)
    found: Fold[R] = Fold(given.graph, name, windows is not None)

    def handle(event: Event, state: dict[str, Any]) -> Iterator[Output | Late]:
        content = given.read(event.content)
        time = 0 if given.time is None else milliseconds_of(given.time(content))
        rows, beyond = fold.take(state, event.sequence, time, run(content), event.kind in kinds)
        for each in rows:
            row = _row(event.stream, each, windows is not None)
            for sink in found._sinks:
                yield sink(each, row)
        if beyond is not None:
            yield Late(f"its window, which began at {moment(int(beyond))}, is kept no more")

    over = () if windows is None else (str(windows),)
    declare(given.graph, name, given.source, named(handle, given.steps, *over, "fold"), options)
    return found


def _row(stream: str, found: Folded[Any], windowed: bool) -> Row[Any]:
    start = moment(found.start) if windowed else None
    end = moment(found.end) if windowed else None
    return Row(stream, start, end, found.value, found.final, found.missing)
