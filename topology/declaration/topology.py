"""Topology: sources and views, declared as values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from topology.declaration.describe import Description, describe
from topology.declaration.emits import TOPICS, checked_emitting
from topology.declaration.graph import Graph
from topology.declaration.lanes import Lane, compile_split, showing
from topology.declaration.orders import Order, StreamOrder
from topology.declaration.policies import (
    Full,
    Gap,
    OnError,
    OnLate,
    OnUnknown,
)
from topology.declaration.policies.full import check_full
from topology.declaration.policies.gap import check_ask
from topology.declaration.source import Source
from topology.declaration.source_checks import check_partitions, checked_sequence
from topology.declaration.starts import (
    Reopen,
    Start,
    checked_closing,
    ending,
)
from topology.declaration.timeouts import checked_timeout, timed
from topology.declaration.view import View, handler_shape
from topology.declaration.view_checks import (
    check_buffer,
    check_rebuilding,
    checked_kinds,
    checked_monotonic,
    checked_policies,
    checked_start,
    checked_tables,
)
from topology.inspectors.inspector import AnyInspector, resolved
from topology.model.errors import DeclarationError
from topology.model.names import checked_name, checked_topic, listed
from topology.model.table import Table
from topology.model.typed import AnyHandler, HandlerType


class Topology(Graph):
    """A named graph of sources and views.

    A runtime runs it, `describe()` shows it.

    Args:
        name: the prefix of the topology's topics, and the worker's consumer group.
    """

    def source(
        self,
        topic: str | Sequence[str],
        *,
        inspector: AnyInspector,
        sequence: StreamOrder | Order | None = None,
        name: str | None = None,
        keyed: bool = False,
        partitions: int = 4,
        unknown: OnUnknown = "pass",
    ) -> Source:
        """Declare a source.

        Args:
            topic: one topic, or several whose events are merged by stream.
            inspector: an `Inspector`, a function of a message, or `"module:name"` of either.
            sequence: what orders events: `contiguous()` unless given, `linked(…)`,
                `monotonic(…)`, or an `Order` of your own.
            name: the source's name; the first topic's name unless given.
            keyed: whether the topic's records are keyed by stream already.
            partitions: of the views' input, from 1 to 100000. For a keyed source, the number of
                partitions that the topic has.
            unknown: what to do with messages that the inspector does not know: `"pass"` counts
                them, `"topic"` also sends them to `<topology>.unknown`.

        Returns:
            The source, for `view(of=…)`.

        Raises:
            DeclarationError: a value is wrong, or a name or topic is taken.
        """
        topics = listed("source(topic", topic, "name a topic, or a list of topics")
        if not topics:
            raise DeclarationError("source(topic=()): name at least one topic")
        if len({*map(repr, topics)}) < len(topics):
            raise DeclarationError(f"source(topic={topic!r}): name each topic once")
        for each in topics:
            checked_topic(each)
            self._check_input(each)
        name = checked_name("source", topics[0] if name is None else name)
        if name in self._sources:
            raise DeclarationError(f"source {name!r} exists twice; give one of them a `name`")
        check_partitions(name, topics, keyed, partitions)
        ordered = checked_sequence(name, sequence)
        if unknown not in ("pass", "topic"):
            raise DeclarationError(f"source {name!r}: unknown={unknown!r}; use 'pass' or 'topic'")
        inspector = resolved(inspector, f"source {name!r}: inspector")
        source = Source(
            name=name,
            topology=self.name,
            topics=topics,
            inspector=inspector,
            inspect=ordered.compile(inspector),
            sequence=ordered,
            keyed=keyed,
            partitions=partitions,
            unknown=unknown,
        )
        self._sources[name] = source
        return source

    def view(
        self,
        name: str,
        *,
        of: Source | str,
        handler: AnyHandler | None = None,
        accepts: Iterable[str] | None = None,
        buffer: int = 64,
        gap: Gap | None = None,
        full: Full | None = None,
        late: OnLate | None = None,
        error: OnError | None = None,
        tables: Iterable[Table] = (),
        start: Start | None = None,
        closes: str | Iterable[str] | None = None,
        retention: float | None = None,
        reopen: Reopen = "late",
        lane: Lane | None = None,
        timeout: float | None = None,
        emits: Iterable[str] = (),
        topics: int = TOPICS,
    ) -> Callable[[HandlerType], HandlerType]:
        """Declare a view, as a decorator of its handler or with `handler=…`.

        Args:
            name: the view's name, unique in the topology.
            of: the source, or its name.
            handler: `handler(event)` or `handler(event, state)`, sync or async. It yields or
                returns `Upsert`, `Delete` and `Emit`.
            accepts: the kinds to handle; None for all. Other events pass by in order.
            buffer: slots of each stream's ring, from 1 to 1000000.
            gap: what to do about missing events: `wait()`, `skip(after=…)` or `ask(topic)`.
            full: what to do about events beyond the ring: `spill()`, `redeliver(…)` or `halt()`.
            late: what to do about events that come after their gap was given up: `late_topic()`
                or `rebuild_stream(…)`.
            error: what to do about failed events: `advance()`, `retry(…)`, `park()`, `halt()`, or
                an `ErrorPolicy` of yours.
            tables: the read-store tables that the handler writes to. Columns of other tables are
                inferred.
            start: where a stream begins: `first()`, `earliest_seen(after=…)` or
                `opened_by(kind, …)`.
            closes: the kinds that close a stream.
            retention: seconds from when a stream closes until it is forgotten.
            reopen: what an event of a closed stream is: `"late"`, or `"start"` to begin again.
            lane: what splits a stream within the view: a field, or a function of the event. Each
                lane is in order on its own.
            timeout: seconds that the handler may take for an event; more is a failure.
            emits: the topics that the handler sends messages to.
            topics: how many other topics the handler may name in a worker.

        Returns:
            A decorator that declares the view and returns the handler as it is.

        Raises:
            DeclarationError: a value is wrong, a name is taken, or policies do not fit together.
        """
        checked_name("view", name)
        if name in self._views:
            raise DeclarationError(f"view {name!r} exists twice; give each view its own name")
        source = self._source_of(name, of)
        check_buffer(name, buffer)
        kinds = checked_kinds(name, accepts)
        self._check_output(name)
        if source.sequence.settles:
            full = checked_monotonic(name, source, gap, full, start)
        gap, full, late, error = checked_policies(name, gap, full, late, error)
        check_full(name, full, gap)
        check_ask(name, gap, source.sequence, lane)
        closing = checked_closing(name, closes, retention, reopen, kinds)
        start = checked_start(name, start)
        check_rebuilding(name, late, start, closing, full, source.sequence)
        split = None if lane is None else compile_split(name, lane)
        declared = checked_tables(name, tables)
        limit = checked_timeout(name, timeout)
        emitting = checked_emitting(
            name, emits, topics, lambda topic: self._own_use(topic, (name,))
        )
        self._check_tables(name, declared)

        def declare(function: Any) -> Any:
            if name in self._views:
                raise DeclarationError(f"view {name!r} exists twice; give each view its own name")
            stateful, is_async = handler_shape(name, function)
            run = function if limit is None else timed(name, function, limit, is_async)
            run = ending(run, closing.kinds, is_async) if closing and stateful else run
            run = showing(run) if split else run
            self._views[name] = View(
                name=name,
                topology=self.name,
                of=source,
                handler=run,
                accepts=kinds,
                buffer=buffer,
                gap=gap,
                full=full,
                late=late,
                error=error,
                tables=declared,
                stateful=stateful,
                is_async=is_async,
                start=start,
                closing=closing,
                lane=lane,
                split=split,
                emitting=emitting,
                timeout=limit,
            )
            return function

        if handler is not None:
            declare(handler)
        return declare

    def with_inspectors(self, inspectors: Mapping[str, AnyInspector]) -> "Topology":
        """Copy the topology, with other inspectors for some of its sources.

        Args:
            inspectors: name of a source → its inspector.

        Raises:
            DeclarationError: a source is not there, or something is no inspector.
        """
        if not isinstance(inspectors, Mapping):
            raise DeclarationError(
                f"with_inspectors({inspectors!r}): give source → inspector, as in {{'orders': …}}"
            )
        for name in inspectors:
            if name not in self._sources:
                known = ", ".join(map(repr, self._sources)) or "none"
                raise DeclarationError(
                    f"with_inspectors({name!r}): topology {self.name!r} has no such source "
                    f"(it has {known}); name one of these"
                )
        other = Topology(self.name)
        for name, source in self._sources.items():
            inspector = inspectors.get(name)
            other._sources[name] = source if inspector is None else source.inspected_by(inspector)
        for name, view in self._views.items():
            other._views[name] = replace(view, of=other._sources[view.of.name])
        return other

    def describe(self) -> Description:
        """The topology as data; `str()` renders it as text, `.mermaid()` as a diagram."""
        return describe(self)
