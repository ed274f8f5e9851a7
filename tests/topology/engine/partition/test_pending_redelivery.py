"""What is away for redelivery comes again once, whatever the clock does meanwhile."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from topology import Event, Inspector, Record, Topology, contiguous, redeliver
from topology.engine.partition.pending_redelivery import RedeliveryQueue
from topology.engine.stream_task import StreamTask

EVENTS = [(stream, number) for stream in "abcdef" for number in range(1, 7)]


class Shop:
    """A view with a ring of two slots, and what it sends away."""

    def __init__(self) -> None:
        topology = Topology("shop")
        self.source = topology.source(
            "orders", inspector=Inspector("s", "n"), keyed=True, sequence=contiguous()
        )
        self.handled: list[tuple[str, int]] = []

        @topology.view("board", of=self.source, buffer=2, full=redeliver(delay=1.0))
        def board(event: Event) -> None:
            self.handled.append((event.stream, event.sequence))

        self.table = MemoryTable()
        self.task = StreamTask(topology, self.source, 0, {"board": self.table})
        self.view = self.task.views["board"]
        self.away = RedeliveryQueue(self.view)
        self.sent = self.written = 0

    def step(self, events: list[tuple[str, int]], now: int) -> None:
        """One step at a time (ms), with what comes again by then."""
        records = []
        for stream, number in events:
            body = b'{"s": "%s", "n": %d}' % (stream.encode(), number)
            records.append(Record("orders", 0, self.sent, b"k", body, (), 0))
            self.sent += 1
        unit, found = self.task.begin(records, now)
        back = self.view.take_redeliveries(self.away.take(now), now)
        self.view.run(found, unit, now, back)
        self.task.finish(unit)
        for rows in unit.rows.values():
            self.table.write(rows)
        again: list[Any] = unit.colocated.get(self.view.view.redeliver_topic, [])
        self.away.read(
            [
                Record("again", 0, self.written + at, key, value, headers, stamp)
                for at, (key, value, stamp, headers) in enumerate(again)
            ],
            now,
        )
        self.written += len(again)
        while self.view.unfinished:
            self.step([], now)


def ends(shop: Shop, events: list[tuple[str, int]]) -> None:
    expected = {stream: sorted(n for s, n in events if s == stream) for stream, _ in events}
    found = {s: [n for t, n in shop.handled if t == s] for s in expected}
    assert found == expected


@given(
    order=st.permutations(EVENTS),
    leaps=st.lists(
        st.sampled_from([0, 1, 900, 3_600_000, -900, -3_600_000]),
        min_size=len(EVENTS),
        max_size=len(EVENTS),
    ),
)
def test_a_clock_that_leaps_neither_stops_nor_loses_what_is_away(
    order: list[tuple[str, int]], leaps: list[int]
) -> None:
    shop, now = Shop(), 1_000_000_000
    for event, leap in zip(order, leaps, strict=True):
        now += leap
        shop.away.next(now)
        shop.step([event], now)
    for _ in range(200):
        if not len(shop.away):
            break
        now = int(max(now, shop.away.next(now)))
        shop.step([], now)
    ends(shop, order)
