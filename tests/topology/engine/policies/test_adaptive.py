"""skip(after=adaptive(…)): the time for gaps is learned from how late events come."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed
from tests.topology.engine.policies.failing import feed
from tests.topology.partition import Partition, shop
from topology import DeclarationError, adaptive, redeliver, skip
from topology.engine.state.lateness import decode_lateness
from topology.engine.state.rows import LATENESS

POLICY = adaptive(0.1, start=30, at_least=0.01, at_most=60)


def learned(late: int = 40, by: int = 200) -> Partition:
    """A partition in which `late` events came `by` ms late."""
    partition = Partition(shop(gap=skip(after=POLICY)))
    for number in range(late):
        feed(partition, 2, stream=f"s{number}")
    partition.advance(by)
    for number in range(late):
        feed(partition, 1, stream=f"s{number}")
    return partition


def held(partition: Partition) -> int | None:
    return partition.view().state.ordering.skip_after


def test_gaps_are_held_for_the_start_at_first() -> None:
    partition = Partition(shop(gap=skip(after=POLICY)))
    feed(partition, 2)
    assert partition.due == 30_000


def test_and_then_for_as_long_as_events_come_late() -> None:
    partition = learned()
    assert 200 < (held(partition) or 0) <= 211
    feed(partition, 2, stream="z")
    partition.advance(200 + 211)
    assert partition.handled()["z"] == [2]


def test_what_was_learned_outlives_a_restart() -> None:
    partition = learned()
    before = held(partition)
    partition.crash()
    assert held(partition) == before
    assert decode_lateness(partition.tables["board"].rows[LATENESS]).weight == 40


def test_a_gap_that_is_open_already_gets_the_new_time() -> None:
    partition = Partition(shop(gap=skip(after=POLICY)))
    feed(partition, 2, stream="z")
    assert partition.due == 30_000
    for number in range(40):
        feed(partition, 2, 1, stream=f"s{number}")
    assert partition.due == 10
    calm = partition.due
    partition.crash()
    assert partition.due == calm


def test_what_comes_after_its_gap_was_given_up_makes_the_time_longer() -> None:
    partition = learned(by=200)
    before = held(partition)
    for number in range(20):
        feed(partition, 2, stream=f"late{number}")
    partition.advance(10_000)
    partition.crash()
    for number in range(20):
        feed(partition, 1, stream=f"late{number}")
    assert partition.view().state.counts.late == 20
    assert (held(partition) or 0) > 9000 > (before or 0)


def test_what_was_away_for_redelivery_says_nothing_about_lateness() -> None:
    gap = skip(after=adaptive(0.1, at_least=4, at_most=60))
    partition = Partition(shop(gap=gap, buffer=3, full=redeliver(delay=1, limit=200)))
    feed(partition, 2, 3, 4)
    feed(partition, 1)
    feed(partition, 5)
    partition.advance(1000)
    assert partition.handled() == {"a": [1, 2, 3, 4, 5]}
    assert decode_lateness(partition.tables["board"].rows[LATENESS]).weight == 1


def test_a_view_that_does_not_learn_keeps_no_sketch() -> None:
    partition = Partition(shop(gap=skip(after=3)))
    feed(partition, 2, 1)
    assert LATENESS not in partition.tables["board"].rows


@given(arrivals=deliveries(streams="abcd", events=12), sizes=cuts())
def test_streams_are_in_sequence_whatever_it_learns(
    arrivals: list[Arrival], sizes: list[int]
) -> None:
    policy = adaptive(0.5, start=5, at_least=0.5, at_most=20)
    partition = Partition(shop(gap=skip(after=policy), buffer=4)).live(fed(arrivals, sizes))
    partition.advance(1_000_000)
    counts = partition.view().state.counts
    assert counts.accounted == counts.received == len(arrivals)
    assert counts.waiting == 0
    for sequences in partition.handled().values():
        assert sequences == sorted(set(sequences))


@pytest.mark.parametrize("share", [0, 1, -0.1, "0.1", None, True])
def test_a_share_that_is_none(share: Any) -> None:
    with pytest.raises(DeclarationError, match="wrong_skip must be a share"):
        adaptive(share)


@pytest.mark.parametrize(
    "bounds",
    [
        {"start": 0},
        {"at_least": None},
        {"at_most": "5"},
        {"start": 5, "at_least": 6},
        {"start": 601},
    ],
)
def test_bounds_that_are_none(bounds: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match="adaptive"):
        adaptive(**bounds)


@given(share=st.floats(1e-6, 0.5))
def test_it_is_a_value(share: float) -> None:
    assert skip(adaptive(share)) == skip(after=adaptive(wrong_skip=share))
