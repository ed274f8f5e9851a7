"""Nothing vanishes: every message ends in exactly one counted place, and the counts add up."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, batches, body, cuts, deliveries, fed, records
from tests.topology.partition import INSPECTOR, Partition, board, shop
from tests.topology.plain_model import models
from topology import Counts, Event, Record, Topology, skip


def sometimes(event: Event, state: dict[str, Any]) -> Any:
    if event.sequence % 4 == 0:
        raise ValueError("a multiple of four")
    return board(event, state)


@given(arrivals=deliveries(), sizes=cuts(), size=st.sampled_from([1, 2, 16]))
def test_the_places_of_a_view_add_up_to_what_it_received(
    arrivals: list[Arrival], sizes: list[int], size: int
) -> None:
    partition = Partition(shop(buffer=size, handler=sometimes))
    for batch in batches(records(arrivals), sizes):
        partition.feed(batch)
        assert partition.view().state.counts.accounted == partition.view().state.counts.received

    expected = models(arrivals).values()
    handled = [sequence for model in expected for sequence in model.handled]
    failed = sum(sequence % 4 == 0 for sequence in handled)
    assert partition.view().state.counts == Counts(
        received=len(arrivals),
        processed=len(handled) - failed,
        failed=failed,
        duplicate=sum(model.duplicates for model in expected),
        waiting=sum(len(model.waiting) for model in expected),
        written=len(handled) - failed,
    )
    assert len(partition.written["shop.errors"]) == failed


@given(arrivals=deliveries(), sizes=cuts())
def test_late_events_are_in_the_late_topic_and_skipped_ones_in_the_reports(
    arrivals: list[Arrival], sizes: list[int]
) -> None:
    partition = Partition(shop(gap=skip(after=2))).live(fed(arrivals, sizes))

    expected = models(arrivals, after=2000)
    counts = partition.view().state.counts
    assert counts.accounted == counts.received == len(arrivals)
    assert counts.duplicate == sum(model.duplicates for model in expected.values())
    late = [out.key for out in partition.written["shop.late"]]
    assert len(late) == counts.late
    for stream, model in expected.items():
        assert late.count(stream.encode()) == model.late
    assert counts.waiting == sum(len(model.waiting) for model in expected.values())


_VALUES = st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.builds(
        body,
        st.sampled_from(["a", "b", ""]),
        st.one_of(st.integers(-2, 6), st.sampled_from([None, "3", "x", 2.5, 2**63, True])),
    ),
    st.just(b'{"other": 1}'),
)


@given(values=st.lists(_VALUES, max_size=30), sizes=cuts(), size=st.sampled_from([1, 16]))
def test_every_message_of_whatever_form_is_in_one_place(
    values: list[bytes | None], sizes: list[int], size: int
) -> None:
    def inspect(message: Any) -> Any:
        return None if message.value == b'{"other": 1}' else compiled(message)

    compiled = INSPECTOR.compile()
    topology = Topology("shop")
    orders = topology.source("orders", inspector=inspect, keyed=True, unknown="topic")
    topology.view("board", of=orders, handler=board, buffer=size)
    partition = Partition(topology)
    messages = [Record("orders", 0, at, b"k", value) for at, value in enumerate(values)]
    for batch in batches(messages, sizes):
        partition.feed(batch)

    counts = partition.view().state.counts
    assert counts.accounted == counts.received
    assert counts.received + partition.malformed + partition.unknown == len(values)
    assert len(partition.written["shop.malformed"]) == partition.malformed
    assert len(partition.written["shop.unknown"]) == partition.unknown
    assert partition.unknown == values.count(b'{"other": 1}')


def test_a_late_message_keeps_its_body_and_headers_and_says_whose_it_is() -> None:
    partition = Partition(shop(gap=skip(after=1)))
    partition.feed([Record("orders", 0, 0, b"a", body("a", 3))])
    partition.advance(1500)
    partition.feed([Record("orders", 0, 1, b"a", body("a", 2), (("trace", b"\xff"),))])

    (late,) = partition.written["shop.late"]
    assert (late.key, late.value) == (b"a", body("a", 2))
    assert list(late.headers) == [
        ("trace", b"\xff"),
        ("view", b"board"),
        ("sequence", b"2"),
        ("sequitur-origin", b"orders/0/1/0"),
        ("sequitur-key", b"a"),
    ]
    (report,) = partition.reports
    assert "stream a skipped 2 missing (1 to 2)" in report


def test_counts_are_added_place_by_place() -> None:
    one, other = Counts(1, 2, 3, 4, 5, 6, 7, 8, 9), Counts(10, 20, 30, 40, 50, 60, 70, 80, 90)
    assert one + other == Counts(11, 22, 33, 44, 55, 66, 77, 88, 99)
