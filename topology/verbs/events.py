"""The verbs on a source's events: `filter`, `map`, `flat_map`, `peek`, and where they end."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack, overload

from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.model.changes import Emit, Upsert
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.model.names import checked_topic
from topology.model.table import Table
from topology.verbs.as_of import AsOf
from topology.verbs.by_key import ByKey
from topology.verbs.declared_views import ViewOptions
from topology.verbs.folds import EachStream
from topology.verbs.inputs import Input, Within
from topology.verbs.lookups import Latest, latest, lookup
from topology.verbs.rows import Rows
from topology.verbs.steps import (
    Step,
    Verb,
    checked_columns,
    checked_function,
    fields_read,
    fused,
    named,
    reader,
    written,
)

T = TypeVar("T")
U = TypeVar("U")
W = TypeVar("W")
R = TypeVar("R")
Time = datetime | float


@dataclass(frozen=True, slots=True, eq=False)
class Events(Generic[T]):
    """A source's events, in the order of their streams, and the verbs on them.

    Each verb returns another value. Those from one source to a fold, to rows or to a topic are one
    view: nothing is written between them, and an event that is filtered out has its place in the
    sequence. A function that raises fails its event, as in a handler.
    """

    _graph: Topology
    _source: Source
    _read: Callable[[Any], T]
    _time: Callable[[Any], Any] | None = None
    _steps: tuple[Step, ...] = ()
    _within: Within | None = None
    _frozen: bool = False
    _fields: tuple[str, ...] | None = None

    def filter(self, predicate: Callable[[T], object]) -> "Events[T]":
        """Leave out the events that are not meant.

        Args:
            predicate: a function of the value; what it returns is true of those that stay.
        """
        return self._with("filter", predicate)

    def map(self, function: Callable[[T], U]) -> "Events[U]":
        """Make another value of each.

        Args:
            function: value → value.
        """
        return self._with("map", function)

    def flat_map(self, function: Callable[[T], Iterable[U]]) -> "Events[U]":
        """Make any number of values of each, in order.

        Args:
            function: value → values.
        """
        return self._with("flat_map", function)

    def peek(self, function: Callable[[T], object]) -> "Events[T]":
        """Look at each value: for logs and tests, as an event may be handled again after a crash.

        Args:
            function: a function of the value; what it returns is not used.
        """
        return self._with("peek", function)

    def each(self) -> EachStream[T]:
        """Take each stream by itself, to fold its events."""
        return EachStream(self._input)

    def by(self, key: Callable[[T], str | int]) -> ByKey[T]:
        """Take the events of all streams by a key of theirs, to fold them.

        Args:
            key: a function of the value: a text, or a whole number.
        """
        checked_function("by", key)
        return ByKey(self._input, key)

    def latest(self, *, name: str, **options: Unpack[ViewOptions]) -> Latest[T]:
        """Take each stream's values as a table by stream, for lookups.

        Args:
            name: of the view that sends them to the lookups.
            options: what `Topology.view` takes.

        Returns:
            The right side of `lookup(…)`.

        Raises:
            DeclarationError: a name is taken or no name, or an option is wrong.
        """
        return latest(self._input, name, options)

    def lookup(
        self,
        right: Latest[W],
        *,
        at: AsOf[T],
        merge: Callable[[T, W | None], R],
        name: str,
        key: Callable[[T], str | int] | None = None,
        **options: Unpack[ViewOptions],
    ) -> Rows[R]:
        """Find the value that a stream of the other side had.

        `<name>-left` sends the events here by key, the view of `right` sends its values, both to
        the topic `<topology>.<name>.by-key`; the view `<name>` finds the one for the other.

        Args:
            right: what `latest(…)` of the other side's events returned.
            at: `as_of_time(…)` or `as_of_sequence(…)`.
            merge: (value, the other side's or None where it has none) → what the row has.
            name: of the view that finds.
            key: a function of the value to the other side's stream; the own stream unless given.
            options: what `Topology.view` takes, for the view `<name>-left`; `tables` are those of
                the view that finds.

        Returns:
            The rows, one for each value. They are revised until they are kept no more.

        Raises:
            DeclarationError: a name is taken or no name, an option is wrong, or a side has no time.
        """
        return lookup(self._input, right, key, at, merge, name, options)

    def to(
        self,
        topic: str,
        *,
        name: str,
        key: Callable[[T], str | bytes | None] | None = None,
        value: Callable[[T], Any] | None = None,
        **options: Unpack[ViewOptions],
    ) -> None:
        """Send each value to a topic, in the commit unit of its event.

        Args:
            topic: the topic.
            name: of the view that does it.
            key: the record's key; the event's stream unless given.
            value: the record's value, written as JSON unless it is bytes or None, which is a
                tombstone; the value itself unless given.
            options: what `Topology.view` takes.

        Raises:
            DeclarationError: a name is taken or no name, or an option is wrong.
        """
        checked_topic(topic)
        for what, function in (("key", key), ("value", value)):
            if function is not None:
                checked_function(f"view {name!r}: to({what}", function)
        run, read = fused(self._steps), self._read

        def send(event: Event) -> list[Emit]:
            return [
                Emit(
                    topic,
                    event.stream if key is None else key(each),
                    written(each if value is None else value(each)),
                )
                for each in run(read(event.content))
            ]

        handler = named(send, self._steps, "to")
        self._input.declare(name, handler, options, emits=[topic])

    def to_rows(
        self,
        table: str,
        *,
        name: str,
        columns: Mapping[str, Callable[[T], Any]],
        key: Mapping[str, Callable[[T], Any]] | None = None,
        **options: Unpack[ViewOptions],
    ) -> None:
        """Write a row of a read-store table of each value.

        Args:
            table: the table.
            name: of the view that does it.
            columns: column → a function of the value.
            key: the primary key's columns, likewise; unless given they are `stream` and `sequence`,
                the event's own.
            options: what `Topology.view` takes.

        Raises:
            DeclarationError: a name is taken or no name, or an option is wrong; or `flat_map` makes
                several rows of an event, and no key tells them apart.
        """
        if key is None and any(verb == "flat_map" for verb, _ in self._steps):
            raise DeclarationError(
                f"view {name!r}: an event may come to several rows; give to_rows(key=…) columns "
                "that tell them apart"
            )
        checked_columns(f"view {name!r}: to_rows(columns", columns)
        checked_columns(f"view {name!r}: to_rows(key", {} if key is None else key)
        names = ("stream", "sequence") if key is None else tuple(key)
        if not names or not columns.keys().isdisjoint(names):
            raise DeclarationError(
                f"view {name!r}: to_rows(…): give the key a column, and each column once; the key "
                f"is {', '.join(names) or 'empty'}"
            )
        run, read = fused(self._steps), self._read

        def write(event: Event) -> Iterator[Upsert]:
            for each in run(read(event.content)):
                at = (
                    {"stream": event.stream, "sequence": event.sequence}
                    if key is None
                    else {column: function(each) for column, function in key.items()}
                )
                yield Upsert(table, at, {column: of(each) for column, of in columns.items()})

        own = Table(table, {"stream": str, "sequence": int}, {}) if key is None else None
        handler = named(write, self._steps, "to_rows")
        self._input.declare(name, handler, options, table=own)

    @property
    def _input(self) -> Input:
        return Input(
            self._graph, self._source, self._read, self._time, self._steps, self._within,
            self._frozen, self._fields,
        )  # fmt: skip

    def _with(self, verb: Verb, function: Callable[[T], Any]) -> "Events[Any]":
        checked_function(verb, function)
        return replace(self, _steps=(*self._steps, (verb, function)))


@overload
def events(
    topology: Topology, source: Source, *, time: Callable[[Any], Time] | None = None
) -> Events[Any]: ...
@overload
def events(
    topology: Topology, source: Source, *, of: type[T], time: Callable[[T], Time] | None = None
) -> Events[T]: ...
def events(
    topology: Topology,
    source: Source,
    *,
    of: Any = None,
    time: Callable[[Any], Time] | None = None,
) -> Events[Any]:
    """Take the events of a source, for verbs.

    Args:
        topology: the source's.
        source: what `Topology.source` returned.
        of: the type of the events' content: a dataclass, a TypedDict or a model of pydantic, which
            the content is checked and made into; as the inspector made it unless given. A frozen
            dataclass is made once for all views of the source.
        time: a function of that to when it happened: a datetime with a time zone, or seconds since
            1970; what is less than a millisecond is cut off. Windows need it.

    Raises:
        DeclarationError: the source is another topology's, or the type is none that can be read.
    """
    if not isinstance(source, Source) or topology.sources.get(source.name) is not source:
        raise DeclarationError(
            f"events({source!r:.100}): give what source(…) of topology {topology.name!r} returned"
        )
    if time is not None:
        checked_function("events(time", time)
    frozen = getattr(getattr(of, "__dataclass_params__", None), "frozen", False)
    read = reader("events", of)
    return Events(topology, source, read, time, _frozen=frozen, _fields=fields_read(of))
