"""A view: a self-contained projection with its own handler, buffers and progress."""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from topology.declaration.emits import Emitting
from topology.declaration.lanes import Lane, Split, joined_lane, split_lane
from topology.declaration.policies import (
    Full,
    Gap,
    GapTime,
    Halt,
    OnError,
    OnLate,
    Redeliver,
    Skip,
)
from topology.declaration.side_topics import SideTopics
from topology.declaration.source import Source
from topology.declaration.starts import Closing, EarliestSeen, First, OpenedBy, Start
from topology.inspectors.stream_ids import StreamIds
from topology.model.errors import DeclarationError
from topology.model.table import Table
from topology.sequencer.ordering import Ordering

Handler = Callable[..., Any]
"""(event) or (event, state), sync or async; yields or returns Upserts, Deletes and Emits."""


_FULL: dict[type, Literal["redeliver", "halt"]] = {Redeliver: "redeliver", Halt: "halt"}


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
        is_async: whether the handler has to be awaited.
        start: where a stream begins.
        closing: what closes a stream, None for nothing.
        lane: what splits a stream within the view, None for nothing.
        split: the same as one function of events.
        emitting: the topics that the handler sends messages to.
        timeout: seconds that the handler may take for an event.
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
        full = self.full
        return round(full.longest(self.gap) * 1000) if isinstance(full, Redeliver) else 0

    @property
    def commands_topic(self) -> str:
        """The topic of what operators tell the view."""
        return f"{self.output}.commands"

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
    def adaptive(self) -> GapTime | None:
        """How the view learns when to give a gap up, None if it does not."""
        after = self.gap.after if isinstance(self.gap, Skip) else None
        return None if isinstance(after, float) else after

    @property
    def ordering(self) -> Ordering:
        """The view's policies in the sequencer's terms."""
        after = math.ceil(self.gap.first * 1000) if isinstance(self.gap, Skip) else None
        start, closing = self.start, self.closing
        return self.of.sequence.ordering(
            size=self.buffer,
            skip_after=after,
            full=_FULL.get(type(self.full), "spill"),
            learn=self.adaptive is not None,
            open_after=math.ceil(start.after * 1000) if isinstance(start, EarliestSeen) else None,
            opens=frozenset(start.kinds if isinstance(start, OpenedBy) else ()),
            closes=frozenset(closing.kinds if closing else ()),
            retention=math.ceil(closing.retention * 1000) if closing else 0,
            reopen=closing.reopen if closing else "late",
        )


def handler_shape(name: str, handler: Handler) -> tuple[bool, bool]:
    """(stateful, is_async) of a handler. Raises DeclarationError."""
    if not callable(handler):
        raise DeclarationError(f"view {name!r}: the handler {handler!r} is no function")
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    needed = [p for p in parameters if p.kind in kinds and p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if named:
        raise DeclarationError(
            f"view {name!r}: the handler needs the keyword argument {named[0].name!r}, which it "
            "is not given; write it as handler(event) or handler(event, state)"
        )
    if len(needed) not in (1, 2):
        raise DeclarationError(
            f"view {name!r}: the handler takes {len(needed)} arguments; "
            "write it as handler(event) or handler(event, state)"
        )
    function: Any = handler
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    is_async = inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)
    return len(needed) == 2, is_async
