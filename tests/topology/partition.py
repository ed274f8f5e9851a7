"""A partition that runs batch by batch, and can crash: the engine's task without any runtime."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from topology import Emit, Event, Inspector, Record, Topology, Upsert, contiguous, spill
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition.pending_redelivery import RedeliveryQueue
from topology.engine.stream_task import StreamTask
from topology.engine.view_task import ViewTask

FATES = st.lists(st.sampled_from(["goes well", "is lost", "crashes after"]), min_size=1, max_size=8)
"""Of a commit unit: it is committed; the process dies before or after that."""

INSPECTOR = Inspector(stream="stream", sequence="sequence", kind="kind")


def board(event: Event, state: dict[str, Any]) -> Any:
    """A row per stream whose columns depend on the order in which events were handled."""
    state["count"] = state.get("count", 0) + 1
    state["trail"] = (state.get("trail", 7) * 31 + event.sequence) % 1_000_003
    yield Upsert("board", key={"id": event.stream}, values={"last": event.sequence, **state})
    yield Emit("log", event.stream, {"sequence": event.sequence})


def shop(
    *,
    start: int = 1,
    step: int = 1,
    jump: int | None = None,
    handler: Any = board,
    keyed: bool = True,
    **policies: Any,
) -> Topology:
    """Topology `shop`: source `orders`, view `board`, which spills unless told otherwise."""
    policies = {"full": spill(), **policies}
    topology = Topology("shop")
    orders = topology.source(
        "orders", inspector=INSPECTOR, sequence=contiguous(start, step, jump), keyed=keyed
    )
    topology.view("board", of=orders, handler=handler, **policies)
    return topology


class Written(NamedTuple):
    """A record as a commit unit has it."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes]]


class Partition:
    """Partition 0 of a topology's only source: its task, and what commits made durable.

    drain: the most events that a step releases from buffers, where it is not the default. now: the
    wall clock (ms).
    """

    def __init__(self, topology: Topology, *, drain: int | None = None) -> None:
        self.topology = topology
        self.drain = drain
        self.now = 0
        self.tables = {name: MemoryTable() for name in topology.views}
        self.written: dict[str, list[Written]] = defaultdict(list)
        self.reports: list[str] = []
        self.malformed = self.unknown = self.position = 0
        self.crash()

    def crash(self) -> None:
        """Lose what is not durable, and start anew from the rows."""
        (source,) = self.topology.sources.values()
        self.task = StreamTask(self.topology, source, 0, self.tables, position=self.position)
        if self.drain is not None:
            for view in self.task.views.values():
                view.state.ordering = replace(view.state.ordering, drain=self.drain)

    def process(self, batch: Sequence[Record], horizon: int | None = None) -> CommitUnit:
        """One step, of which nothing is durable yet; what is to come again by now does."""
        unit, events = self.task.begin(batch, self.now)
        for view in self.task.views.values():
            back = view.take_redeliveries(self.coming(view).take(self.now), self.now)
            view.run(events, unit, horizon, back)
        self.task.finish(unit)
        return unit

    def away(self, view: ViewTask) -> list[Record]:
        """The records of the view's redelivery topic that did not come again yet."""
        written = self.written[view.view.redeliver_topic]
        return [
            Record(view.view.redeliver_topic, 0, at, out.key, out.value, out.headers, out.timestamp)
            for at, out in enumerate(written)
        ][view.state.positions.redelivered :]

    def coming(self, view: ViewTask) -> RedeliveryQueue:
        """The same, and when they do."""
        found = RedeliveryQueue(view)
        for record in self.away(view):
            if not found.room:
                break
            found.read([record], self.now)
        return found

    @property
    def due(self) -> float:
        """When there is something to do without any input (ms)."""
        views = [view for view in self.task.views.values() if not view.halted]
        again = [self.coming(view).next(self.now) for view in views]
        return min([*(view.due for view in views), *again], default=float("inf"))

    def feed(self, batch: Sequence[Record], horizon: int | None = None) -> None:
        """A step that is committed, and those that finish its drain."""
        self.commit(self.process(batch, horizon))
        while self.task.unfinished:
            self.commit(self.process([], horizon))

    def feed_fated(self, batch: Sequence[Record], horizon: int | None, fate: Iterator[str]) -> None:
        """The same, while the process dies as `fate` says, before or after commits; see `FATES`."""
        coming = next(fate)
        if coming == "is lost":
            self.process(batch, horizon)
            self.crash()
        self.commit(self.process(batch, horizon))
        if coming == "crashes after":
            self.crash()
        if self.task.unfinished:
            self.feed_fated([], horizon, fate)

    def advance(self, now: int) -> None:
        """All that arrived by `now` was fed: do what is due by then, when it is due."""
        while (next_due := self.due) <= now:
            self.now = max(self.now, int(next_due))
            self.feed([], self.now)
        self.now = now

    def live(self, moments: Iterable[tuple[int, Sequence[Sequence[Record]]]]) -> "Partition":
        """Feed each moment's batches at its time, and let the clock act after it."""
        for at, batches in moments:
            self.now = at
            for batch in batches:
                self.feed(batch)
            self.advance(at)
        return self

    def commit(self, unit: CommitUnit) -> None:
        for view, rows in unit.rows.items():
            self.tables[view].write(rows)
        for outputs in (unit.colocated, unit.keyed):
            for topic, written in outputs.items():
                self.written[topic] += [Written(*out) for out in written]
        self.position = self.position if unit.next_offset is None else unit.next_offset
        self.reports += unit.reports
        self.malformed += unit.malformed
        self.unknown += unit.unknown

    def view(self, name: str = "board") -> ViewTask:
        return self.task.views[name]

    def values(self, topic: str) -> list[Any]:
        """The JSON values written to a topic."""
        return [orjson.loads(out.value or b"null") for out in self.written[topic]]

    def by_key(self, topic: str) -> dict[bytes | None, list[Written]]:
        """The records written to a topic, per key as they stand there."""
        found: dict[bytes | None, list[Written]] = defaultdict(list)
        for out in self.written[topic]:
            found[out.key].append(out)
        return dict(found)

    def handled(self, name: str = "board") -> dict[str, list[int]]:
        """Stream → the sequences in the view's output topic, as they stand there."""
        found: dict[str, list[int]] = defaultdict(list)
        for value in self.values(f"{self.topology.name}.{name}"):
            found[value["stream"]].append(value["sequence"])
        return dict(found)

    def waiting(self, stream: str, name: str = "board") -> list[int]:
        """The sequences of a stream that wait, as their rows have them."""
        events = self.view(name).state.spilled(stream, -(2**63), 2**63 - 1)
        return [event.sequence for event in events]

    def durable(self) -> dict[str, dict[bytes, bytes]]:
        """View → all rows of its table."""
        return {name: dict(table.rows) for name, table in self.tables.items()}
