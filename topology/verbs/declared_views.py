"""The views that verbs declare, and what `view()` takes of them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypedDict

from topology.declaration.policies import Full, Gap, OnError, OnLate
from topology.declaration.source import Source
from topology.declaration.starts import Reopen, Start
from topology.declaration.topology import Topology
from topology.model.table import Table

Handler = Callable[..., Any]


class ViewOptions(TypedDict, total=False):
    """What `Topology.view` takes of a view that verbs declare; see there."""

    buffer: int
    gap: Gap
    full: Full
    late: OnLate
    error: OnError
    tables: Iterable[Table]
    start: Start
    closes: str | Iterable[str]
    retention: float
    reopen: Reopen
    timeout: float


def declare(
    graph: Topology, name: str, source: Source, handler: Handler, options: ViewOptions
) -> None:
    """Declare a view whose handler the verbs are. Raises DeclarationError."""
    graph.view(name, of=source, handler=handler, **options)


def sends_to(graph: Topology, name: str, topic: str) -> None:
    """A view that was declared sends messages to one more topic. Raises DeclarationError."""
    view = graph.views[name]
    graph.replace_view(replace(view, emitting=view.emitting.and_also([topic])))
