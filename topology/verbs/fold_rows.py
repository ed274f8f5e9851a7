"""A fold that was declared, and where its rows go: to tables and topics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Generic, TypeVar

from topology.declaration.topology import Topology
from topology.model.changes import Delete, Emit, Output, Upsert
from topology.model.column_types import ColumnType
from topology.model.errors import DeclarationError
from topology.model.names import checked_topic
from topology.model.table import Table
from topology.verbs.declared_views import own_table, sends_to
from topology.verbs.steps import checked_columns, checked_function, written

L = TypeVar("L")

Sink = Callable[[Any, bool], Output]
"""A row, and whether it is there no longer → what is said of it."""


@dataclass(frozen=True, slots=True)
class Fold(Generic[L]):
    """A fold that was declared: where its rows go."""

    _graph: Topology
    _name: str
    _key: dict[str, ColumnType]
    _own: dict[str, ColumnType]
    _sinks: list[Sink] = field(default_factory=list)

    def to_rows(
        self, table: str, columns: Mapping[str, Callable[[L], Any]] | None = None
    ) -> "Fold[L]":
        """Write what was found to a read-store table, one row for each stream or key, and window.

        The key is `stream` or `key`, and `start` where there are windows.

        Args:
            table: the table.
            columns: column → a function of the row; its other fields unless given.

        Returns:
            The fold, for another verb.

        Raises:
            DeclarationError: the table is another view's, or its name is none.
        """
        key = self._key
        declared = Table(table, key, self._own if columns is None else {})
        if columns is not None:
            checked_columns(f"view {self._name!r}: to_rows(columns", columns)
            if not columns.keys().isdisjoint(key):
                raise DeclarationError(
                    f"view {self._name!r}: to_rows(columns=…): the key is {', '.join(key)} already"
                )
        known = self._graph.views[self._name].tables
        self._graph.add_tables(self._name, own_table(self._name, known, declared))
        names = ("value", *self._own)
        made = columns if columns is not None else {name: attrgetter(name) for name in names}

        def write(row: L, gone: bool) -> Upsert | Delete:
            at = {name: getattr(row, name) for name in key}
            if gone:
                return Delete(table, at)
            return Upsert(table, at, {column: of(row) for column, of in made.items()})

        self._sinks.append(write)
        return self

    def to(self, topic: str, value: Callable[[L], Any] | None = None) -> "Fold[L]":
        """Send what was found to a topic with each change, with the stream or key as key.

        Args:
            topic: the topic.
            value: the record's value, written as JSON unless it is bytes; the row unless given. A
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
        of = attrgetter(next(iter(self._key)))

        def send(row: L, gone: bool) -> Emit:
            said = row if gone or value is None else value(row)
            return Emit(topic, of(row), written(said))

        self._sinks.append(send)
        return self
