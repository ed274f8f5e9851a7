"""Lookups of another stream's value: two views that send by key, and one that combines.

Left and right each have an order of their own, and none between them. So the view that combines
takes both in any order, and keeps what it needs to revise its rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar

from topology.declaration.orders import Monotonic
from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.declaration.view import CellRange, Correction
from topology.model.changes import Emit, Late
from topology.model.column_types import ColumnType
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.verbs.as_of import AsOf
from topology.verbs.combining import key_text
from topology.verbs.contributions import InOffsetOrder
from topology.verbs.declared_views import ViewOptions, declare, sends_to
from topology.verbs.hop_inspector import HopInspector
from topology.verbs.inputs import Input
from topology.verbs.lookup_join import Found, LookupJoin
from topology.verbs.lookup_records import LookupRecord, as_told_anew, encoded, lookup_record_of
from topology.verbs.revisions import Cells, Change, Said, told_by_row
from topology.verbs.rows import Rows
from topology.verbs.steps import checked_function, fused, named
from topology.verbs.window_fold import missing_before
from topology.verbs.windows import moment

T = TypeVar("T")
W = TypeVar("W")
R = TypeVar("R")
ARRIVAL = (
    "arrival time is no choice: the rows would depend on the order of arrival. Say when events "
    "happened, as in events(…, time=…) on both sides, or use as_of_sequence(left=…)"
)
KEY = (
    "the right side of a lookup is found by its stream; give its source an inspector whose stream "
    "is what the lookup's key=… returns"
)
REOPEN = (
    "a stream that begins again would begin its rows again; write a handler that tells its lives "
    "apart"
)
WITHIN = (
    "what a handler sends is looked up where it is a source: let the handler send it to a topic, "
    "and take the events of a source of that topic"
)


@dataclass(frozen=True, slots=True)
class LookupRow(Generic[R]):
    """What a lookup has found for one left event.

    Attributes:
        stream: the left event's.
        sequence: the left event's.
        part: which of the values it is that `flat_map` made of the event, from 0.
        value: what `merge` made of left and right.
        final: whether the right stream has passed what was looked up. What comes later in its
            sequence, but is of an earlier time, and a rebuild revise the row as long as it is kept.
        missing: how many right events were given up, or failed, behind the one that was found and
            before the next: each may have been the right one.
    """

    stream: str
    sequence: int
    part: int
    value: R
    final: bool
    missing: int


@dataclass(frozen=True, slots=True)
class Latest(Generic[T]):
    """Each stream's values, for lookups: `Events.latest` declares it."""

    _input: Input
    _name: str
    _first: int | None
    _topics: list[str] = field(default_factory=list)


def latest(given: Input, name: str, options: ViewOptions) -> Latest[Any]:
    """Declare the view that sends each stream's values to the lookups of it."""
    if "key" in options:
        raise DeclarationError(f"view {name!r}: latest(key=…): {KEY}")
    _check_input(given, name, options)
    order, run = given.source.sequence, fused(given.steps)
    first = given.first(options) if order.counts else None
    found: Latest[Any] = Latest(given, name, first)

    def send(event: Event, state: dict[str, Any]) -> list[Emit]:
        (content, time), missing = given.taken(event), 0
        if order.counts:
            missing = missing_before(state, event.sequence, order.step, first)
        there = any(True for _ in run(content))
        kept = [given.needed(event.content)] if there else None
        item = [event.sequence, time, missing, kept]
        return [Emit(topic, event.stream, encoded("right", [item])) for topic in found._topics]

    declare(given.graph, name, given.source, named(send, given.steps, "latest"), options)
    return found


def lookup(
    given: Input,
    right: Latest[Any],
    key: Callable[[Any], Any] | None,
    at: AsOf[Any],
    merge: Callable[[Any, Any], Any],
    name: str,
    options: ViewOptions,
) -> Rows[Any]:
    """Declare the views of a lookup; see `Events.lookup`."""
    graph = given.graph
    _check(given, right, at, name)
    _check_input(given, name, options)
    checked_function(f"view {name!r}: lookup(merge", merge, 2)
    if key is not None:
        checked_function(f"view {name!r}: lookup(key", key)
    topic, waits = f"{graph.name}.{name}.by-key", f"{graph.name}.{name}.waits"
    tables = options.pop("tables", ())
    _send_left(given, right._input, key, at, topic, f"{name}-left", options)
    right._topics.append(topic)
    _feeds(graph, right._name, topic)
    graph.replace_view(replace(graph.views[right._name], looked_up=True))
    views = (f"{name}-left", right._name, *((f"{name}-wait",) if at.wait else ()), name)
    inspector = HopInspector(lookup_record_of, right._input.source.stream_ids)
    order, partitions = InOffsetOrder(), given.source.partitions
    source = graph.add_hop(f"{name}-by", topic, views, inspector, order, partitions)
    rows = _combine(given, right, source, at, merge, name, waits, ViewOptions(tables=tables))
    if at.wait:
        _wait(graph, source, at.wait / 1000, name, waits, topic)
    return rows


def _send_left(
    given: Input,
    right: Input,
    key: Callable[[Any], Any] | None,
    at: AsOf[Any],
    topic: str,
    view: str,
    options: ViewOptions,
) -> None:
    """Declare the view that takes the left streams in sequence."""
    run = fused(given.steps)
    ids = right.source.stream_ids

    def send(event: Event) -> list[Emit]:
        content, time = given.taken(event)
        looks: dict[str, list[list[int]]] = {}
        for number, value in enumerate(run(content)):
            if key is None:
                to = ids.read(event.stream)
            else:
                to = key_text(key(value), ids, "lookup(key=…)")
            looks.setdefault(to, []).append([number, at.at(value, time)])
        kept = given.needed(event.content) if looks else None
        return [
            Emit(topic, to, encoded("left", [[event.sequence, time, numbers, kept]]))
            for to, numbers in looks.items()
        ]

    handler = named(send, given.steps, "lookup")
    declare(given.graph, view, given.source, handler, options, emits=[topic])
    _feeds(given.graph, view, topic)


def _combine(
    given: Input,
    right: Latest[Any],
    source: Source,
    at: AsOf[Any],
    merge: Callable[[Any, Any], Any],
    name: str,
    waits: str,
    options: ViewOptions,
) -> Rows[Any]:
    """Declare the view that finds the right of each left."""
    graph, other, topic = given.graph, right._input, source.by_stream
    join = LookupJoin(at, other.source.sequence.step, right._first)
    # Looked at were the values when they were sent.
    run_left, run_right = (
        fused([step for step in side.steps if step[0] != "peek"]) for side in (given, other)
    )
    several = any(verb == "flat_map" for verb, _ in given.steps)
    columns: dict[str, ColumnType] = {"stream": str, "sequence": int}
    rows: Rows[Any] = Rows(
        graph, name, columns | ({"part": int} if several else {}), {"missing": int, "final": bool},
        given.time is not None, _shown=attrgetter("value"),
    )  # fmt: skip

    # Many rows find the same value: it is read once, if nobody can change it.
    last: dict[str, tuple[Any, Any]] = {}

    def right_of(content: Any) -> Any:
        before = last.get("")
        if before is not None and before[0] is content:
            return before[1]
        *_, known = run_right(other.read(content))
        if other.frozen:
            last[""] = content, known
        return known

    def change_of(found: Found) -> Change:
        value = list(run_left(given.read(found.left)))[found.number]
        known = None if found.right is None else right_of(found.right[0])
        row = LookupRow(
            found.stream, found.sequence, found.number, merge(value, known), found.final,
            found.missing,
        )  # fmt: skip
        return Change(found.id, row, found.time, found.missing, settled=found.settled)

    def gone_of(found: Found) -> tuple[str, Change]:
        row: LookupRow[Any] = LookupRow(
            found.stream, found.sequence, found.number, None, found.final, found.missing
        )
        which = f"the row of stream {found.stream!r}, sequence {found.sequence}"
        return which, Change(found.id, row, found.time, gone=True, settled=found.settled)

    def find(event: Event, state: dict[str, Any], cells: Cells) -> Said:
        record: LookupRecord = event.content
        taken = join.take(state, cells, record, event.message.timestamp)
        said: Said = []
        if taken.found:
            said += told_by_row(rows.told, event.stream, taken.found, change_of, gone_of, cells)
        for row in taken.dropped:
            rows.forget(row, cells)
        if taken.waits:
            said.append(Emit(waits, event.stream, encoded("over", taken.waits)))
        if taken.more:
            said.append(Emit(topic, event.stream, encoded("on")))
        if taken.late is not None:
            asked, kept = taken.late
            if at.left is None:
                late = f"it is of {moment(asked)}; what is before {moment(kept)} is kept no more"
            else:
                late = f"it is of sequence {asked}; what is before {kept} is kept no more"
            said.append(Late(late))
        return said

    def rows_of(key: str, _: Any, cells: CellRange) -> Iterator[Any]:
        for at, (stream, sequence, number, time, left, told) in cells("row ", "row!"):
            if told is not None:
                used, final, missing = told
                value = f"value {used}"
                right = None
                if used is not None:
                    right = [kept for _, kept in cells(value, f"{value}\0")]
                    if not right:
                        continue  # what it found is dropped, and so will it be
                found = Found(at, stream, sequence, number, time, left, right, final, missing)
                try:
                    row = change_of(found).row
                except Exception:
                    continue  # there is none: the error log has said so
                yield asdict(row)

    emits = [topic, waits] if at.wait else [topic]
    declare(graph, name, source, named(find, (), "find"), options, emits=emits)
    view = graph.views[name]
    graph.replace_view(replace(view, folds={name: rows_of}, by_row=True))
    for to in emits:
        _feeds(graph, name, to)
    return rows


def _wait(
    graph: Topology, source: Source, seconds: float, name: str, waits: str, topic: str
) -> None:
    """Declare the view that says when rows have waited long enough."""
    view = f"{name}-wait"
    inspector = HopInspector(lookup_record_of, source.stream_ids)
    order = Monotonic(seconds, appended=True)
    held = graph.add_hop(view, waits, (name,), inspector, order, source.partitions)

    def over(event: Event) -> list[Emit]:
        return [Emit(topic, event.stream, encoded("over", event.content.items))]

    declare(graph, view, held, named(over, (), "wait"), {}, emits=[topic])
    _feeds(graph, view, topic)


def _feeds(graph: Topology, view: str, topic: str, correct: Correction = as_told_anew) -> None:
    """A view fills a topic between views."""
    sends_to(graph, view, topic)
    declared = graph.views[view]
    graph.replace_view(replace(declared, hops={**declared.hops, topic: correct}))


def _check(given: Input, right: Latest[Any], at: AsOf[Any], name: str) -> None:
    what = f"view {name!r}: lookup("
    if not isinstance(right, Latest) or right._input.graph is not given.graph:
        raise DeclarationError(
            f"{what}{right!r:.100}): give what events(…).latest(name=…) returned, of topology "
            f"{given.graph.name!r}"
        )
    if not isinstance(at, AsOf):
        raise DeclarationError(
            f"{what}at={at!r:.100}): give as_of_time(…) or as_of_sequence(…); {ARRIVAL}"
        )
    for side, of in (("left", given), ("right", right._input)):
        if at.left is None and of.time is None:
            raise DeclarationError(
                f"{what}at=as_of_time(…)): the {side} side has no time; {ARRIVAL}"
            )


def _check_input(given: Input, name: str, options: ViewOptions) -> None:
    if given.within is not None:
        raise DeclarationError(f"view {name!r}: {WITHIN}")
    given.check_reopen(name, options, REOPEN)
