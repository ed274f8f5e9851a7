"""Order: a handler sees a stream's events in sequence, in each view, however they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, batches, cuts, deliveries, fed, records
from tests.topology.partition import Partition, shop
from tests.topology.plain_model import models
from topology import TopologyTestDriver, skip
from topology.sequencer.progress import last_of

AFTER = 4


def run(
    partition: Partition, arrivals: list[Arrival], sizes: list[int], start: int = 1, step: int = 1
) -> Partition:
    for batch in batches(records(arrivals, start, step), sizes):
        partition.feed(batch)
    return partition


@pytest.mark.parametrize(
    ("size", "start", "step"), [(1, 1, 1), (2, 0, 1), (16, 1, 1), (1, -5, 3), (2, 100, 10)]
)
@given(arrivals=deliveries(), sizes=cuts())
def test_what_arrived_is_handled_in_sequence_up_to_the_first_gap(
    size: int, start: int, step: int, arrivals: list[Arrival], sizes: list[int]
) -> None:
    partition = Partition(shop(start=start, step=step, buffer=size))
    run(partition, arrivals, sizes, start, step)

    for stream, model in models(arrivals, start, step).items():
        assert partition.handled().get(stream, []) == model.handled
        assert partition.waiting(stream) == sorted(model.waiting)


@given(arrivals=deliveries(), sizes=cuts(), step=st.sampled_from([1, 3]))
def test_with_gaps_given_up_the_run_is_in_sequence_and_its_gaps_are_accounted_for(
    arrivals: list[Arrival], sizes: list[int], step: int
) -> None:
    topology = shop(gap=skip(after=AFTER), step=step)
    partition = Partition(topology).live(fed(arrivals, sizes, step=step))

    expected = models(arrivals, step=step, after=AFTER * 1000)
    for stream, model in expected.items():
        assert partition.handled().get(stream, []) == model.handled
        assert model.handled == sorted(set(model.handled))
    counts = partition.view().state.counts
    assert counts.skipped == sum(model.skipped for model in expected.values())
    assert counts.late == sum(model.late for model in expected.values())


@given(arrivals=deliveries(), sizes=cuts(), size=st.sampled_from([1, 2, 16]))
def test_the_cut_into_batches_changes_neither_outputs_nor_rows(
    arrivals: list[Arrival], sizes: list[int], size: int
) -> None:
    topology = shop(buffer=size, gap=skip(after=AFTER))
    one_by_one = Partition(topology).live(fed(arrivals, [1]))
    cut = Partition(topology).live(fed(arrivals, sizes))

    assert cut.durable() == one_by_one.durable()
    assert cut.view().state.counts == one_by_one.view().state.counts
    for stream in "abc":
        assert cut.handled().get(stream) == one_by_one.handled().get(stream)


@given(arrivals=deliveries(), sizes=cuts())
def test_a_table_ends_as_if_the_events_had_come_in_order(
    arrivals: list[Arrival], sizes: list[int]
) -> None:
    """The rows' `trail` differs as soon as two events change places."""
    first_copies = dict.fromkeys((arrival.stream, arrival.nth) for arrival in arrivals)
    in_order = [Arrival(stream, index, 0) for stream, index in sorted(first_copies)]

    one = run(Partition(shop()), arrivals, sizes)
    other = run(Partition(shop()), in_order, [1])

    for stream in "abc":
        assert one.view().state.stream_state(stream) == other.view().state.stream_state(stream)
        assert last_of(one.view().state.progress(stream)) == last_of(
            other.view().state.progress(stream)
        )


def test_size_16_after_42_expects_slot_11_and_45_goes_to_13() -> None:
    driver = TopologyTestDriver(shop(buffer=16, keyed=False))
    for sequence in range(1, 43):
        driver.pipe("orders", {"stream": "a", "sequence": sequence, "kind": "Placed"})
    assert driver.last("board", "a") == 42
    assert driver.buffer("board", "a") == {}

    driver.pipe("orders", {"stream": "a", "sequence": 45, "kind": "Placed"})
    assert driver.buffer("board", "a") == {13: 45}
    driver.pipe("orders", {"stream": "a", "sequence": 44, "kind": "Placed"})
    assert driver.buffer("board", "a") == {12: 44, 13: 45}

    driver.pipe("orders", {"stream": "a", "sequence": 43, "kind": "Placed"})
    assert driver.last("board", "a") == 45
    assert driver.buffer("board", "a") == {}


def test_an_event_of_a_kind_that_is_not_accepted_still_takes_its_place_in_the_sequence() -> None:
    driver = TopologyTestDriver(shop(accepts={"Paid"}))
    for sequence, kind in ((3, "Paid"), (1, "Placed"), (2, "Paid")):
        driver.pipe("orders", {"stream": "a", "sequence": sequence, "kind": kind}, key="a")

    handled = [value["sequence"] for value in driver.read_json("shop.board")]
    assert handled == [2, 3]
    assert driver.counts("board").passed == 1
    assert driver.last("board", "a") == 3
