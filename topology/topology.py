"""Topology: sources and views, declared as values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, NoneType
from typing import Any

from topology.describe import Description, describe, policy_name
from topology.emitting import TOPICS, alike, checked_emitting
from topology.errors import DeclarationError
from topology.inspector import AnyInspector, resolved
from topology.lanes import Lane, compile_split, showing
from topology.linking import compile_for
from topology.names import checked_name, checked_topic, listed
from topology.on_full import check_full
from topology.on_gap import check_ask
from topology.policies import (
    Advance,
    Ask,
    Full,
    Gap,
    Halt,
    LateTopic,
    OnError,
    OnLate,
    OnUnknown,
    Park,
    RebuildStream,
    Redeliver,
    Retry,
    Skip,
    Spill,
    Wait,
)
from topology.printable import printable
from topology.sequences import Contiguous, Linked, Monotonic, contiguous
from topology.sequences import Sequence as Sequencing
from topology.side_topics import SideTopics
from topology.source import Source
from topology.starts import (
    Closing,
    EarliestSeen,
    First,
    OpenedBy,
    Reopen,
    Start,
    checked_closing,
    ending,
)
from topology.table import Table
from topology.timeouts import checked_timeout, timed
from topology.typed import AnyHandler, HandlerType
from topology.view import View, handler_shape

PARTITIONS = 100_000
"""The most partitions of a source."""
SLOTS = 1_000_000
"""The most slots of a ring."""


class Topology(SideTopics):
    """A named graph of sources and views; a runtime runs it, `describe()` shows it."""

    def __init__(self, name: str) -> None:
        self.name = checked_name("topology", name)
        self._sources: dict[str, Source] = {}
        self._views: dict[str, View] = {}

    def source(
        self,
        topic: str | Sequence[str],
        *,
        inspector: AnyInspector,
        sequence: Sequencing | None = None,
        name: str | None = None,
        keyed: bool = False,
        partitions: int = 4,
        unknown: OnUnknown = "pass",
    ) -> Source:
        """Declare a source.

        topic: one topic, or several whose events are merged by stream. inspector: an Inspector, a
        function of a message, or 'module:name' of either. sequence: what orders events,
        `contiguous()` unless given, `linked(…)` or `monotonic(…)`. keyed: the topic's records are
        keyed by stream already.
        partitions: of the views' input; for a keyed source the number that the topic has. unknown:
        what to do with messages that the inspector does not know: 'pass', or 'topic' for
        `<topology>.unknown`.
        """
        topics = listed("source(topic", topic, "name a topic, or a list of topics")
        if not topics:
            raise DeclarationError("source(topic=()): name at least one topic")
        if len({*map(repr, topics)}) < len(topics):
            raise DeclarationError(f"source(topic={topic!r}): name each topic once")
        for each in topics:
            checked_topic(each)
            for view in self._views.values():
                if each in (view.output, view.redeliver_topic, view.commands_topic):
                    raise DeclarationError(
                        f"topic {each!r} is the output of one of the topology's own views; "
                        "read it in a topology of its own"
                    )
            other = next((s for s in self._sources.values() if each in s.topics), None)
            if other is not None:
                raise DeclarationError(
                    f"topic {each!r} belongs to source {other.name!r} already; "
                    "declare one source and give its views different `accepts`"
                )
        name = checked_name("source", topics[0] if name is None else name)
        if name in self._sources:
            raise DeclarationError(f"source {name!r} exists twice; give one of them a `name`")
        if not isinstance(keyed, bool):
            raise DeclarationError(f"source {name!r}: keyed={keyed!r}; use True or False")
        if keyed and len(topics) > 1:
            raise DeclarationError(
                f"source {name!r}: keyed=True takes one topic; several are merged by re-keying, "
                "so leave keyed out"
            )
        whole = isinstance(partitions, int) and not isinstance(partitions, bool)
        if not whole or not 1 <= partitions <= PARTITIONS:
            raise DeclarationError(
                f"source {name!r}: partitions={partitions!r} must be at least 1, "
                f"{PARTITIONS} at most"
            )
        if sequence is None:
            sequence = contiguous()
        if not isinstance(sequence, Contiguous | Linked | Monotonic):
            raise DeclarationError(
                f"source {name!r}: sequence={sequence!r}; use contiguous(…), linked(…) or "
                "monotonic(…)"
            )
        if unknown not in ("pass", "topic"):
            raise DeclarationError(f"source {name!r}: unknown={unknown!r}; use 'pass' or 'topic'")
        inspector = resolved(inspector, f"source {name!r}: inspector")
        source = Source(
            name=name,
            topology=self.name,
            topics=topics,
            inspector=inspector,
            inspect=compile_for(sequence, inspector),
            sequence=sequence,
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

        of: the source, or its name. accepts: the kinds to handle; other events pass by in order.
        buffer: slots of each stream's ring. gap: `wait()`, `skip(after=seconds)`,
        `skip(after=adaptive(…))` or `ask(topic)`. full: `spill()`, `redeliver(…)` or `halt()`.
        late: `late_topic()` or `rebuild_stream(…)`. error: `advance()`, `retry(…)`, `park()` or
        `halt()`. tables: the read-store tables that the handler writes to, where their columns
        should be declared rather than inferred. start: where a stream begins: `first()`,
        `earliest_seen(after=seconds)` or `opened_by(kind, …)`. closes: the kinds that close a
        stream; it is forgotten `retention` seconds later. reopen: whether what comes in between is
        'late', or starts the stream again ('start'). lane: what splits a stream within the view,
        each lane in order on its own: a field or a function of the event. timeout:
        seconds that the handler may take for an event; more is a failure. emits: the topics that it
        sends messages to. topics: how many others it may name in a worker.
        """
        checked_name("view", name)
        if name in self._views:
            raise DeclarationError(f"view {name!r} exists twice; give each view its own name")
        if not isinstance(of, Source | str):
            raise DeclarationError(
                f"view {name!r}: of={printable(repr(of))}; a view is of one source, or its name. "
                "Merge several topics by stream in one source(['…', '…']), or declare a view for "
                "each source"
            )
        source = self._sources.get(of.name if isinstance(of, Source) else of)
        if source is None or (isinstance(of, Source) and of is not source):
            known = ", ".join(map(repr, self._sources)) or "none yet"
            unknown = of.name if isinstance(of, Source) else of
            raise DeclarationError(
                f"view {name!r}: source {unknown!r} is not one of topology {self.name!r} "
                f"(it has {known}); declare it with .source(…) first"
            )
        whole = isinstance(buffer, int) and not isinstance(buffer, bool)
        if not whole or not 1 <= buffer <= SLOTS:
            raise DeclarationError(
                f"view {name!r}: buffer={buffer!r}; a ring has at least 1 slot, {SLOTS} at most"
            )
        kinds = _checked_kinds(name, accepts)
        self._check_output(name)
        if isinstance(source.sequence, Monotonic):
            full = _checked_monotonic(name, source, gap, full, start)
        gap = Wait() if gap is None else gap
        late = LateTopic() if late is None else late
        error = Advance() if error is None else error
        for what, value, types in (
            ("gap", gap, (Wait, Skip, Ask)),
            ("full", full, (Redeliver, Spill, Halt, NoneType)),
            ("late", late, (LateTopic, RebuildStream)),
            ("error", error, (Advance, Retry, Park, Halt)),
        ):
            if not isinstance(value, types):
                names = " or ".join(f"{policy_name(t)}(…)" for t in types if t is not NoneType)
                raise DeclarationError(f"view {name!r}: {what}={value!r}; use {names}")
        full = Spill() if full is None else full
        check_full(name, full, gap)
        check_ask(name, gap, source.sequence, lane)
        closing = checked_closing(name, closes, retention, reopen, kinds)
        start = First() if start is None else start
        if not isinstance(start, First | EarliestSeen | OpenedBy):
            raise DeclarationError(
                f"view {name!r}: start={start!r}; use first(), earliest_seen(after=…) or "
                "opened_by(kind, …)"
            )
        _check_rebuilding(name, late, start, closing, full, source.sequence.kind)
        split = None if lane is None else compile_split(name, lane)
        declared = _checked_tables(name, tables)
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

    def _own_use(self, topic: str, new: tuple[str, ...] = ()) -> str | None:
        """What one of the topology's own topics is for, None for any other topic.

        new: views that are about to be declared.
        """
        name = alike(topic)
        for source in self._sources.values():
            if not source.keyed and name == alike(source.by_stream):
                return "the by-stream topic"
        for side in (*self.side_topics, self.clock_topic, f"{self.name}.dead-rows"):
            if name == alike(side):
                return f"the topic {side!r}"
        for view in (*self._views, *new):
            for what, own in self._topics_of(view).items():
                if name == alike(own):
                    return f"the {what} topic of view {view!r}"
            if topic.endswith(f"-{view}-changelog"):
                return f"the changelog of view {view!r}"
        return None

    def _topics_of(self, view: str) -> dict[str, str]:
        """What a view's topics are for → their names."""
        output = f"{self.name}.{view}"
        return {
            "output": output,
            "redelivery": f"{output}.redeliver",
            "commands": f"{output}.commands",
        }

    def _check_output(self, view: str) -> None:
        inputs = {topic for source in self._sources.values() for topic in source.topics}
        own = {source.by_stream for source in self._sources.values()} | {*self.side_topics}
        own.add(self.clock_topic)
        for other in self._views.values():
            own |= {*self._topics_of(other.name).values(), *other.emitting.declared}
        for what, topic in self._topics_of(view).items():
            if topic in inputs | own:
                use = "is a source's topic" if topic in inputs else "has another use"
                raise DeclarationError(
                    f"view {view!r}: its {what} topic would be {topic!r}, which {use}; "
                    "rename the view"
                )

    def _check_tables(self, view: str, declared: tuple[Table, ...]) -> None:
        taken = {table.name: other.name for other in self._views.values() for table in other.tables}
        for table in declared:
            if table.name in taken:
                raise DeclarationError(
                    f"view {view!r}: table {table.name!r} belongs to view {taken[table.name]!r}; "
                    "a table is written by one view"
                )
            taken[table.name] = view

    @property
    def _prefix(self) -> str:
        return self.name

    @property
    def sources(self) -> MappingProxyType[str, Source]:
        """Name → source, in order of declaration."""
        return MappingProxyType(self._sources)

    @property
    def views(self) -> MappingProxyType[str, View]:
        """Name → view, in order of declaration."""
        return MappingProxyType(self._views)

    def views_of(self, source: Source) -> list[View]:
        """The views of one source."""
        return [view for view in self._views.values() if view.of is source]

    def with_inspectors(self, inspectors: Mapping[str, AnyInspector]) -> "Topology":
        """A copy of the topology in which some sources have other inspectors, by source's name.

        Raises DeclarationError for a source that is not there and for what is no inspector.
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


def _checked_kinds(view: str, accepts: Iterable[str] | None) -> frozenset[str] | None:
    if accepts is None:
        return None
    if isinstance(accepts, str):
        raise DeclarationError(
            f"view {view!r}: accepts={accepts!r} is one text; write {{{accepts!r}}}"
        )
    kinds = tuple(accepts) if isinstance(accepts, Iterable) else (None,)
    if not all(isinstance(kind, str) for kind in kinds):
        raise DeclarationError(
            f"view {view!r}: accepts={accepts!r}; give the kinds as texts, as in {{'OUT', 'IN'}}"
        )
    if not kinds:
        raise DeclarationError(
            f"view {view!r}: accepts={accepts!r}: it would handle nothing; name its kinds, or "
            "leave accepts out for all"
        )
    return frozenset(kinds)


def _checked_monotonic(
    view: str, source: Source, gap: Gap | None, full: Full | None, start: Start | None
) -> Full:
    """What becomes of an event beyond the buffer of a monotonic source, where less is to choose."""
    name = source.name
    if gap is not None:
        raise DeclarationError(
            f"view {view!r}: gap={gap!r}, but source {name!r} is monotonic, which knows no gaps; "
            "leave gap out"
        )
    if isinstance(full, Redeliver):
        raise DeclarationError(
            f"view {view!r}: full={full!r}, but source {name!r} is monotonic: what is away for "
            "redelivery cannot settle; use spill() or halt()"
        )
    if start is not None and not isinstance(start, First):
        raise DeclarationError(
            f"view {view!r}: start={start!r}, but source {name!r} is monotonic: its streams begin "
            "with what has settled; leave start out"
        )
    return Spill() if full is None else full


def _check_rebuilding(
    view: str, late: OnLate, start: Start, closing: Closing | None, full: Full, kind: str
) -> None:
    """What is late for good cannot be put in its place by a rebuild. Raises DeclarationError."""
    if not isinstance(late, RebuildStream):
        return
    if isinstance(start, OpenedBy):
        raise DeclarationError(
            f"view {view!r}: late={late!r} with start={start}: what comes below the opening event "
            "is late for good; use late_topic(), or another start"
        )
    if closing is not None:
        raise DeclarationError(
            f"view {view!r}: late={late!r} with closes=…: what comes behind the closing event is "
            "late for good, and a closed stream is forgotten; use late_topic()"
        )
    if isinstance(full, Redeliver) and kind == "monotonic":
        raise DeclarationError(
            f"view {view!r}: late={late!r} with full=redeliver(…) where sequences merely grow: "
            "what is away when its stream passes it is not told from what was handled; use spill()"
        )


def _checked_tables(view: str, tables: Iterable[Table]) -> tuple[Table, ...]:
    declared = tuple(tables) if isinstance(tables, Iterable) else (None,)
    for table in declared:
        if not isinstance(table, Table):
            raise DeclarationError(
                f"view {view!r}: tables={tables!r}; give a list of Table(name, key=…, columns=…)"
            )
    return declared
