"""`scripts/demo routing`: what pandas is asked, and a run over real processes with a kill -9."""

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import orjson
import pandas as pd
import pytest

from checkout.rabbitmq import server_file
from flight_routing.departures import CONTENT, days, departures, expected, messages
from flight_routing.formats import parsed, to_csv, to_xml
from flight_routing.verify import Arrived, compare
from sequitur.local.home import ROOT
from soak.ended import run
from topology import Record

PLACES = {
    "boeing": "Kafka",
    "a320": "Kafka",
    "vintage": "RabbitMQ",
    "late": "Kafka",
    "west": "file",
}


@pytest.fixture(scope="module")
def year() -> pd.DataFrame:
    """All departures; tests do not change them."""
    return departures()


def test_the_year_has_the_figures_of_the_page(year: pd.DataFrame) -> None:
    assert len(year) == 328_521
    counts = {name: len(ids) for name, ids in expected(year).items()}
    assert counts == {
        "boeing": 82_524, "a320": 59_118, "vintage": 14_819, "late": 8_541, "west": 14_335,
    }  # fmt: skip


def test_each_format_is_read_as_it_was_written() -> None:
    flown = departures(3)
    values = [tuple(map(str, row)) for row in flown[CONTENT].itertuples(index=False)]
    for (_, content), row in zip(messages(flown), values, strict=True):
        message = Record("departures", 0, 0, None, content)
        for written in (content, to_csv(content, message), to_xml(content, message)):
            assert parsed(written) == row


HARMS = ["none", "lost", "twice", "swapped", "changed", "no end", "too late", "again, a queue"]


def _arrived(flown: pd.DataFrame, name: str, ids: set[int]) -> Arrived:
    """What a destination has, with the ends of days where it is told of them."""
    found: Arrived = []
    rows = zip(days(flown), flown["id"], messages(flown), strict=True)
    for day, some in groupby(rows, lambda each: each[0]):
        found += [(f"{name}{n}", body) for _, n, (_, body) in some if n in ids]
        if PLACES[name] != "Kafka":
            found.append((f"{name}/{day}", orjson.dumps({"day": day})))
    return found


@pytest.mark.parametrize("harm", HARMS)
def test_a_wrong_destination_is_a_difference(harm: str, year: pd.DataFrame) -> None:
    flown = year.head(2_000)
    arrived = {name: _arrived(flown, name, ids) for name, ids in expected(flown).items()}
    assert compare(flown, arrived, PLACES).differences == 0
    of = arrived["vintage" if harm in ("no end", "too late", "again, a queue") else "boeing"]
    end = next((n for n, (_, body) in enumerate(of) if body.startswith(b'{"day"')), 0)
    if harm == "lost":
        del of[1]
    elif harm == "twice":
        of.append(("new", of[-1][1]))
    elif harm == "swapped":
        of.reverse()
    elif harm == "changed":
        of[0] = (of[0][0], of[0][1].replace(b'"month":1', b'"month":2'))
    elif harm == "no end":
        del of[end]
    elif harm == "too late":
        of[end - 1], of[end] = of[end], of[end - 1]
    elif harm.endswith("queue"):
        of.append(of[-1])
    assert (compare(flown, arrived, PLACES).differences == 0) == (
        harm in ("none", "again, a queue")
    )


@pytest.mark.integration
def test_processes_that_are_killed_route_each_departure_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flight_routing", "--events", "3000", "--folder"]
    done = run([*command, str(tmp_path / "demo")], 300, ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "destinations verified: 0 differences"
    for told in ("rules 2 are decided", "kill -9", "by rules 2, diff"):
        assert any(told in line for line in lines), told
    assert any(re.match(r"  departures/\d/\d+ to .+ \(rules \d\)", line) for line in lines)
    where = "RabbitMQ, XML" if server_file() else "Kafka, XML"
    assert any(line.split()[0] == "vintage" and where in line for line in lines if line.strip())
    shown = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in shown.stdout
