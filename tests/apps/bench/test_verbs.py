"""The bench of verbs: its deliveries, how it reads tables, and our program, without a broker."""

import sys
from collections import Counter
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.job import Job
from bench.verbs.contestants import ALL, SEQUITUR
from bench.verbs.deliveries import DELIVERIES, END, Flights
from bench.verbs.tables import expected, rows_of, wrong
from topology.testing import TopologyTestDriver

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
        assert len(often) == 4_000
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


def test_a_table_is_what_was_written_last_whoever_wrote_it() -> None:
    changes = [{"key": {"stream": "N 1", "start": "1970-01-02T00:00:00Z"}, "values": {"value": 2}}]
    records: Any = [
        Record(f"N 1 {DAY}", 1),
        Record("anything", {"changes": changes}),
        Record("JFK 0", {"key": "JFK 0", "value": 0.5}),
        Record("N2 7", {"reported": None, "wind_speed": None}),
    ]
    assert rows_of(records) == {("N 1", DAY): 2, ("JFK", 0): 0.5, ("N2", 7): None}


def test_rows_that_are_missing_different_or_too_many_are_wrong() -> None:
    right = {("N1", 0): 1, ("N1", DAY): 2, ("N2", 0): None}
    assert wrong(right, right) == 0
    assert wrong(right, {("N1", 0): 1, ("N1", DAY): 3}) == 2
    assert wrong(right, right | {("N3", 0): 1}) == 1
    assert wrong(right, right | {(END, 0): 1, ("JFK", 60 * DAY): 0.0}) == 0


@pytest.mark.parametrize("name", DELIVERIES)
def test_our_program_makes_the_tables_of_pandas_of_every_delivery(
    flights: Flights, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = Job("127.0.0.1:9", "moves", "out", "group", tmp_path)
    told = {"TOPOLOGY": "verbs", "TABLES": ",".join(SEQUITUR.tables), "WEATHER": "weather"}
    for variable, value in (job.environment() | told).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delitem(sys.modules, "bench.topologies.verbs", raising=False)
    driver = TopologyTestDriver(import_module("bench.topologies.verbs").topology)
    for tail, message in flights.moved(DELIVERIES[name]):
        driver.pipe("moves", message, key=tail)
    for origin, message in flights.reported(DELIVERIES[name]):
        driver.pipe("weather", message, key=origin)
    driver.advance(6)
    right = expected(flights)
    for table in SEQUITUR.tables:
        got = {
            (name, at if isinstance(at, int) else int(at.timestamp() * 1000)): row["value"]
            for (name, at), row in driver.table(table).items()
        }
        assert len(got) > 100
        assert wrong(right[table], got) == 0


def test_every_contestant_has_a_name_of_its_own_and_as_much_grace_as_it_says() -> None:
    assert len({who.name for who in ALL}) == len(ALL)
    for who in ALL[1:]:
        hours = int(who.environment["GRACE"]) // 3_600_000
        assert f"grace {hours} h" in who.title
