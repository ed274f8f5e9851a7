from collections.abc import Callable

import orjson
import pandas as pd
import pytest

from sequitur.flights.movements import Messages, movements

pytestmark = pytest.mark.integration

MovesOf = Callable[[int], pd.DataFrame]


@pytest.fixture(scope="module")
def moves(moves_of: MovesOf) -> pd.DataFrame:
    return moves_of(10**9)


def test_flown_flights_with_a_tail_number_move(flights: pd.DataFrame, moves: pd.DataFrame) -> None:
    flown = flights[flights.tailnum.notna() & flights.dep_time.notna()]
    assert sorted(moves[moves.kind == "OUT"].flight_id) == flown.flight_id.tolist()
    arrived = flown[flown.air_time.notna()]
    assert sorted(moves[moves.kind == "IN"].flight_id) == arrived.flight_id.tolist()
    assert len(moves) == 655_867


def test_times_are_dated_across_midnight_and_zones(flights: pd.DataFrame) -> None:
    first = flights.iloc[0]  # UA 1545, Newark 05:17 to Houston 08:30, local times
    assert str(first.out) == "2013-01-01 10:17:00+00:00"
    assert str(first["in"]) == "2013-01-01 14:30:00+00:00"
    overnight = flights[(flights.sched_dep_time == 2359) & (flights.dep_time < 600)].iloc[0]
    scheduled = overnight.scheduled_out.tz_convert("America/New_York")
    actual = overnight.out.tz_convert("America/New_York")
    assert (scheduled.day, actual.day) == (overnight.day, overnight.day + 1)
    assert actual.hour * 100 + actual.minute == overnight.dep_time


def test_every_arrival_is_dated_after_its_time_in_the_air(flights: pd.DataFrame) -> None:
    flown = flights[flights.air_time.notna()]
    taxi = (flown["in"] - flown["out"]).dt.total_seconds() / 60 - flown.air_time
    assert taxi.between(1, 240).all()


def test_each_aircraft_numbers_its_movements_from_one_in_the_order_they_happened(
    moves: pd.DataFrame,
) -> None:
    assert moves.time.is_monotonic_increasing
    by_tail = moves.groupby("tail").number
    assert (by_tail.min() == 1).all()
    assert (by_tail.max() == by_tail.size()).all()
    assert (by_tail.diff().dropna() == 1).all()


def test_a_limit_takes_the_first(flights: pd.DataFrame, moves: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(movements(flights, 1000), moves.head(1000))


def test_an_out_message_knows_nothing_of_the_arrival(
    flights: pd.DataFrame, moves: pd.DataFrame
) -> None:
    sent = [orjson.loads(message) for message in Messages(flights, moves.head(2000))]
    assert sent[0] == {
        **{"tail": "N14228", "number": 1, "kind": "OUT", "flight_id": 1},
        **{"time": "2013-01-01T10:17:00Z", "carrier": "UA", "flight": 1545},
        **{"origin": "EWR", "dest": "IAH", "distance": 1400},
        **{"year": 2013, "month": 1, "day": 1, "hour": 5, "minute": 15},
        **{"dep_time": 517, "sched_dep_time": 515, "dep_delay": 2, "sched_arr_time": 819},
        **{"arr_time": None, "arr_delay": None, "air_time": None, "in": None},
        **{"scheduled_out": "2013-01-01T10:15:00Z", "out": "2013-01-01T10:17:00Z"},
        **{"scheduled_in": "2013-01-01T14:19:00Z", "time_hour": "2013-01-01T10:00:00Z"},
    }
    landed = next(m for m in sent if m["flight_id"] == 1 and m["kind"] == "IN")
    assert (landed["tail"], landed["number"]) == ("N14228", 2)
    assert landed["time"] == landed["in"] == "2013-01-01T14:30:00Z"
    assert (landed["arr_time"], landed["arr_delay"], landed["air_time"]) == (830, 11, 227)
    known = {k: v for k, v in landed.items() if k not in ("number", "kind", "time")}
    assert sent[0].items() >= {k: v for k, v in known.items() if sent[0][k] is not None}.items()


def test_messages_are_a_sequence(flights: pd.DataFrame, moves: pd.DataFrame) -> None:
    sent = Messages(flights, moves.head(10))
    assert len(sent) == 10
    assert sent[2:4] == [sent[2], sent[3]]
    assert orjson.loads(sent[9])["flight_id"] == moves.flight_id[9]
