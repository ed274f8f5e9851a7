"""The memory of waiting events: what is guessed of most is held against what some take."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any
from uuid import UUID

import orjson
import pytest

from topology import Record
from topology.model.event import Event
from topology.sequencer.memory_budget import EVENT, MOST, Budget, Unloads, measured, size_of
from topology.sequencer.ring import RingBuffer

BODIES: dict[str, Callable[[int], Any]] = {
    "small": lambda n: {"seq": n, "amount": n / 4, "type": f"Order{n}"},
    "one long text": lambda n: {"seq": n, "text": f"{n}" * 300},
    "many numbers": lambda n: {"seq": n, **{f"f{at}": n * 1000 + at for at in range(100)}},
    "rows": lambda n: {"rows": [{"id": n + at, "p": at / 3 + n, "n": f"{n}"} for at in range(10)]},
    "a list": lambda n: [n * 1000 + at for at in range(50)],
    "a map by keys of its own": lambda n: {str(UUID(int=n * 1000 + at)): 1 for at in range(100)},
}
HEADERS: dict[str, Callable[[int], Any]] = {
    "a tuple": lambda n: tuple((f"h{at}", b"%d" % n * 20) for at in range(10)),
    "a list": lambda n: [(f"h{at}", b"%d" % n + bytes(5000)) for at in range(2)],
}


def received(raw: bytes, at: int = 1) -> Event:
    value = bytes(bytearray(raw))
    record = Record("orders", 0, at, b"%d" % at, value, [], at)
    return Event("a", at, None, orjson.loads(value), record)


def event(body: Any, at: int = 1) -> Event:
    return received(orjson.dumps(body), at)


@pytest.mark.parametrize("name", BODIES)
def test_what_is_measured_is_what_events_take(name: str) -> None:
    bodies = [orjson.dumps(BODIES[name](1_000_000 + at)) for at in range(500)]
    gc.collect()
    tracemalloc.start()
    try:
        events = dict.fromkeys(map(received, bodies, range(1000, 1500)), True)
        taken = tracemalloc.get_traced_memory()[0] / len(events)
    finally:
        tracemalloc.stop()
    found = measured(next(iter(events)))
    # Its places in a ring, and the ring, are beside what is traced here.
    assert 0.75 * taken < found < 1.1 * taken + 400


def kept(budget: Budget) -> None:
    """What ends a step."""
    budget.look()
    budget.keep()


class Holder(Unloads):
    """What waits; `awaited` while it closes no unit."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.awaited = False
        self.held: dict[str, RingBuffer] = {}
        self.unloaded = 0

    def unload(self, stream: str) -> bool:
        if not self.awaited:
            del self.held[stream]
            self.unloaded += 1
        return not self.awaited

    def ring(self, stream: str) -> RingBuffer | None:
        return self.held.get(stream)

    def take(self, stream: str, event: Event) -> None:
        ring = self.held.setdefault(stream, RingBuffer(1 << 30))
        ring.put(event)
        self.budget.note(self, {stream: ring.bytes})

    def release(self, stream: str, sequence: int | None = None) -> None:
        ring = self.held[stream]
        if sequence is not None:
            ring.pop(sequence)
        if sequence is None or not ring:
            del self.held[stream]
        self.budget.note(self, {stream: ring.bytes if stream in self.held else 0})

    @property
    def taken(self) -> int:
        return sum(measured(each) for ring in self.held.values() for each in ring)

    @property
    def guessed(self) -> int:
        return sum(ring.bytes for ring in self.held.values())


@pytest.mark.parametrize("name", HEADERS)
def test_headers_count_as_well(name: str) -> None:
    """Python's collector forgets tuples that refer to nothing with references of its own."""
    gc.collect()
    tracemalloc.start()
    try:
        events = [
            Event("a", n, None, None, Record("orders", 0, n, None, b"{}", HEADERS[name](n)))
            for n in range(500)
        ]
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] / len(events)
    finally:
        tracemalloc.stop()
    assert 0.75 * taken < measured(events[0]) < 1.1 * taken + 400


@pytest.mark.parametrize("limit", [0, 100_000])
def test_a_small_limit_does_not_have_each_event_looked_into(limit: int) -> None:
    holder = Holder(budget := Budget(limit))
    for number in range(1000):
        holder.take(str(number), event({}))
    assert len(budget._marked) < 100
    kept(budget)
    assert budget.memory <= limit


@pytest.mark.parametrize("name", BODIES)
def test_the_memory_of_bodies_that_are_not_as_guessed_is_kept_within_the_limit(name: str) -> None:
    holder = Holder(budget := Budget(1 << 20))
    for number in range(3000):
        holder.take(str(number), event(BODIES[name](1_000_000 + number)))
        kept(budget)
    assert 0.85 * budget.limit < holder.taken < 1.15 * budget.limit
    assert 0.95 * budget.limit < budget.memory <= budget.limit


@pytest.mark.parametrize("waiting", ["small", "many numbers"])
@pytest.mark.parametrize("passing", ["one long text", "a list"])
def test_what_does_not_wait_for_long_does_not_say_what_the_rest_takes(
    waiting: str, passing: str
) -> None:
    holder = Holder(budget := Budget(1 << 20))
    for number in range(6000):
        if number % 5:
            holder.take("p", event(BODIES[passing](number)))
            holder.release("p")
        else:
            holder.take(str(number), event(BODIES[waiting](number)))
        kept(budget)
    assert 0.8 * budget.limit < holder.taken < 1.15 * budget.limit


@pytest.mark.parametrize("streams", [1, 40, 3000])
def test_dense_bodies_among_others_count_by_their_bytes(streams: int) -> None:
    holder = Holder(budget := Budget(64 << 20))
    for number in range(3000):
        dense = number * 7919 % 20 == 3
        body = {"rows": [{"id": at, "n": at + 1000} for at in range(200 * dense)]}
        holder.take(str(number % streams), event(body, number))
        if number % 10 == 0:
            kept(budget)
    for _ in range(200):
        kept(budget)
    assert budget.memory == pytest.approx(holder.taken, rel=0.35)


def test_streams_in_which_something_small_comes_and_goes_do_not_stand_for_the_rest() -> None:
    holder = Holder(budget := Budget(1 << 20))
    small = event({"t": "x" * 100})
    for number in range(20_000):
        stream = str(number % 100)
        if number // 100 % 2:
            holder.take(stream, event({"t": "x" * 100}, 2))
        else:
            holder.take(stream, small)
            if number >= 100:
                holder.release(stream, 2)
        if number % 50 == 0:
            kept(budget)
    for number in range(800):
        holder.take(f"dense {number}", event({"rows": [[number + at] for at in range(300)]}))
        kept(budget)
        assert number % 200 or holder.taken < 1.25 * budget.limit


def test_what_is_marked_does_not_grow_with_what_comes_and_goes() -> None:
    holder = Holder(budget := Budget(1 << 20))
    for number in range(20_000):
        holder.take(str(number), event({}))
        if number >= 200:
            holder.release(str(number - 200))
        if number % 100 == 0:
            kept(budget)
    assert len(budget._marked) < 40


def test_what_is_decoded_while_it_waits_counts() -> None:
    holder = Holder(budget := Budget(8 << 20))

    class Lazy:
        value: Any = None

    for number in range(500):
        raw = orjson.dumps(BODIES["many numbers"](number))
        record = Record("orders", 0, number, b"", bytes(bytearray(raw)))
        holder.take(str(number), Event("a", 1, None, Lazy(), record))
    kept(budget)
    before = budget.memory
    for (each,) in holder.held.values():
        assert each.message.value is not None
        each.content.value = orjson.loads(each.message.value)
    for _ in range(100):
        kept(budget)
    assert budget.memory > 3 * before
    assert budget.memory == pytest.approx(holder.taken, rel=0.1)


def test_what_verbs_made_of_an_event_counts() -> None:
    made = event({"seq": 1})
    before = measured(made)
    object.__setattr__(made, "made", (None, None, "x" * 5000, 0))
    assert measured(made) > before + 5000


def test_views_whose_handlers_are_awaited_do_not_let_others_pass_the_limit() -> None:
    budget = Budget(1 << 20)
    awaited = [Holder(budget) for _ in range(3)]
    other = Holder(budget)
    for holder in [*awaited, other]:
        for number in range(2000):
            holder.take(str(number), event(BODIES["one long text"](number)))
            kept(budget)
        holder.awaited = True
        # Each was asked once, and may go on with one stream beyond it.
        assert budget.memory < 1.05 * budget.limit
    assert awaited[0].held
    for holder in awaited:
        holder.awaited = False
    other.take("more", event({}))
    kept(budget)
    assert budget.memory <= budget.limit
    assert sum(each.guessed for each in [*awaited, other]) == budget.used


def test_streams_that_move_while_their_view_is_asked_are_counted_once() -> None:
    holder = Holder(budget := Budget(10 * EVENT))
    holder.awaited = True
    for number in range(20):
        holder.take(str(number), event({}))
        kept(budget)
    for number in range(20):
        holder.take(str(number), event({}, 2))
        kept(budget)
    for number in range(10):
        holder.release(str(number))
    holder.awaited = False
    kept(budget)
    assert holder.guessed == budget.used
    assert budget.memory <= budget.limit


def test_what_a_view_that_is_gone_had_takes_no_memory() -> None:
    holder = Holder(budget := Budget(10 * EVENT))
    holder.awaited = True
    for number in range(20):
        holder.take(str(number), event({}))
    kept(budget)
    del holder
    gc.collect()
    kept(budget)
    assert budget.memory <= budget.limit
    Holder(budget).take("a", event({}))
    kept(budget)


def test_what_all_contents_refer_to_does_not_count_for_more_than_an_event_can_take() -> None:
    cache = {f"{n}": [n] * 100 for n in range(10_000)}

    class Body:
        def __init__(self) -> None:
            self.shared = cache

    made = Event("a", 1, None, Body(), Record("orders", 0, 1, None, None))
    assert measured(made) > 100 * size_of(made)
    holder = Holder(budget := Budget())
    holder.take("a", made)
    assert budget.scale == MOST


SHAPES: dict[str, Callable[[int], Any]] = {
    "numbers": lambda count: list(range(10**6, 10**6 + count)),
    "lists": lambda count: [[] for _ in range(count)],
    "rows": lambda count: [
        {f"f{n}": n + row + 0.5 for n in range(20)} for row in range(count // 20)
    ],
    "a table": lambda count: {
        str(n): [n + 1000 + at for at in range(500)] for n in range(count // 500)
    },
}


@pytest.mark.parametrize("count", [3_000, 90_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_some_parts_of_a_large_body_stand_for_the_others(shape: str, count: int) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        made = event(SHAPES[shape](count))
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.75 * taken < measured(made) < 1.25 * taken


def test_content_that_cannot_be_looked_into_ends_nobody() -> None:
    class Hostile:
        def __sizeof__(self) -> int:
            raise RuntimeError("no")

    holder = Holder(budget := Budget())
    holder.take("a", Event("a", 1, None, Hostile(), Record("orders", 0, 1, None, None)))
    kept(budget)
    assert budget.scale == 1.0


def test_what_refers_to_itself_or_to_code_is_measured_once() -> None:
    class Body:
        def __init__(self) -> None:
            self.me, self.kind, self.call = self, type(self), len

    made = Event("a", 1, None, Body(), Record("orders", 0, 1, None, None))
    assert 400 < measured(made) < 3000
