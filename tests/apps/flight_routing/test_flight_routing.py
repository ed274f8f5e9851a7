"""`scripts/demo routing`: what pandas is asked, and a run over real processes with a kill -9."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from checkout.rabbitmq import server_file
from flight_routing.departures import CONTENT, departures, expected, messages
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


def test_the_year_has_the_figures_of_the_page() -> None:
    flown = departures()
    assert len(flown) == 328_521
    counts = {name: len(ids) for name, ids in expected(flown).items()}
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


@pytest.mark.parametrize("harm", ["none", "lost", "twice", "swapped", "changed", "again, a queue"])
def test_a_wrong_destination_is_a_difference(harm: str) -> None:
    flown = departures(2_000)
    wanted, body = expected(flown), dict(zip(flown["id"], messages(flown), strict=True))
    arrived: dict[str, Arrived] = {
        name: [(f"{name}{n}", body[n][1]) for n in flown["id"] if n in ids]
        for name, ids in wanted.items()
    }
    assert compare(flown, arrived, PLACES).differences == 0
    of = arrived["vintage" if harm.endswith("queue") else "boeing"]
    if harm == "lost":
        del of[1]
    elif harm == "twice":
        of.append(("new", of[-1][1]))
    elif harm == "swapped":
        of.reverse()
    elif harm == "changed":
        of[0] = (of[0][0], of[0][1].replace(b'"month":1', b'"month":2'))
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
