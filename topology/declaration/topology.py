"""Topology: sources and views, declared as values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from topology.declaration.describe import Description, describe
from topology.declaration.emits import TOPICS, checked_emitting
from topology.declaration.lanes import Lane, compile_split, showing
from topology.declaration.ordered_stage import OrderedStage, first_stage, plain_source
from topology.declaration.orders import Order, StreamOrder
from topology.declaration.parallel_work import (
    Commit,
    Compensation,
    Scope,
    Touches,
    WorkOptions,
    attempting,
    check_fits,
    checked_work,
    may_park,
)
from topology.declaration.policies import (
    Full,
    Gap,
    LateTopic,
    OnError,
    OnLate,
    OnUnknown,
    Spill,
    Wait,
)
from topology.declaration.policies.full import check_full
from topology.declaration.policies.gap import check_ask
from topology.declaration.route import Routing
from topology.declaration.sent_messages import DeclaredView
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
from topology.declaration.worker_kinds import RunIn
from topology.inspectors.inspector import AnyInspector, resolved
from topology.model.batches import Batch
from topology.model.errors import DeclarationError
from topology.model.names import checked_name, checked_topic, listed
from topology.model.table import Table
from topology.model.typed import AnyHandler, HandlerType
from topology.ordered_commit import OpenEvent, WhenOlderIsOpen

CELLS = "workers= with a handler that takes cells; write it as handler(event, state)"
StartOrder = Literal["arrival", "any"] | Callable[[OpenEvent], float]


class Topology(Routing):
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
            if use := self._own_use(each):
                raise DeclarationError(
                    f"topic {each!r} is {use} of this topology; read it in a topology of its own"
                )
        name = checked_name("source", topics[0] if name is None else name)
        if name in self._sources:
            raise DeclarationError(f"source {name!r} exists twice; give one of them a `name`")
        check_partitions(name, topics, keyed, partitions)
        ordered = checked_sequence(name, sequence)
        if unknown not in ("pass", "topic"):
            raise DeclarationError(f"source {name!r}: unknown={unknown!r}; use 'pass' or 'topic'")
        inspector = resolved(inspector, f"source {name!r}: inspector")
        ordered = ordered.read_by(inspector)
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
        if not keyed:
            self._check_by_stream(source)
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
        workers: int | None = None,
        commit: Commit | None = None,
        start_order: StartOrder | None = None,
        within_stream: Literal["sequence", "parallel"] | None = None,
        older: WhenOlderIsOpen | None = None,
        time_limit: float | None = None,
        touches: Touches | None = None,
        run_in: RunIn | None = None,
        scope: Scope | None = None,
        database: str | None = None,
        compensations: Mapping[str, Compensation] | None = None,
        batch: int | Batch | None = None,
    ) -> DeclaredView:
        """Declare a view, as a decorator of its handler or with `handler=…`.

        Args:
            name: the view's name, unique in the topology.
            of: the source, or its name.
            handler: `handler(event)`, `handler(event, state)` or `handler(event, state, cells)`,
                sync or async. It yields or returns `Upsert`, `Delete` and `Emit`.
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
            workers: how many events of a partition are handled side by side, from 1 to 1000. All
                that follows needs it.
            commit: the order of commits: `"stream"` (unless given) for that of each stream,
                `"arrival"` for that in which all events of a partition arrived.
            start_order: which event is begun next: `"arrival"` (unless given) for the oldest,
                `"any"`, or a function of the open event, the smallest number first.
            within_stream: `"sequence"` (unless given), or `"parallel"` to handle the events of one
                stream side by side too, if the handler takes no state.
            older: what is done when an older event is not done: `wait_and_roll_back(…)` or
                `wait_and_commit(…)`.
            time_limit: seconds after which an attempt is rolled back and begun again.
            touches: a function of the event: the keys that it reads and writes, as `Touched`; they
                are learned unless given.
            run_in: `"tasks"` for async handlers; `"threads"` for plain ones, or `"processes"`,
                which can be killed; `"pulled"` for a handler of `pulled()`.
            scope: `"partition"` (unless given) for an order per partition, `"topic"` for one over
                a source of one topic, `"global"` for one over all topics of the source; one view
                of a topology may say so.
            database: the name of the database that `event.connection` is lent to, whose URL is in
                the worker's environment as SEQUITUR_DATABASE_<NAME>.
            compensations: name → a function of (arguments, idempotency key), for
                `event.compensate`: called when an attempt is rolled back or fails.
            batch: how many events of a stream the handler takes at once, or `Batch(most, "any")`
                for those of any streams.

        Returns:
            A decorator that declares the view and returns the handler as it is; and the verbs on
            what the view sends: `transform`, `route` and `to`. Those alone make a view too.

        Raises:
            DeclarationError: a value is wrong, a name is taken, or policies do not fit together.
        """
        checked_name("view", name)
        if name in self._views or name in self._parallel or name in self._routes:
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
        options = WorkOptions(
            workers=workers, commit=commit, start_order=start_order, within_stream=within_stream,
            older=older, time_limit=time_limit, touches=touches, run_in=run_in, scope=scope,
            database=database, compensations=compensations, batch=batch,
        )  # fmt: skip

        def declare(function: Any) -> Any:
            if name in self._views:
                raise DeclarationError(f"view {name!r} exists twice; give each view its own name")
            arguments, is_async = handler_shape(name, function)
            stateful, cells = arguments > 1, arguments > 2
            what = f"view {name!r}"
            work = checked_work(what, options, function, stateful=stateful, is_async=is_async)
            check_fits(what, work, source, late, lane, error)
            if work is not None and cells:
                raise DeclarationError(f"{what}: {CELLS}")
            if work is not None and work.batch and (limit is not None or (closing and stateful)):
                raise DeclarationError(
                    f"{what}: {'timeout=' if limit is not None else 'closes='} with batch=: it is "
                    "about one event; use time_limit=, or leave batch out"
                )
            self._check_scope(name, work)
            run = function if limit is None else timed(name, function, limit, is_async)
            run = ending(run, closing.kinds, is_async) if closing and stateful else run
            run = showing(run) if split else run
            run = run if work is None else attempting(run, f"{self.name}.{name}", work.batch)
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
                work=work,
                cells=cells,
            )
            return function

        if handler is not None:
            declare(handler)
        return DeclaredView(self, name, declare)

    def parallel(
        self,
        name: str,
        *,
        topic: str,
        workers: int,
        handler: AnyHandler | None = None,
        partitions: int = 4,
        error: OnError | None = None,
        tables: Iterable[Table] = (),
        emits: Iterable[str] = (),
        topics: int = TOPICS,
        commit: Commit | None = None,
        start_order: StartOrder | None = None,
        within_stream: Literal["sequence", "parallel"] | None = None,
        older: WhenOlderIsOpen | None = None,
        time_limit: float | None = None,
        touches: Touches | None = None,
        run_in: RunIn | None = None,
        database: str | None = None,
        compensations: Mapping[str, Compensation] | None = None,
        batch: int | Batch | None = None,
    ) -> Callable[[HandlerType], HandlerType]:
        """Handle the messages of a topic side by side, and commit their effects in order.

        Nothing is inspected or sequenced: a message's key is its stream, its offset its sequence,
        and its value, as bytes, its content. Messages without a key have no order among each other
        unless `commit="arrival"`.

        Args:
            name: unique among the topology's views.
            topic: the topic to read.
            workers: how many events of a partition are handled side by side, from 1 to 1000.
            commit: the order of commits: `"stream"` (unless given) for that of each stream,
                `"arrival"` for that in which all events of a partition arrived.
            start_order: which event is begun next: `"arrival"` (unless given) for the oldest,
                `"any"`, or a function of the open event, the smallest number first.
            within_stream: `"sequence"` (unless given), or `"parallel"` to handle the events of one
                stream side by side too, if the handler takes no state.
            older: what is done when an older event is not done: `wait_and_roll_back(…)` or
                `wait_and_commit(…)`.
            time_limit: seconds after which an attempt is rolled back and begun again.
            touches: a function of the event: the keys that it reads and writes, as `Touched`; they
                are learned unless given.
            run_in: `"tasks"` for async handlers; `"threads"` for plain ones, or `"processes"`,
                which can be killed; `"pulled"` for a handler of `pulled()`.
            database: the name of the database that `event.connection` is lent to, whose URL is in
                the worker's environment as SEQUITUR_DATABASE_<NAME>.
            compensations: name → a function of (arguments, idempotency key), for
                `event.compensate`: called when an attempt is rolled back or fails.
            batch: how many events of a stream the handler takes at once, or `Batch(most, "any")`
                for those of any streams.
            handler: as of a view; a decorator is returned without it.
            partitions: how many the topic has.
            error: what to do about failed events, as of a view.
            tables: the read-store tables that the handler writes to, as of a view.
            emits: the topics that the handler sends messages to, as of a view.
            topics: how many other topics the handler may name in a worker.

        Returns:
            A decorator that declares the handler and returns it as it is.

        Raises:
            DeclarationError: a value is wrong, or a name or topic is taken.
        """
        checked_name("parallel", name)
        checked_topic(topic)
        what = f"parallel({name!r})"
        self._check_input(topic)
        if use := self._own_use(topic):
            raise DeclarationError(f"{what}: topic {topic!r} is {use}; read another topic")
        self._check_output(name)
        check_partitions(name, (topic,), True, partitions)
        gap, full, late, on_error = checked_policies(name, Wait(), Spill(), LateTopic(), error)
        if may_park(on_error):
            raise DeclarationError(
                f"{what}: error={on_error!r}: a plain topic has no commands, so nothing could "
                "redrive what is parked; use advance(), retry(…) or halt(), or a view with workers"
            )
        declared = checked_tables(name, tables)
        emitting = checked_emitting(name, emits, topics, lambda to: self._own_use(to, (name,)))
        self._check_tables(name, declared)
        options = WorkOptions(
            workers=workers, commit=commit, start_order=start_order, within_stream=within_stream,
            older=older, time_limit=time_limit, touches=touches, run_in=run_in,
            database=database, compensations=compensations, batch=batch,
        )  # fmt: skip

        def declare(function: Any) -> Any:
            if name in self._views or name in self._parallel or name in self._routes:
                raise DeclarationError(f"{what} exists twice; give each its own name")
            arguments, is_async = handler_shape(name, function)
            if arguments > 2:
                raise DeclarationError(f"{what}: {CELLS}")
            stateful = arguments > 1
            work = checked_work(what, options, function, stateful=stateful, is_async=is_async)
            if work is None:
                raise DeclarationError(f"{what}: workers=None; say how many, as in workers=16")
            source = plain_source(self.name, name, topic, partitions)
            view = View(
                name=name, topology=self.name, of=source,
                handler=attempting(function, f"{self.name}.{name}", work.batch),
                accepts=None, buffer=1,
                gap=gap, full=full, late=late, error=on_error, tables=declared, stateful=stateful,
                is_async=is_async, emitting=emitting, work=work,
            )  # fmt: skip
            self._parallel[name] = OrderedStage(view, work, topic, partitions, False)
            return function

        if handler is not None:
            declare(handler)
        return declare

    def with_inspectors(self, inspectors: Mapping[str, AnyInspector]) -> "Topology":
        """Copy the topology, with other inspectors for some of its sources.

        Args:
            inspectors: name of a source → its inspector.

        Raises:
            DeclarationError: a source is not there, something is no inspector, or its ids are of
                other types where a lookup finds streams by them.
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
            of = other._sources[view.of.name]
            if view.looked_up and of.stream_ids != view.of.stream_ids:
                raise DeclarationError(
                    f"source {of.name!r}: a lookup reads its ids as {view.of.inspector!r} does; "
                    "an inspector with another stream_type= has to be declared in the topology"
                )
            other._views[name] = replace(view, of=of)
        other._parallel.update(self._parallel)
        other._routes.update(self._routes)
        return other

    def first_stages(self) -> "Topology":
        """Copy the topology as a worker runs it: views with workers note what arrives.

        The worker runs `stages` beside it.
        """
        other = Topology(self.name)
        other._sources.update(self._sources)
        other._parallel.update(self._parallel)
        other._routes.update(self._routes)
        for name, view in self._views.items():
            other._views[name] = view if view.work is None else first_stage(view)
        return other

    def describe(self) -> Description:
        """The topology as data; `str()` renders it as text, `.mermaid()` as a diagram."""
        return describe(self)
