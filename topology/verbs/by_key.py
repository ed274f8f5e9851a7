"""Folds by a key of the event, over all streams: one hop through a topic of the topology's own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, Unpack

from topology.declaration.policies.late import RebuildStream
from topology.model.changes import Emit
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.verbs.aggregates import Aggregate, check_aggregate
from topology.verbs.combining import (
    CombineOptions,
    KeyRow,
    checked_windows,
    combined,
    key_columns,
    key_text,
)
from topology.verbs.contributions import as_correction, encode_parts
from topology.verbs.declared_views import ViewOptions
from topology.verbs.inputs import Input
from topology.verbs.rows import Rows
from topology.verbs.steps import fused, named
from topology.verbs.window_fold import missing_before
from topology.verbs.windows import Hopping, Windows

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")
REOPEN = (
    "a stream that begins again would be counted again; write a handler that tells its lives apart"
)


@dataclass(frozen=True, slots=True)
class ByKey(Generic[T]):
    """Events of all streams, by a key of theirs."""

    _input: Input
    _key: Callable[[Any], Any]
    _windows: Hopping | None = None
    _keep: int | None = None

    def window(self, windows: Windows, keep: float | None = None) -> "ByKey[T]":
        """Split each key's events by time: `tumbling` or `hopping`.

        Args:
            windows: what assigns events to windows.
            keep: seconds behind the key's clock, the latest time of all its events, for which a
                window is kept; for ever unless given. What is for an older one goes to the late
                topic, and that depends on how far streams are ahead of each other.

        Raises:
            DeclarationError: they are sessions, or nothing says when events happened.
        """
        checked, kept = checked_windows(windows, self._input.time is not None, keep)
        return replace(self, _windows=checked, _keep=kept)

    def fold(
        self,
        aggregate: Aggregate[T, S, R],
        *,
        name: str,
        combine: CombineOptions | None = None,
        **options: Unpack[ViewOptions],
    ) -> Rows[KeyRow[R]]:
        """Fold the events of each key, and window.

        There are two views: `<name>-by` takes the streams in sequence, and sends what each event
        comes to by key to the topic `<topology>.<name>.by-key`; the other one, with the name given,
        combines that.

        Args:
            aggregate: what to make of them; its `merge` combines what several events come to, in
                any order.
            name: of the view that combines.
            combine: `error`, `tables` and `timeout` of that view, as `Topology.view` takes them.
            options: what `Topology.view` takes, for the view `<name>-by`; `tables` are those of
                the view that combines.

        Returns:
            The fold's rows, for `to_rows` and `to`, and for other verbs.

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
        handler = self._input.reader
        rebuilt = handler is not None and isinstance(handler.late, RebuildStream)
        if handler is not None and rebuilt and aggregate.subtract is None:
            raise DeclarationError(
                f"view {name!r}: the handler of {handler.name!r} may send other values where its "
                "streams are rebuilt (late=rebuild_stream()), and the aggregate cannot take back "
                "those before; use count, total or mean, give Aggregate(subtract=…), or leave "
                "rebuild_stream() away"
            )
        self._input.check_reopen(name, options, REOPEN)
        if combine is not None and not isinstance(combine, Mapping):
            raise DeclarationError(f"view {name!r}: combine={combine!r:.100}; give option → value")
        topic = f"{self._input.graph.name}.{name}.by-key"
        then: CombineOptions = {"tables": options.pop("tables", ()), **(combine or {})}
        sender = self._send(aggregate, f"{name}-by", topic, options)
        windows, graph = self._windows, self._input.graph
        made: Rows[KeyRow[R]] = Rows(graph, name, *key_columns(windows), windows is not None)
        combined(
            graph, name, topic, sender, aggregate, windows, then, made.told, made.forget, self._keep
        )
        return made

    def _send(
        self, aggregate: Aggregate[Any, Any, Any], name: str, topic: str, options: ViewOptions
    ) -> str:
        """Declare the view that takes the streams in sequence, or let that of the input do so."""
        given, key = self._input, self._key
        order, run = given.source.sequence, fused(given.steps)
        first = given.first(options)

        def send(event: Event, state: dict[str, Any]) -> list[Emit]:
            content, time = given.taken(event)
            missing = state.pop("missing", 0)
            if order.counts:
                missing += missing_before(state, event.sequence, order.step, first)
            found: dict[str, Any] = {}
            for value in run(content):
                at = key_text(key(value))
                before = found[at] if at in found else aggregate.start()
                found[at] = aggregate.add(before, value)
            if not found and missing:
                state["missing"] = missing  # the next event that has a key has them
            return [
                Emit(topic, at, encode_parts([[time, missing, made]])) for at, made in found.items()
            ]

        given.declare(name, named(send, given.steps, "by"), options, emits=[topic])
        declared = given.graph.views[given.view(name)]
        hops = {**declared.hops, topic: as_correction}
        given.graph.replace_view(replace(declared, hops=hops))
        return declared.name
