"""What verbs begin with: a source's events, or what a view's handler sends."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from topology.declaration.source import Source
from topology.declaration.starts import First
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.declaration.view_checks import checked_tables
from topology.inspectors.lazy import LazyJson
from topology.model.changes import Emit, each_of
from topology.model.errors import DeclarationError, HandlerError
from topology.model.event import Draft, Event, event_of
from topology.model.names import checked_name
from topology.model.table import Table
from topology.verbs.declared_views import Handler, ViewOptions, declare, own_table, sends_to
from topology.verbs.own_cells import OwnCells
from topology.verbs.revisions import Cells
from topology.verbs.steps import Step
from topology.verbs.windows import milliseconds_of

_keep: Callable[[Event, Any], None] = Draft.__dict__["made"].__set__


@dataclass(frozen=True, slots=True)
class Sent:
    """What a handler sends to one topic for one event.

    content: the event's. values: of what it sends, in order.
    """

    content: Any
    values: Sequence[Any]


class Within:
    """Verbs that run in another view's unit, behind its handler, on what this sends to a topic.

    They keep what they know of a stream in cells of the view, which its handler does not see.

    Attributes:
        cells: what the names of these cells begin with.
    """

    def __init__(self, graph: Topology, view: str, topic: str) -> None:
        self.graph, self.view, self.topic = graph, view, topic
        self.cells = f"{topic} → "
        self._readers: dict[str, tuple[Handler, int]] = {}
        before = graph.views[view]
        handler, arguments = before.handler, 1 + before.stateful + before.cells

        def run(event: Event, state: dict[str, Any], cells: Cells) -> Iterator[Any]:
            values = []
            own = OwnCells(cells, self.cells)
            items = handler(*(event, state, own)[:arguments])
            for item in () if items is None else each_of(items):
                if item.__class__ is Emit and item.topic == topic:
                    values.append(self._value(event, item))
                else:
                    yield item
            sent = event_of(
                event.stream, event.sequence, event.kind, Sent(event.content, values),
                event.message, event.arrived,
            )  # fmt: skip
            for name, (read, count) in self._readers.items():
                known = cells.setdefault(self.cell(name), {}) if count > 1 else {}
                yield from read(*(sent, known, cells)[:count])

        run.__name__ = before.handler.__name__
        graph.replace_view(
            replace(before, handler=run, stateful=True, cells=True, taken=before.taken | {topic})
        )

    def cell(self, name: str) -> str:
        """Where a reader keeps its dictionary."""
        return f"{self.cells}{name}"

    def add(
        self,
        name: str,
        handler: Handler,
        options: ViewOptions,
        emits: Iterable[str],
        table: Table | None,
    ) -> None:
        """Let verbs read. Raises DeclarationError: a name is taken or none, or an option is the
        view's."""
        what = f"view {self.view!r}"
        checked_name("verbs", name)
        if name in self._readers or name in self.graph.views:
            raise DeclarationError(f"{what}: {name!r} is taken; give each a name of its own")
        if others := options.keys() - {"tables"}:
            raise DeclarationError(
                f"{what}: {name!r}: {min(others)}= is the view's own, as these verbs are part of "
                "it; give it to view(…)"
            )
        tables = checked_tables(self.view, options.get("tables", ()))
        if table is not None:
            known = (*self.graph.views[self.view].tables, *tables)
            tables = (*tables, *own_table(self.view, known, table))
        if tables:
            self.graph.add_tables(self.view, tables)
        for topic in emits:
            sends_to(self.graph, self.view, topic)
        self._readers[name] = handler, len(signature(handler).parameters)
        view = self.graph.views[self.view]
        view.handler.__name__ += f"; {self.topic} → {handler.__name__}"

    def _value(self, event: Event, item: Emit) -> Any:
        key = item.key.decode(errors="replace") if isinstance(item.key, bytes) else item.key
        if key not in (None, event.stream):
            raise HandlerError(
                f"Emit(topic={self.topic!r}, key={key!r:.100}): verbs read it in the unit of "
                f"stream {event.stream!r:.100}, which has to be its key; take it by(…) another one"
            )
        return _copied(item.value)  # as it is now, which is what a topic would have


def _copied(value: Any) -> Any:
    """A value that its handler may change when it goes on."""
    if value.__class__ is dict:
        return {name: _copied(each) for name, each in value.items()}
    if value.__class__ is list:
        return [_copied(each) for each in value]
    return value


@dataclass(frozen=True, slots=True)
class Input:
    """What verbs take: content, read, with its time, and the steps so far.

    source: that it comes from. within: the view in whose unit they run, None for a view of theirs.
    frozen: whether what `read` makes cannot be changed, so that views may share it. fields: all
    that `read` reads of content, None where that is not known.
    """

    graph: Topology
    source: Source
    read: Callable[[Any], Any]
    time: Callable[[Any], Any] | None
    steps: tuple[Step, ...]
    within: Within | None = None
    frozen: bool = False
    fields: tuple[str, ...] | None = None

    def needed(self, content: Any) -> Any:
        """What is kept of content that was read, so that `read` makes the same of it again."""
        whole = content.value if content.__class__ is LazyJson else content
        if self.fields is None or whole.__class__ is not dict:
            return whole
        return {name: whole[name] for name in self.fields if name in whole}

    def taken(self, event: Event) -> tuple[Any, int]:
        """(an event's content, read; its time in ms, 0 where nobody says).

        They are made once for all views, if nobody can change them. Raises what `read` and `time`
        do.
        """
        read, of = self.read, self.time
        if self.frozen:
            made = getattr(event, "made", None)
            if made is not None and made[0] is read and made[1] is of:
                return made[2], made[3]
        content = read(event.content)
        time = 0 if of is None else milliseconds_of(of(content))
        if self.frozen:
            _keep(event, (read, of, content, time))
        return content, time

    def view(self, name: str) -> str:
        """The view that runs them."""
        return name if self.within is None else self.within.view

    def declare(
        self,
        name: str,
        handler: Handler,
        options: ViewOptions,
        *,
        emits: Iterable[str] = (),
        table: Table | None = None,
        plain_state: bool = True,
    ) -> None:
        """Declare the view that verbs are, or add them to that of their input; as `declare`."""
        if self.within is None:
            declare(
                self.graph, name, self.source, handler, options, emits=emits, table=table,
                plain_state=plain_state,
            )  # fmt: skip
        else:
            self.within.add(name, handler, options, emits, table)

    def first(self, options: ViewOptions) -> int | None:
        """The sequence before a stream's first one, None where it may begin anywhere."""
        view, order = self.reader, self.source.sequence
        start = options.get("start") or First() if view is None else view.start
        return order.start - order.step if isinstance(start, First) else None

    def check_reopen(self, name: str, options: ViewOptions, why: str) -> None:
        """Raises DeclarationError where a stream may begin again."""
        view = self.reader
        reopen = options.get("reopen") if view is None else view.closing and view.closing.reopen
        if reopen == "start":
            raise DeclarationError(f"view {name!r}: reopen='start': {why}")

    @property
    def reader(self) -> View | None:
        """The view of the user's whose handler sends it, None where it is a source's."""
        return None if self.within is None else self.graph.views[self.within.view]
