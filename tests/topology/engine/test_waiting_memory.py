"""The memory of what waits is bounded over all streams and views together, not only for each."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from tests.topology.deliveries import Arrival, cuts, deliveries, fed, records
from tests.topology.partition import INSPECTOR, Partition, board, shop
from tests.topology.testing.simulation.simulated import (
    odd_messages,
    ordered_by,
    sometimes,
    steps_of_three,
    three_views,
)
from topology import (
    Record,
    Topology,
    earliest_seen,
    linked,
    monotonic,
    opened_by,
    park,
    redeliver,
    skip,
    spill,
)
from topology.engine.state.short_waits import WaitLimits
from topology.engine.state.view_state import ViewState
from topology.engine.stream_task import StreamTask
from topology.model.event import Event
from topology.sequencer.memory_budget import EVENT, Budget, size_of
from topology.sequencer.progress import Progress
from topology.testing import Delivery, Simulator, numbered
from topology.testing.simulation.world import Guarantee


class Small(Partition):
    """A partition with a budget, which is 0 unless told otherwise."""

    limit = 0

    def crash(self) -> None:
        super().crash()
        self.budget = Budget(self.limit)
        (source,) = self.topology.sources.values()
        self.task = StreamTask(
            self.topology, source, 0, self.tables, position=self.position, budget=self.budget
        )


def held(state: ViewState) -> int:
    """The bytes of the events that a view's state has in memory."""
    rings = [progress.ring for progress in state.waiting.values()]
    return sum(size_of(event) for ring in rings if ring for event in ring)


def body(stream: str, sequence: int, size: int) -> Record:
    value = b'{"stream":"%s","sequence":%d,"kind":"%s"}' % (
        stream.encode(),
        sequence,
        b"x" * size,
    )
    return Record("orders", 0, 0, stream.encode(), value)


@pytest.mark.parametrize("crash", [False, True])
def test_many_stuck_streams_stay_within_the_budget(crash: bool) -> None:
    class Medium(Small):
        limit = 1 << 20

    partition = Medium(shop(handler=lambda event: None))
    for first in range(0, 300, 50):
        partition.feed([body(f"s{n}", 2, 20_000) for n in range(first, first + 50)])
        assert held(partition.view().state) == partition.budget.used <= 1 << 20
    if crash:
        partition.crash()
        # The last one that fits may go a little beyond it.
        assert held(partition.view().state) == partition.budget.used <= (1 << 20) + 50_000
    assert partition.budget.used > (1 << 20) - 50_000
    assert partition.view().state.counts.waiting == 300
    partition.feed([body(f"s{n}", 1, 10) for n in range(300)])
    assert partition.view().state.counts.processed == 600
    assert (partition.budget.used, held(partition.view().state)) == (0, 0)


def test_a_worker_that_starts_reads_back_no_more_than_fits_of_dense_bodies() -> None:
    class Medium(Small):
        limit = 1 << 20

    partition = Medium(shop(handler=lambda event: None))
    numbers = b",".join(b"%d" % number for number in range(100_000, 100_300))
    for n in range(400):
        value = b'{"stream":"s%d","sequence":2,"kind":"x","n":[%s]}' % (n, numbers)
        partition.feed([Record("orders", 0, 0, b"s%d" % n, value)])
    partition.crash()
    assert 0.9 * partition.budget.limit < partition.budget.memory <= 1.1 * partition.budget.limit
    assert partition.budget.scale > 1.5


def test_a_view_whose_handler_is_awaited_makes_others_keep_to_the_limit() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    for name in ("one", "two", "three"):
        topology.view(name, of=orders, handler=board)
    budget = Budget(1 << 18)
    tasks = []
    for name in topology.views:
        # Each reads apart, and closes no more units when it is full.
        table = MemoryTable()
        task = StreamTask(
            topology, orders, 0, {name: table}, budget=budget, limits=WaitLimits(), atomic=True,
            apart=True,
        )  # fmt: skip
        tasks.append(task)
        for at in range(0, 400, 20):
            unit = task.process(
                [replace(body(f"s{n}", 2, 2000), offset=n) for n in range(at, at + 20)], 1
            )
            table.write(unit.rows[name])
            found = sum(held(task.views[each].state) for task in tasks for each in task.views)
            assert found == budget.used
            assert budget.memory <= 1.5 * budget.limit


def test_a_step_brings_in_no_more_than_a_portion() -> None:
    """However many streams go on with it, and however large their events are."""
    partition = Small(shop(handler=lambda event: None))
    for n in range(40):
        partition.feed([body(f"s{n}", at, 1_000_000) for at in (2, 3)])
    partition.commit(partition.process([body(f"s{n}", 1, 10) for n in range(40)]))
    steps = [partition.view().state.counts.processed]
    while partition.task.unfinished:
        partition.commit(partition.process([]))
        steps.append(partition.view().state.counts.processed)
    assert steps[-1] == 120
    assert max(after - before for before, after in pairwise(steps)) <= 10
    assert steps[0] <= 40 + 10


def test_a_backlog_of_gaps_that_are_due_is_given_up_in_portions() -> None:
    partition = Small(shop(handler=lambda event: None, gap=skip(after=1)))
    for n in range(40):
        partition.feed([body(f"s{n}", 2, 1_000_000)])
    partition.now = 5000
    partition.commit(partition.process([], horizon=5000))
    assert partition.view().state.counts.processed <= 10
    partition.advance(5000)
    assert partition.view().state.counts.processed == 40


def test_all_views_share_it() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    for name in ("one", "two", "three"):
        topology.view(name, of=orders, handler=board)

    class Medium(Small):
        limit = 10 * EVENT

    partition = Medium(topology)
    partition.feed(records(Arrival(f"s{n}", 1, 0) for n in range(30)))
    views = partition.task.views.values()
    assert sum(held(view.state) for view in views) == partition.budget.used
    assert partition.budget.memory <= partition.budget.limit
    partition.feed(records(Arrival(f"s{n}", 0, 0) for n in range(30)))
    assert all(partition.handled(n)[f"s{29}"] == [1, 2] for n in ("one", "two", "three"))


POLICIES: list[dict[str, Any]] = [
    {"buffer": 2},
    {"gap": skip(after=4)},
    {"buffer": 3, "gap": skip(after=4), "full": redeliver(delay=1)},
    {"buffer": 2, "full": redeliver(delay=1)},
    {"start": earliest_seen(after=3)},
    {"start": opened_by("Placed", "Paid"), "gap": skip(after=5)},
]


def declared(policies: dict[str, Any]) -> Topology:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    topology.view("board", of=orders, handler=board, **policies)
    return topology


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@given(arrivals=deliveries(), sizes=cuts(), crash=st.booleans())
def test_rows_only_come_to_what_memory_comes_to(
    policies: dict[str, Any], arrivals: list[Arrival], sizes: list[int], crash: bool
) -> None:
    wanted = Partition(declared(policies)).live(fed(arrivals, sizes))
    found = Small(declared(policies)).live(fed(arrivals, sizes))
    for partition in (wanted, found):
        if crash:
            partition.crash()
        partition.advance(500_000)
    assert found.handled() == wanted.handled()
    assert found.view().state.counts == wanted.view().state.counts
    assert found.durable() == wanted.durable()
    assert held(found.view().state) == 0


SIMULATED: dict[str, tuple[Topology, dict[str, Any]]] = {
    "keyed": (shop(), {}),
    "a ring of two": (shop(buffer=2), {}),
    "gaps given up": (shop(gap=skip(after=3), buffer=2), {"delivery": Delivery(never=0.1)}),
    "failing handler": (shop(handler=sometimes, buffer=2), {"workers": 3}),
    "parked": (shop(handler=sometimes, buffer=2, error=park()), {}),
    "redelivered": (shop(buffer=2, full=redeliver(delay=1, limit=9)), {}),
    "three views": (three_views(), {"partitions": 1}),
    "links": (ordered_by(linked("before")), {}),
    "links given up": (ordered_by(linked("before"), gap=skip(after=2)), {}),
    "times": (ordered_by(monotonic(settle=2)), {"delivery": Delivery(late=0.5, reach=20)}),
}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("memory", [0, 2 * EVENT])
@pytest.mark.parametrize("case", SIMULATED)
def test_no_schedule_breaks_a_promise(case: str, memory: int, guarantee: Guarantee) -> None:
    topology, options = SIMULATED[case]
    sent = numbered(topology, 20, 3)(7)
    simulator = Simulator(topology, sent, guarantee=guarantee, memory=memory, **options)
    assert simulator.run(range(15)).seeds == 15


def test_nor_with_conflicts_and_with_what_is_no_event() -> None:
    Simulator(steps_of_three(), odd_messages, partitions=1, memory=0).run(range(30))


def test_a_halted_view_does_not_halt_for_want_of_memory() -> None:
    """Its buffer has room, though nothing of it is in memory."""
    from topology import halt

    partition = Small(ordered_by_links(halt()))
    for sequence in (5, 7, 6):
        partition.feed([link(sequence)])
    assert partition.view().halted is None
    partition.feed([link(4)])
    assert partition.handled() == {"a": [4, 5, 6, 7]}


def ordered_by_links(full: Any) -> Topology:
    topology = Topology("shop")
    orders = topology.source(
        "orders", inspector=INSPECTOR, sequence=linked(previous="before"), keyed=True
    )
    topology.view("board", of=orders, handler=board, buffer=8, full=full)
    return topology


def link(sequence: int) -> Record:
    before = b"null" if sequence == 4 else b"%d" % (sequence - 1)
    value = b'{"stream":"a","sequence":%d,"before":%s,"kind":"k"}' % (sequence, before)
    return Record("orders", 0, 0, b"a", value)


def test_what_a_stream_holds_is_counted_as_it_comes_and_goes() -> None:
    ring = Partition(shop()).view().state.ordering
    progress = Progress(0)

    progress.ring = ring.ring()
    event = Event("a", 2, None, None, body("a", 2, 100))
    progress.ring.put(event)
    assert progress.ring.bytes == progress.ring.copy().bytes == size_of(event)
    progress.ring.pop(2)
    progress.ring.pop(2)
    assert progress.ring.bytes == 0


def test_the_default_spills() -> None:
    assert shop().views["board"].full == spill()
