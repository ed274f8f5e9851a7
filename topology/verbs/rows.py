"""The rows of a fold: verbs on them, and where they go. Who reads them is part of their view.

A reader runs in the handler that makes the rows, right after them and in the same commit unit; with
another key, its differences go through a topic of the topology's own. A row is revised as its
stream goes on: readers see each revision, in sequence per stream.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar, Unpack

from topology.declaration.topology import Topology
from topology.declaration.view import CellRange
from topology.model.changes import Delete, Emit, Output, Upsert
from topology.model.column_types import ColumnType
from topology.model.errors import DeclarationError
from topology.model.names import checked_name, checked_topic
from topology.model.table import Table
from topology.verbs.aggregates import Aggregate, check_aggregate, is_plain
from topology.verbs.combining import (
    CombineOptions,
    KeyRow,
    checked_windows,
    combined,
    key_columns,
    key_text,
)
from topology.verbs.contributions import Part, as_correction, encode_parts
from topology.verbs.declared_views import own_table, sends_to
from topology.verbs.revisions import Cells, Change, Reader, Sink, applied, differences
from topology.verbs.steps import Step, Verb, checked_columns, checked_function, fused, written
from topology.verbs.windows import Hopping, Windows

L = TypeVar("L")
U = TypeVar("U")
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Rows(Generic[L]):
    """Rows that a view makes, and revises as it goes on.

    Attributes:
        _graph: the topology.
        _view: the view that makes them.
        _key: the columns that tell them apart.
        _own: the other columns that each has, besides `value`.
        _timed: whether they have a time, for windows.
        _steps: verbs between the rows and their readers.
        _fold: the fold within its view that makes them, empty for the view's own.
        _cells: what the names of its readers' cells begin with.
        _shown: what verbs are given of a row, None for all of it; the table's other columns are
            then beside what verbs make.
        _sinks: name → what says one thing of each row as it is.
        _readers: name → who reads them otherwise.
    """

    _graph: Topology
    _view: str
    _key: dict[str, ColumnType]
    _own: dict[str, ColumnType]
    _timed: bool = False
    _steps: tuple[Step, ...] = ()
    _shown: Callable[[Any], Any] | None = None
    _fold: str = ""
    _cells: str = ""
    _sinks: dict[str, Sink] = field(default_factory=dict)
    _readers: dict[str, Reader] = field(default_factory=dict)

    def told(self, stream: str, changes: Sequence[Change], cells: Cells) -> list[Output]:
        """What all readers say of the rows that one event changes.

        Args:
            stream: the event's.
            changes: the rows, each once.
            cells: the stream's.
        """
        sinks = self._sinks.values()
        said = [sink(change.row, change.gone) for change in changes for sink in sinks]
        for read in self._readers.values():
            said += read(stream, changes, cells)
        return said

    def forget(self, id: str, cells: Cells) -> None:
        """No reader need know what it said of a row: nothing revises it any more.

        Args:
            id: the row's.
            cells: the stream's.
        """
        for name in self._readers:
            cells.pop(f"{self._cell(name)}:{id}", None)

    def filter(self, predicate: Callable[[L], object]) -> "Rows[L]":
        """Leave out the rows that are not meant: one that is no longer meant goes.

        Args:
            predicate: a function of the row; what it returns is true of those that stay.
        """
        return self._with("filter", predicate)

    def map(self, function: Callable[[L], U]) -> "Rows[U]":
        """Make another value of each row, which keeps its key.

        Args:
            function: row → value.
        """
        return self._with("map", function)

    def to_rows(
        self, table: str, columns: Mapping[str, Callable[[L], Any]] | None = None
    ) -> "Rows[L]":
        """Write the rows to a read-store table.

        The key is `stream` or `key`, and `start` where there are windows.

        Args:
            table: the table.
            columns: column → a function of the row; its other fields unless given, which needs rows
                that are not mapped.

        Returns:
            The rows, for another verb.

        Raises:
            DeclarationError: the table is another view's, or its name is none.
        """
        key, what = self._key, f"view {self._view!r}: to_rows("
        shown = self._shown
        mapped = shown is not None or any(verb == "map" for verb, _ in self._steps)
        if columns is None and mapped:
            raise DeclarationError(f"{what}{table!r}): what map(…) makes has columns=… of its own")
        own = self._own if columns is None or shown is not None else {}
        declared = Table(table, key, own)
        if columns is not None:
            checked_columns(f"{what}columns", columns)
            taken = [*key, *(own if shown is not None else ())]
            if not columns.keys().isdisjoint(taken):
                raise DeclarationError(f"{what}columns=…): it has {', '.join(taken)} already")
        known = self._graph.views[self._view].tables
        self._graph.add_tables(self._view, own_table(self._view, known, declared))
        key_of, own_of = _fields(key), _fields(own)
        of_row = _fields(("value", *self._own))

        def write(row: Any, values: Sequence[L]) -> Upsert | Delete:
            at = key_of(row)
            if not values:
                return Delete(table, at)
            if columns is None:
                return Upsert(table, at, of_row(values[0]))
            said = {column: of(values[0]) for column, of in columns.items()}
            if shown is not None:
                said |= own_of(row)
            return Upsert(table, at, said)

        self._read_by(f"to_rows {table}", write)
        return self

    def to(self, topic: str, value: Callable[[L], Any] | None = None) -> "Rows[L]":
        """Send each revision of a row to a topic, with the stream or key as key.

        Args:
            topic: the topic.
            value: the record's value, written as JSON unless it is bytes; the row unless given. A
                row that goes is a record whose `value` is null, and is not given to this function:
                a session that became part of another one, or what a filter no longer lets through.

        Returns:
            The rows, for another verb.

        Raises:
            DeclarationError: it is no topic, or one of the topology's own.
        """
        checked_topic(topic)
        if value is not None:
            checked_function(f"view {self._view!r}: to(value", value)
        sends_to(self._graph, self._view, topic)
        of, shown = attrgetter(next(iter(self._key))), self._shown

        def send(row: Any, values: Sequence[L]) -> Emit:
            if not values:
                return Emit(topic, of(row), written(replace(row, value=None)))
            said = values[0] if value is None else value(values[0])
            if value is None and shown is not None:
                said = replace(row, value=said)
            return Emit(topic, of(row), written(said))

        self._read_by(f"to {topic}", send)
        return self

    def fold(self, aggregate: Aggregate[L, S, R], *, name: str) -> "Rows[KeyRow[R]]":
        """Fold the rows of each stream, or key: in the same view, without a topic.

        Args:
            aggregate: what to make of them; its `subtract` takes back what a row was before.
            name: of the fold, unique in the view.

        Raises:
            DeclarationError: the name is taken or no name, or the aggregate has no `merge` or
                `subtract`.
        """
        checked_name("fold", name)
        part_of = self._part_of(aggregate, name, lambda _: "")
        key: dict[str, ColumnType] = {"key": str}
        found: Rows[KeyRow[R]] = Rows(
            self._graph, self._view, key, {"missing": int}, _fold=name, _cells=self._cells
        )
        cell_name = self._cell(f"fold {name}")
        prefix = f"{cell_name}="

        def row(stream: str, cell: Sequence[Any]) -> KeyRow[R]:
            return KeyRow(stream, None, None, aggregate.result(cell[0]), cell[1])

        def take(stream: str, changes: Sequence[Change], cells: Cells) -> Iterator[Output]:
            for plus, minus in differences(cell_name, changes, cells, part_of).values():
                for start, _, cell in applied(prefix, plus, minus, cells, aggregate, None):
                    made = row(stream, cell or (aggregate.start(), 0))
                    change = Change(str(start), made, 0, made.missing, gone=cell is None)
                    yield from found.told(stream, [change], cells)

        def rows(stream: str, _: Any, cells: CellRange) -> Iterator[Any]:
            for _, cell in cells(f"{prefix}0", f"{prefix}1"):
                if cell[2] > 0:
                    yield asdict(row(stream, cell))

        self._add(f"fold {name}", take, cells=True)
        view = self._graph.views[self._view]
        if name in view.folds:
            raise DeclarationError(f"view {self._view!r}: it has a fold {name!r} already")
        self._graph.replace_view(replace(view, folds={**view.folds, name: rows}))
        return found

    def by(self, key: Callable[[L], str | int]) -> "RowsByKey[L]":
        """Take the rows of all streams by a key of theirs, to fold them.

        Args:
            key: a function of the row: a text, or a whole number.
        """
        checked_function("by", key)
        return RowsByKey(self, key)

    def _with(self, verb: Verb, function: Callable[[L], Any]) -> "Rows[Any]":
        checked_function(verb, function)
        return replace(self, _steps=(*self._steps, (verb, function)))

    def _part_of(
        self, aggregate: Aggregate[Any, Any, Any], name: str, key: Callable[[Any], str]
    ) -> Callable[[Change], Part | None]:
        """What a row comes to for an aggregate. Raises DeclarationError for one that cannot."""
        what = f"view {name!r}"
        check_aggregate(what, aggregate)
        if aggregate.merge is None or aggregate.subtract is None:
            missing = "merge" if aggregate.merge is None else "subtract"
            raise DeclarationError(
                f"{what}: rows are revised, so what a row was before is taken back; give "
                f"Aggregate({missing}=…), as count(), total(…) and mean(…) have it, or fold the "
                "events instead of the rows"
            )
        run = self._run
        if not is_plain(aggregate):
            view = self._graph.views[self._view]
            self._graph.replace_view(replace(view, plain_state=False))

        def part_of(change: Change) -> Part | None:
            for value in run(change.row):
                made = aggregate.add(aggregate.start(), value)
                return [key(value), change.time, change.missing, made]
            return None

        return part_of

    def _read_by(self, name: str, say: Callable[[Any, Sequence[L]], Output]) -> None:
        """Add who says one thing of each row: of one that is left out, only that it goes."""
        run, filters = self._run, any(verb == "filter" for verb, _ in self._steps)
        cell = self._cell(name)

        def read(stream: str, changes: Sequence[Change], cells: Cells) -> Iterator[Output]:
            for change in changes:
                values = () if change.gone else tuple(run(change.row))
                if filters:
                    at = f"{cell}:{change.id}"
                    was_there = at in cells
                    if values and not change.settled:
                        cells[at] = True
                    elif was_there:
                        del cells[at]
                    if not values and not was_there:
                        continue
                yield say(change.row, values)

        if self._steps or self._shown:
            self._add(name, read, cells=filters)
        else:
            self._checked(name)
            self._sinks[name] = lambda row, gone: say(row, () if gone else (row,))

    @property
    def _run(self) -> Callable[[Any], Iterable[Any]]:
        """One function of a row that takes the steps in turn."""
        run, shown = fused(self._steps), self._shown
        return run if shown is None else lambda row: run(shown(row))

    def _checked(self, name: str) -> None:
        """Raises DeclarationError for a reader that is there already."""
        if name in self._readers or name in self._sinks:
            raise DeclarationError(
                f"view {self._view!r}: {name.replace(' ', '(', 1)}) reads these rows already"
            )

    def _cell(self, reader: str) -> str:
        """What a reader's cells begin with."""
        return self._cells + (f"{reader} of {self._fold}" if self._fold else reader)

    def _add(self, name: str, reader: Reader, *, cells: bool) -> None:
        self._checked(name)
        self._readers[name] = reader
        view = self._graph.views[self._view]
        steps = " → ".join(("rows", *(verb for verb, _ in self._steps), name))
        view.handler.__name__ = f"{view.handler.__name__}; {steps}"
        if cells and not view.cells:
            self._graph.replace_view(replace(view, cells=True))


def _fields(names: Iterable[str]) -> Callable[[Any], dict[str, Any]]:
    """A row → some of its fields."""
    first, *rest = known = tuple(names) or ("",)
    if not first:
        return lambda row: {}
    get = attrgetter(*known)
    return lambda row: dict(zip(known, get(row), strict=True)) if rest else {first: get(row)}


@dataclass(frozen=True, slots=True)
class RowsByKey(Generic[L]):
    """Rows of all streams, by a key of theirs."""

    _rows: Rows[L]
    _key: Callable[[Any], Any]
    _windows: Hopping | None = None
    _keep: int | None = None

    def window(self, windows: Windows, keep: float | None = None) -> "RowsByKey[L]":
        """Split each key's rows by time: by the start of their own windows.

        Args:
            windows: `tumbling(…)` or `hopping(…)`.
            keep: seconds behind the key's clock, the latest time of all its rows, for which a
                window is kept; for ever unless given. What is for an older one goes to the late
                topic, and that depends on how far streams are ahead of each other.

        Raises:
            DeclarationError: they are sessions, or the rows have no time.
        """
        checked, kept = checked_windows(windows, self._rows._timed, keep)
        return replace(self, _windows=checked, _keep=kept)

    def fold(
        self, aggregate: Aggregate[L, S, R], *, name: str, **options: Unpack[CombineOptions]
    ) -> Rows[KeyRow[R]]:
        """Fold the rows of each key, and window.

        The view that makes the rows sends what has changed, the old and the new value in one
        record, to the topic `<topology>.<name>.by-key`; the view `<name>` adds and takes away.

        Args:
            aggregate: what to make of them; its `subtract` takes back what a row was before.
            name: of the view that combines.
            options: of that view: `error`, `tables` and `timeout`, as `Topology.view` takes them.

        Raises:
            DeclarationError: a name is taken or no name, an option is wrong, or the aggregate has
                no `merge` or `subtract`.
        """
        rows, by = self._rows, self._key
        graph, view = rows._graph, rows._view
        part_of = rows._part_of(aggregate, name, lambda value: key_text(by(value)))
        topic, cell = f"{graph.name}.{name}.by-key", rows._cell(f"by {name}")

        def send(stream: str, changes: Sequence[Change], cells: Cells) -> Iterator[Output]:
            found = differences(cell, changes, cells, part_of)
            for key, (plus, minus) in found.items():
                yield Emit(topic, key, encode_parts(plus, minus))

        sends_to(graph, view, topic)
        timed = self._windows is not None
        made: Rows[KeyRow[R]] = Rows(graph, name, *key_columns(self._windows), timed)
        combined(
            graph, name, topic, view, aggregate, self._windows, options, made.told, made.forget,
            self._keep,
        )  # fmt: skip
        rows._add(f"by {name}", send, cells=True)
        declared = graph.views[view]
        graph.replace_view(replace(declared, hops={**declared.hops, topic: as_correction}))
        return made
