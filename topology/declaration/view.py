"""A view: a self-contained projection with its own handler, buffers and progress."""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topology.declaration.emits import Emitting
from topology.declaration.lanes import Lane, Split, joined_lane, split_lane
from topology.declaration.message_path import MessagePath
from topology.declaration.parallel_work import ParallelWork
from topology.declaration.policies import (
    Full,
    Gap,
    OnError,
    OnLate,
)
from topology.declaration.side_topics import SideTopics
from topology.declaration.source import Source
from topology.declaration.starts import Closing, First, Start
from topology.inspectors.stream_ids import StreamIds
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.model.names import signature_of
from topology.model.table import Table
from topology.sequencer.ordering import Ordering

Correction = Callable[[Iterable[bytes], Iterable[bytes]], bytes | None]
CellRange = Callable[[str, str], Iterable[tuple[str, Any]]]
"""(first key, the key behind the last) → the cells of a stream between these."""
RowsOf = Callable[[str, dict[str, Any], CellRange], Iterable[Any]]
"""(stream, its dictionary, its cells) → the rows of a fold that may still change."""
SHAPES = "handler(event), handler(event, state) or handler(event, state, cells)"
Handler = Callable[..., Any]
"""One of these, sync or async; it yields or returns Upserts, Deletes and Emits."""


@dataclass(frozen=True, slots=True, eq=False)
class View(SideTopics):
    """A view, as `Topology.views` has it.

    Attributes:
        name: the view's name.
        topology: the topology's name.
        of: the source it reads.
        handler: the function from events to row changes and messages.
        accepts: the kinds it handles, None for all; others pass by in order.
        buffer: slots of each stream's ring.
        gap: the policy about missing events.
        full: the policy about events beyond the ring.
        late: the policy about late events.
        error: the policy about failed events.
        tables: the declared read-store tables.
        stateful: whether the handler takes the stream's own dictionary.
        cells: whether it takes the stream's cells, too.
        plain_state: whether what it keeps in both is as JSON gives it back, and depends on nothing
            else; then it is not read anew for each event.
        hops: topic that only another view reads → what to send where a rebuild makes other values
            of a stream's events than before: (before, after) → value, None for nothing.
        folds: name of a fold of the view's verbs → its rows.
        by_row: whether the handler can leave out the rows of an event that fail.
        taken: topics that verbs of the view's own read instead of their being written.
        looked_up: whether lookups find its streams, by ids as they were when it was declared.
        is_async: whether the handler has to be awaited.
        start: where a stream begins.
        closing: what closes a stream, None for nothing.
        lane: what splits a stream within the view, None for nothing.
        split: the same as one function of events.
        emitting: the topics that the handler sends messages to.
        timeout: seconds that the handler may take for an event.
        work: how the handler works side by side, None where it takes one event after the other.
        paths: what becomes of the messages that it sends, where its verbs say something.
    """

    name: str
    topology: str
    of: Source
    handler: Handler
    accepts: frozenset[str] | None
    buffer: int
    gap: Gap
    full: Full
    late: OnLate
    error: OnError
    tables: tuple[Table, ...]
    stateful: bool
    is_async: bool
    start: Start = field(default_factory=First)
    closing: Closing | None = None
    lane: Lane | None = None
    split: Split | None = None
    emitting: Emitting = field(default_factory=lambda: Emitting(""))
    timeout: float | None = None
    work: ParallelWork | None = None
    paths: tuple[MessagePath, ...] = ()
    cells: bool = False
    plain_state: bool = False
    hops: Mapping[str, Correction] = field(default_factory=dict)
    folds: Mapping[str, RowsOf] = field(default_factory=dict)
    by_row: bool = False
    taken: frozenset[str] = frozenset()
    looked_up: bool = False

    @property
    def _prefix(self) -> str:
        return self.topology

    @property
    def output(self) -> str:
        """The topic that the view's row changes go to."""
        return f"{self.topology}.{self.name}"

    @property
    def redeliver_topic(self) -> str:
        """The topic of events that come again when the ring may have room for them."""
        return f"{self.output}.redeliver"

    @property
    def longest_away(self) -> int:
        """The most ms that an event stays away for redelivery; 0 where none is sent away."""
        return round(self.full.longest(self.gap) * 1000)

    @property
    def commands_topic(self) -> str:
        """The topic of what operators tell the view."""
        return f"{self.output}.commands"

    @property
    def arrivals_topic(self) -> str:
        """Where the events of a view with workers are, in the order in which they arrived."""
        return f"{self.output}.arrivals"

    def closed_by(self, event: Event) -> bool:
        """Return whether an event closes its stream.

        Args:
            event: of the view.
        """
        return self.closing is not None and event.kind in self.closing.kinds

    def stream_id(self, text: str) -> str:
        """Read a stream's id, as a person or a producer writes it, into the view's own form.

        Args:
            text: a stream's id. In a view with lanes it names a stream, or one lane of it as
                `stream|lane`.

        Raises:
            Malformed: the text is no such id.
        """
        if self.split is None or "|" not in text:
            return self.of.stream_id(text)
        stream, lane = split_lane(text)
        return joined_lane(self.of.stream_id(stream), StreamIds().read(lane))

    @property
    def policies(self) -> dict[str, Gap | Full | OnLate | OnError]:
        """The parameters of `view()` that are policies, and what they are."""
        return {"gap": self.gap, "full": self.full, "late": self.late, "error": self.error}

    @property
    def ordering(self) -> Ordering:
        """The view's policies in the sequencer's terms."""
        gap, closing = self.gap, self.closing
        return self.of.sequence.ordering(
            size=self.buffer,
            skip_after=math.ceil(gap.first * 1000) if gap.skips else None,
            full=self.full.beyond,
            learn=gap.adaptive is not None,
            open_after=self.start.open_after,
            opens=self.start.opens,
            closes=frozenset(closing.kinds if closing else ()),
            retention=math.ceil(closing.retention * 1000) if closing else 0,
            reopen=closing.reopen if closing else "late",
        )


def handler_shape(name: str, handler: Handler) -> tuple[int, bool]:
    """(how many arguments it takes, is_async) of a handler. Raises DeclarationError."""
    if not callable(handler):
        raise DeclarationError(f"view {name!r}: the handler {handler!r} is no function")
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = signature_of(handler).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    needed = [p for p in parameters if p.kind in kinds and p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if named:
        raise DeclarationError(
            f"view {name!r}: the handler needs the keyword argument {named[0].name!r}, which it "
            f"is not given; write it as {SHAPES}"
        )
    if len(needed) not in (1, 2, 3):
        raise DeclarationError(
            f"view {name!r}: the handler takes {len(needed)} arguments; write it as {SHAPES}"
        )
    function: Any = handler
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    is_async = inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)
    return len(needed), is_async
