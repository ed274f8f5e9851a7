"""Ends of days through real processes: Kafka in, Kafka and files out, killed on the way."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from sequitur.cli.main import main
from sequitur.route.loading import load_units
from soak.check import read
from tests.conftest import BrokerAddress, make_topics
from tests.forked import spawned

pytestmark = pytest.mark.integration
DAYS, EACH = [f"2013-01-0{n}" for n in range(1, 5)], 60
ROUTER = """
[router]
name = "NAME"
site = "newark"
[units]
ledger = "sqlite:///FOLDER/ledger.db"
errors = { transport = "disk", destination = "errors", attempts = 1 }
lease = 1.0
batch = { count = 20, idle = 0.002 }
days = true
[transport.kafka]
kind = "kafka"
[transport.disk]
kind = "files"
folder = "out"
[source.NAME-in]
rules = ["all"]
[source.NAME-more]
rules = ["all"]
[rule.all]
to = ["NAME-kept", "NAME-filed"]
[destination.NAME-kept]
[destination.NAME-filed]
transport = "disk"
"""


def test_each_destination_has_a_day_before_its_end_whoever_is_killed(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEQUITUR_BROKER", broker.address)
    name, chance = unique("days"), random.Random(7)
    router = tmp_path / "router.toml"
    router.write_text(ROUTER.replace("NAME", name).replace("FOLDER", str(tmp_path)))
    (tmp_path / "out").mkdir()
    topics = {f"{name}-in": 2, f"{name}-more": 1, f"{name}-kept": 3}
    make_topics(broker.address, *(NewTopic(topic, count, 1) for topic, count in topics.items()))
    producer = Producer({"bootstrap.servers": broker.address})
    roles = ["consume", "publish"]
    running: dict[str, subprocess.Popen[bytes]] = {}

    def start(role: str) -> None:
        command = [sys.executable, "-m", "sequitur", "route", role, str(router)]
        running[role] = spawned(command)

    def told() -> int:
        return sum(
            value == b'{"day":"%s","site":"newark"}' % DAYS[-1].encode()
            for value in (each.value() for each in read(broker.address, f"{name}-kept"))
        )

    try:
        for role in roles:
            start(role)
        deadline = time.monotonic() + 240
        while not (tmp_path / "ledger.db").exists():  # the end of a day makes none
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for day in DAYS:
            for n in range(EACH):
                for topic, partitions in list(topics.items())[:2]:
                    value = orjson.dumps({"day": day, "n": n})
                    producer.produce(topic, value, b"%d" % n, partition=n % partitions)
            assert producer.flush(120) == 0
            assert main(["route", "end-of-day", str(router), day]) == 0
            victim = chance.choice(roles)
            running[victim].kill()
            running[victim].wait()
            time.sleep(chance.uniform(0, 1))
            start(victim)
        assert main(["route", "end-of-day", str(router), DAYS[-1]]) == 0, "said again, it is one"
        deadline = time.monotonic() + 240
        while told() < 3:
            assert time.monotonic() < deadline, load_units(router).days
            time.sleep(0.3)
        units = load_units(router)
        while left := [p for p in units.ledger.pairs() if units.ledger.chain(p).backlog]:
            assert time.monotonic() < deadline, left
            time.sleep(0.3)
    finally:
        for each in running.values():
            each.terminate()
            each.wait(240)
    places: dict[object, list[bytes]] = {}
    for record in read(broker.address, f"{name}-kept"):
        places.setdefault(record.partition(), []).append(record.value() or b"")
    for topic in list(topics)[:2]:
        file = tmp_path / "out" / f"{name}-filed+{topic}.lines"
        places[topic] = file.read_bytes().splitlines()
    assert sorted(map(str, places)) == sorted(["0", "1", "2", f"{name}-in", f"{name}-more"])
    for values in places.values():
        found = [orjson.loads(value) for value in values]
        assert [each["day"] for each in found if "site" in each] == DAYS
        assert [each["day"] for each in found] == sorted(each["day"] for each in found)
        assert all("site" in found[-1 - at] for at in range(1))
    kept = [orjson.loads(v) for number in range(3) for v in places[number]]
    assert sum("n" in each for each in kept) == 2 * EACH * len(DAYS)
    for topic in list(topics)[:2]:
        assert sum(b'"n"' in each for each in places[topic]) == EACH * len(DAYS)
    # Each day's end is behind all of the day, as days are in order in each place.
    for values in places.values():
        days = [orjson.loads(value) for value in values]
        for day in DAYS:
            at = next(n for n, each in enumerate(days) if each["day"] == day and "site" in each)
            assert all(each["day"] > day for each in days[at + 1 :])
