from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from sequitur.flights.network import Delivery, Network

MovesOf = Callable[[int], pd.DataFrame]
NETWORK = Network(seed=7, lost=0.002)


@pytest.fixture(scope="module")
def moves(moves_of: MovesOf) -> pd.DataFrame:
    return moves_of(20_000)


@pytest.fixture(scope="module")
def delivery(flights: pd.DataFrame, moves: pd.DataFrame) -> Delivery:
    return NETWORK.deliver(flights, moves)


def test_a_seed_gives_one_delivery(
    flights: pd.DataFrame, moves: pd.DataFrame, delivery: Delivery
) -> None:
    again = NETWORK.deliver(flights, moves)
    pd.testing.assert_frame_equal(again.arrivals, delivery.arrivals)
    assert (again.lost == delivery.lost).all()
    other = replace(NETWORK, seed=8).deliver(flights, moves)
    assert not other.arrivals.equals(delivery.arrivals)
    assert (other.lost != delivery.lost).any()


def test_lost_messages_never_arrive_and_all_others_do(
    moves: pd.DataFrame, delivery: Delivery
) -> None:
    lost = set(moves.index[delivery.lost])
    assert 20 < len(lost) < 80
    assert set(delivery.arrivals["index"]) == set(moves.index) - lost


def test_a_few_per_cent_arrive_twice_at_two_stations_of_one_airport(delivery: Delivery) -> None:
    arrivals = delivery.arrivals
    times = arrivals.groupby("index").size()
    assert times.max() == 2
    assert delivery.copies == (times == 2).sum() == arrivals["copy"].sum()
    assert 0.02 < delivery.copies / len(times) < 0.04
    twice = arrivals[arrivals["index"].isin(times.index[times == 2])].groupby("index").station
    assert (twice.nunique() == 2).all()
    assert (twice.agg(lambda s: len({name[:3] for name in s})) == 1).all()


def test_arrivals_come_in_order_of_time_and_lateness_is_capped(
    flights: pd.DataFrame, moves: pd.DataFrame, delivery: Delivery
) -> None:
    assert delivery.arrivals["at"].is_monotonic_increasing
    prompt = replace(NETWORK, typical=0.0).deliver(flights, moves)
    by_movement = prompt.arrivals.drop_duplicates("index").set_index("index")["at"]
    late = delivery.arrivals["at"] - delivery.arrivals["index"].map(by_movement)
    assert late.min() >= 0
    assert late.max() == pytest.approx(NETWORK.cap)
    assert late.median() == pytest.approx(NETWORK.typical, rel=0.1)


def test_the_rate_sets_the_length_of_the_timeline(
    flights: pd.DataFrame, moves: pd.DataFrame
) -> None:
    for rate in (1000.0, 4000.0):
        network = replace(NETWORK, rate=rate)
        seconds = network.deliver(flights, moves).seconds
        assert seconds == pytest.approx(len(moves) / rate, abs=network.cap)


def test_overtaken_counts_disorder_within_aircraft(
    flights: pd.DataFrame, moves: pd.DataFrame, delivery: Delivery
) -> None:
    assert 0.05 < delivery.overtaken(moves) / len(moves) < 0.25
    prompt = replace(NETWORK, typical=0.0, lost=0.0).deliver(flights, moves)
    assert prompt.overtaken(moves) == 0


def test_few_movements_are_no_special_case(flights: pd.DataFrame, moves_of: MovesOf) -> None:
    assert len(NETWORK.deliver(flights, moves_of(0)).arrivals) == 0
    assert set(NETWORK.deliver(flights, moves_of(1)).arrivals["index"]) <= {0}


def test_it_says_that_it_is_a_simulation() -> None:
    assert str(NETWORK).startswith("simulated, seed 7:")
