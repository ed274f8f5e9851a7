"""A rebuild and what the live view says from then on come to the live view's own tables."""

from collections import defaultdict
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, batches, body, cuts, deliveries, records
from tests.topology.partition import Partition, shop
from tests.topology.view_rebuild.rows import ReadStore, Tables, begun, rebuilt
from topology import (
    Delete,
    Event,
    Record,
    Topology,
    Upsert,
    earliest_seen,
    linked,
    monotonic,
    opened_by,
    redeliver,
    skip,
    spill,
    wait,
)
from topology.testing.simulation.fold import fold

SIZES = st.sampled_from([(1, 1), (3, 2), (50_000, 2_000)])
"""(messages after which a batch ends within a stream, and after which it ends with one)."""


def ledger(event: Event, state: dict[str, Any]) -> Iterator[Any]:
    """Rows that depend on the order, columns that only some events set, rows that go and return."""
    state["trail"] = (state.get("trail", 7) * 31 + event.sequence) % 1_000_003
    values = {"trail": state["trail"], f"c{event.sequence % 3}": event.sequence}
    yield Upsert("ledger", key={"id": event.stream}, values=values)
    if event.sequence % 4 == 3:
        yield Delete("ledger", key={"id": event.stream})
    for row in (event.sequence % 2, event.sequence % 5):
        yield Upsert("rows", key={"id": event.stream, "row": row}, values={"at": event.sequence})
    if event.sequence % 5 == 2:
        yield Delete("rows", key={"id": event.stream, "row": 0})


def counted(event: Event, state: dict[str, Any], cells: MutableMapping[str, Any]) -> Iterator[Any]:
    """The same, and rows that are made of cells, which come and go."""
    yield from ledger(event, state)
    key = str(event.sequence % 3)
    cells[key] = cells.get(key, 0) + event.sequence
    yield Upsert("cells", key={"id": event.stream, "cell": key}, values={"sum": cells[key]})
    if event.sequence % 7 == 6:
        gone = min(cells)
        del cells[gone]
        yield Delete("cells", key={"id": event.stream, "cell": gone})


class Live:
    """A live partition, of which a snapshot is taken on the way."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        (view,) = topology.views.values()
        self.output = view.output
        self.partition = Partition(topology)
        self.snapshot: dict[str, dict[bytes, bytes]] = {"board": {}}
        self.outputs = 0
        self.at = 0

    def run(self, messages: list[Record], sizes: list[int], cut: int) -> "Live":
        done = 0
        for batch in batches(messages, sizes):
            at = batch[-1].timestamp
            self.partition.now = max(self.partition.now, at)
            self.partition.feed(batch)
            self.partition.advance(self.partition.now)
            done += len(batch)
            if done <= cut:
                self.snap()
        return self

    def snap(self) -> None:
        # As it is done: the end of the outputs is noted first.
        self.outputs = len(self.partition.written[self.output])
        self.snapshot = self.partition.durable()
        self.at = self.partition.now

    @property
    def values(self) -> list[bytes | None]:
        return [out.value for out in self.partition.written[self.output]]

    @property
    def late(self) -> set[str]:
        """The streams of which an event came late, died, or was otherwise not handled in order."""
        return {
            (out.key or b"").decode()
            for topic in ("shop.late", "shop.dead")
            for out in self.partition.written[topic]
        }

    def tables(self) -> Any:
        return ReadStore().apply(self.values).plain()

    def rebuilt(self, messages: list[Record], size: tuple[int, int], **options: Any) -> Any:
        most, batch = size
        said, tally = rebuilt(
            self.topology, messages, self.snapshot, self.at, most=most, batch=batch, **options
        )
        store = ReadStore().apply([record.value for record in said])
        return store.apply(self.values[self.outputs :]).plain(), tally["board"]


POLICIES = [
    {"gap": wait(), "full": spill()},
    {"gap": wait(), "full": spill(), "buffer": 2},
    {"gap": wait(), "full": redeliver(delay=1, limit=1000), "buffer": 2},
    {"gap": skip(after=60), "full": spill()},
    {"gap": skip(after=2), "full": spill(), "buffer": 3},
]


@pytest.mark.parametrize("handler", [ledger, counted])
@pytest.mark.parametrize("policies", POLICIES, ids=lambda policies: str(list(policies.values())))
@given(delivery=deliveries(), sizes=cuts(), cut=st.integers(0, 30), size=SIZES)
def test_a_rebuild_and_the_outputs_since_are_the_live_tables(
    policies: dict[str, Any],
    handler: Any,
    delivery: list[Arrival],
    sizes: list[int],
    cut: int,
    size: tuple[int, int],
) -> None:
    topology = shop(handler=handler, **policies)
    messages = records(delivery)
    live = Live(topology).run(messages, sizes, cut)

    tables, tally = live.rebuilt(messages, size)
    wanted = live.tables()
    late = live.late
    assert _without(tables, late) == _without(wanted, late)
    assert tally.failed == 0
    if not late:
        assert not tally.incomplete


def _without(tables: Tables, streams: set[str]) -> Tables:
    """The tables without rows of some streams."""
    names = {b'"%s"' % stream.encode() for stream in streams}
    found = {
        table: {key: row for key, row in rows.items() if not any(n in key for n in names)}
        for table, rows in tables.items()
    }
    return {table: rows for table, rows in found.items() if rows}


@given(delivery=deliveries(), sizes=cuts(), size=SIZES)
def test_what_came_late_is_put_into_its_place(
    delivery: list[Arrival], sizes: list[int], size: tuple[int, int]
) -> None:
    topology = shop(handler=ledger, gap=skip(after=1))
    (view,) = topology.views.values()
    messages = records(delivery)
    live = Live(topology).run(messages, sizes, len(messages))
    live.partition.advance(10_000_000)
    live.snap()

    of: dict[str, dict[int, Record]] = defaultdict(dict)
    for message, arrival in zip(messages, delivery, strict=True):
        of[arrival.stream].setdefault(arrival.nth, message)
    wanted = ReadStore()
    for events in of.values():
        outputs = fold(view, [events[nth] for nth in sorted(events)]).outputs
        wanted.apply(value for _, value in outputs)
    tables, tally = live.rebuilt(messages, size)
    assert tables == wanted.plain()
    assert not tally.incomplete
    assert tally.processed == sum(map(len, of.values()))


@given(delivery=deliveries(), sizes=cuts(), cut=st.integers(0, 30), size=SIZES)
def test_links(delivery: list[Arrival], sizes: list[int], cut: int, size: tuple[int, int]) -> None:
    topology = shop(handler=ledger, gap=wait(), full=spill())
    (source,) = topology.sources.values()
    # The predecessor is two below, so that the sequences have holes.
    chained = Topology("shop")
    pages = chained.source(
        "orders",
        inspector=source.inspector,
        keyed=True,
        sequence=linked(lambda e: e.sequence - 2 if e.sequence > 2 else None),
    )
    chained.view("board", of=pages, handler=ledger, gap=wait(), full=spill())
    messages = records(delivery, start=2, step=2)
    live = Live(chained).run(messages, sizes, cut)
    tables, tally = live.rebuilt(messages, size)
    assert tables == live.tables()
    assert not tally.incomplete


@given(delivery=deliveries(), sizes=cuts(), cut=st.integers(0, 30), size=SIZES)
def test_sequences_that_merely_grow(
    delivery: list[Arrival], sizes: list[int], cut: int, size: tuple[int, int]
) -> None:
    topology = Topology("shop")
    (source,) = shop().sources.values()
    orders = topology.source(
        "orders", inspector=source.inspector, keyed=True, sequence=monotonic(settle=10)
    )
    topology.view("board", of=orders, handler=ledger)
    messages = records(delivery)
    live = Live(topology).run(messages, sizes, cut)
    live.partition.advance(10_000_000)
    tables, tally = live.rebuilt(messages, size)
    assert not live.late
    assert tables == live.tables()
    assert not tally.incomplete


@given(delivery=deliveries(), sizes=cuts(), cut=st.integers(0, 30), size=SIZES)
def test_lanes(delivery: list[Arrival], sizes: list[int], cut: int, size: tuple[int, int]) -> None:
    def by_lane(event: Event, state: dict[str, Any]) -> Iterator[Any]:
        state["trail"] = (state.get("trail", 7) * 31 + event.sequence) % 1_000_003
        key = {"id": event.stream, "lane": event.lane}
        yield Upsert("ledger", key=key, values=state)

    topology = shop(
        handler=by_lane, gap=skip(after=60), lane=lambda event: event.sequence % 2, step=1
    )
    messages = records(delivery)
    live = Live(topology).run(messages, sizes, cut)
    live.partition.advance(live.partition.now + 60_000)
    tables, _ = live.rebuilt(messages, size)
    if not live.late:
        assert tables == live.tables()


@given(delivery=deliveries(), sizes=cuts(), cut=st.integers(0, 30), size=SIZES)
def test_streams_that_begin_with_what_is_seen_first(
    delivery: list[Arrival], sizes: list[int], cut: int, size: tuple[int, int]
) -> None:
    topology = begun(ledger, earliest_seen(after=12), gap=skip(after=12))
    messages = records(delivery)
    live = Live(topology).run(messages, sizes, cut)
    live.partition.advance(10_000_000)
    tables, _ = live.rebuilt(messages, size)
    assert _without(tables, live.late) == _without(live.tables(), live.late)


@given(delivery=deliveries(), sizes=cuts(), cut=st.integers(0, 30), size=SIZES)
def test_streams_that_only_some_kinds_open(
    delivery: list[Arrival], sizes: list[int], cut: int, size: tuple[int, int]
) -> None:
    topology = begun(ledger, opened_by("Placed"), gap=wait())
    messages = records(delivery)
    live = Live(topology).run(messages, sizes, cut)
    tables, _ = live.rebuilt(messages, size)
    late = live.late
    assert _without(tables, late) == _without(live.tables(), late)


@pytest.mark.parametrize("handler", [ledger, counted])
@pytest.mark.parametrize("reopen", ["late", "start"])
@given(delivery=deliveries(), sizes=cuts(), cut=st.integers(0, 30), size=SIZES)
def test_streams_that_are_closed(
    reopen: Any,
    handler: Any,
    delivery: list[Arrival],
    sizes: list[int],
    cut: int,
    size: tuple[int, int],
) -> None:
    topology = shop(
        handler=handler,
        gap=wait(),
        full=spill(),
        closes="Closed",
        retention=1000,
        reopen=reopen,
    )
    messages = records(delivery)
    for message, arrival in zip(messages, delivery, strict=True):
        if arrival.nth == 5:
            message.value = body(arrival.stream, 6, kind="Closed")
    live = Live(topology).run(messages, sizes, cut)
    tables, _ = live.rebuilt(messages, size)
    if not live.late:
        assert tables == live.tables()


def test_a_long_stream_whose_gaps_close_far_apart_lacks_nothing() -> None:
    """What one step lets go of was taken for all that had come, and the rest was given up."""
    topology = shop(handler=ledger, gap=wait())
    late = {40, 900}
    numbers = [n for n in range(1, 1000) if n not in late]
    numbers[500:500] = [40]
    numbers.append(900)
    messages = [
        Record("orders", 0, at, b"a", body("a", n) + b" " * 20_000, timestamp=at)
        for at, n in enumerate(numbers)
    ]
    live = Live(topology).run(messages, [len(messages)], len(messages))
    live.snap()
    tables, tally = live.rebuilt(messages, (480, 480))
    assert (tally.missing, tally.processed) == (0, 999)
    assert tables == live.tables()
