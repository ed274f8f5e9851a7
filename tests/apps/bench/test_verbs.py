"""The bench of verbs: its deliveries, how it reads tables, and our program, without a broker."""

from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.bench import Bench
from bench.verbs import in_process
from bench.verbs.contestants import ALL
from bench.verbs.deliveries import DELIVERIES, END, Flights
from bench.verbs.scenarios import IN_PROCESS, split
from bench.verbs.tables import TABLES, expected, table_of, wrong

DAY = 86_400_000


@pytest.fixture(scope="module")
def flights() -> Flights:
    return Flights(4_000)


class Record:
    """A message as clients have it."""

    def __init__(self, key: str, value: Any) -> None:
        self._key, self._value = key.encode(), orjson.dumps(value)

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value


def times(flights: Flights, name: str) -> list[float]:
    """When the movements of a delivery happened, as they arrive, without the end."""
    messages = [orjson.loads(value) for _, value in flights.moved(DELIVERIES[name])]
    return [
        datetime.fromisoformat(message["time"]).timestamp()
        for message in messages
        if message["tail"] != END
    ]


def test_a_delivery_has_every_movement_and_then_the_end(flights: Flights) -> None:
    for name, delivery in DELIVERIES.items():
        sent = [(m["tail"], m["number"]) for m in map(orjson.loads, bodies(flights, delivery))]
        assert [tail for tail, _ in sent[-3:]] == [END] * 3
        often = Counter(sent[:-3])
        assert len(often) == 4_000 if not delivery.loses else 3_950 < len(often) <= 4_000
        assert max(often.values()) == (2 if name == "twice" else 1)


def bodies(flights: Flights, delivery: Any) -> list[bytes]:
    return [value for _, value in flights.moved(delivery)]


def test_half_are_later_than_two_minutes_and_none_than_six_hours(flights: Flights) -> None:
    arrived, latest, lead = times(flights, "late"), 0.0, []
    for time in arrived:
        latest = max(latest, time)
        lead.append(latest - time)
    assert 600 < max(lead) <= 6 * 3600
    assert times(flights, "in order") == sorted(arrived)


def test_the_weather_is_delivered_out_of_order_too(flights: Flights) -> None:
    straight = [value for _, value in flights.reported(DELIVERIES["in order"])]
    for name in ("late", "demo"):
        out = [value for _, value in flights.reported(DELIVERIES[name])]
        assert out != straight
        assert sorted(out) == sorted(straight)
        assert out[-3:] == straight[-3:]


def test_no_report_of_the_second_part_is_older_than_one_of_its_airport_s_in_the_first(
    flights: Flights,
) -> None:
    reports = list(flights.reported(DELIVERIES["twice"]))
    there, others = split(reports, len(reports) // 4)
    assert sorted(there + others) == sorted(reports)
    assert len(reports) // 4 <= len(there) < len(reports) // 2
    newest: dict[bytes | None, str] = {}
    for key, value in there:
        newest[key] = max(newest.get(key, ""), orjson.loads(value)["time"])
    assert all(orjson.loads(value)["time"] > newest.get(key, "") for key, value in others)


def test_a_table_is_what_was_written_last_whoever_wrote_it() -> None:
    changes = [
        {
            "key": {"stream": "N 1", "start": "1970-01-02T00:00:00Z"},
            "values": {"value": 2, "missing": 1},
        }
    ]
    records: Any = [
        Record(f"N 1 {DAY}", 1),
        Record("anything", {"changes": changes}),
        Record("JFK 0", {"key": "JFK 0", "value": 0.5}),
        Record("N2 7", {"reported": None, "wind_speed": None}),
    ]
    found = table_of(records)
    assert found.rows == {("N 1", DAY): 2, ("JFK", 0): 0.5, ("N2", 7): None}
    assert found.missing == {("N 1", DAY): 1}


def test_rows_that_are_missing_different_or_too_many_are_wrong() -> None:
    right = {("N1", 0): 1, ("N1", DAY): 2, ("N2", 0): None}
    assert wrong(right, right) == 0
    assert wrong(right, {("N1", 0): 1, ("N1", DAY): 3}) == 2
    assert wrong(right, right | {("N3", 0): 1}) == 1
    assert wrong(right, right | {(END, 0): 1, ("JFK", 60 * DAY): 0.0}) == 0


@pytest.mark.parametrize("backlog", [False, True])
@pytest.mark.parametrize(
    "name", [n if n == "demo" else pytest.param(n, marks=pytest.mark.long) for n in DELIVERIES]
)
def test_our_topology_makes_the_tables_of_pandas_of_every_delivery(
    flights: Flights, name: str, backlog: bool
) -> None:
    delivery = DELIVERIES[name]
    if delivery.network is not None and delivery.loses:
        delivery = replace(delivery, network=replace(delivery.network, lost=0.01))
    right = expected(flights, delivery)
    for table, got in in_process.tables(flights, delivery, backlog=backlog).items():
        assert len(got.rows) > 100
        assert wrong(right[table].rows, got.rows) == 0
        assert got.missing == right[table].missing
    lost = sum(right["aircraft_day"].missing.values())
    assert 20 < lost < 60 if delivery.loses else lost == 0


def test_without_a_broker_a_repeat_has_figures_of_each_way_to_arrive(tmp_path: Path) -> None:
    cluster: Any = None
    bench = Bench(cluster, tmp_path, 1_000, {})
    samples = list(IN_PROCESS.run(bench))
    assert {each.subject for each in samples} == set(IN_PROCESS.subjects)
    for each in samples:
        assert not each.problem
        assert all(each.values[f"{table}_rows"] == 0 for table in TABLES)
        assert each.values["flown_of"] > 400
        assert each.values["missing"] <= each.values["lost"] < 10
    bench.turn = 1
    assert not list(IN_PROCESS.run(bench))


def test_every_contestant_has_a_name_of_its_own_and_as_much_grace_as_it_says() -> None:
    assert len({who.name for who in ALL}) == len(ALL)
    for who in ALL[1:]:
        hours = int(who.environment["GRACE"]) // 3_600_000
        assert f"grace {hours} h" in who.title
