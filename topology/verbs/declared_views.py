"""The views that verbs declare, and what `view()` takes of them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypedDict

from topology.declaration.policies import Full, Gap, OnError, OnLate
from topology.declaration.source import Source
from topology.declaration.starts import Reopen, Start
from topology.declaration.topology import Topology
from topology.declaration.view_checks import checked_tables
from topology.model.errors import DeclarationError
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
    graph: Topology,
    name: str,
    source: Source,
    handler: Handler,
    options: ViewOptions,
    *,
    emits: Iterable[str] = (),
    table: Table | None = None,
    plain_state: bool = True,
) -> None:
    """Declare a view whose handler the verbs are.

    Args:
        graph: the topology.
        name: the view's.
        source: what it reads.
        handler: the verbs.
        options: the user's.
        emits: topics that it sends to.
        table: that it writes, unless the options have it.
        plain_state: as of `View`: False where the user's functions say what is kept.

    Raises:
        DeclarationError: an option is none, or wrong.
    """
    given: dict[str, Any] = {**options}
    if unknown := given.keys() - ViewOptions.__annotations__.keys():
        raise DeclarationError(
            f"view {name!r}: {sorted(unknown)[0]}= is no option of verbs, which have "
            f"{', '.join(ViewOptions.__annotations__)}; write a handler for others"
        )
    if table is not None:
        tables = checked_tables(name, given.get("tables", ()))
        given["tables"] = (*tables, *own_table(name, tables, table))
    graph.view(name, of=source, handler=handler, emits=emits, **given)
    graph.replace_view(replace(graph.views[name], plain_state=plain_state))


def own_table(view: str, declared: Iterable[Table], table: Table) -> tuple[Table, ...]:
    """A table that verbs write, unless it is declared. Raises DeclarationError if otherwise."""
    known = next((each for each in declared if each.name == table.name), None)
    if known is None:
        return (table,)
    if known.key.keys() != table.key.keys():
        raise DeclarationError(
            f"view {view!r}: the key of table {table.name!r} is {', '.join(table.key)}; it is "
            f"declared with {', '.join(known.key)}"
        )
    return ()


def sends_to(graph: Topology, name: str, topic: str) -> None:
    """A view that was declared sends messages to one more topic. Raises DeclarationError."""
    view = graph.views[name]
    graph.replace_view(replace(view, emitting=view.emitting.and_also([topic])))
