"""A type checker follows values through the verbs, and a wrong type is an error."""

import subprocess
import sys
from pathlib import Path

import pytest

from sequitur.local.home import ROOT

RIGHT = """
from dataclasses import dataclass

from topology import Emit, Inspector, Topology, park
from topology.verbs import (
    LookupRow, Row, as_of_sequence, as_of_time, count, emitted, events, mean, total, tumbling,
)


@dataclass
class Move:
    tail: str
    kind: str
    time: float
    delay: float
    origin: str
    saw: int


@dataclass
class Weather:
    time: float
    wind: float | None


@dataclass
class Flown:
    move: Move
    wind: float


flights = Topology("flights")
source = flights.source("moves", inspector=Inspector("tail", "number", "kind"))
moves = events(flights, source, of=Move, time=lambda move: move.time)
delays = moves.filter(lambda move: move.kind == "OUT").map(lambda move: move.delay)
days = delays.each().window(tumbling(86_400))


def shown(row: Row[int]) -> str:
    return f"{row.value + 1} since {row.start}"


days.fold(count(), name="flown", buffer=8).to_rows("flown", {"shown": shown})
means = days.fold(mean(lambda delay: delay), name="delays").to_rows("delays")
late = means.map(lambda row: row.value or 0.0).filter(lambda value: value > 15)
late.fold(total(lambda value: value + 1), name="sums").to_rows("sums")
late.by(lambda value: round(value)).fold(count(), name="sizes", error=park()).to_rows("sizes")

reports = flights.source("weather", inspector=Inspector("origin", "number"))
weather = events(flights, reports, of=Weather, time=lambda report: report.time)


def with_wind(move: Move, report: Weather | None) -> Flown:
    return Flown(move, 0.0 if report is None or report.wind is None else report.wind)


wind = weather.filter(lambda report: report.wind is not None).latest(name="wind", buffer=16)
found = moves.lookup(
    wind, key=lambda move: move.origin, at=as_of_time(wait=7200, keep=86_400), merge=with_wind,
    name="found",
)
found.to_rows("found", {"wind": lambda it: it.wind})
windy = found.filter(lambda it: it.wind > 20).by(lambda it: it.move.origin)
windy.fold(total(lambda it: it.wind), name="windy").to_rows("windy")
seen = moves.lookup(
    wind, key=lambda move: move.origin, at=as_of_sequence(left=lambda move: move.saw),
    merge=lambda move, report: report, name="seen",
)
seen.map(lambda report: report.wind if report else None).to("seen")
row: LookupRow[Flown]
flights.view("passed", of=source, handler=lambda event: [Emit("told", None, event.content)])
told = emitted(flights, "passed", "told", of=Weather).map(lambda it: it.wind or 0.0)
told.each().fold(total(lambda knots: knots), name="blown").to_rows("blown")
"""
WRONG = {
    'lambda move: move.kind == "OUT"': 'lambda move: move.sort == "OUT"',
    "lambda move: move.delay)": "lambda move: move.tail)",
    "lambda move: move.time)": "lambda move: move.kind)",
    "Row[int]": "Row[str]",
    "buffer=8": 'buffer="8"',
    "row.value or 0.0": "row.values or 0.0",
    "value + 1": "value.tail",
    "lambda value: round(value)": "lambda value: value",
    "error=park()": "buffer=8",
    "report: Weather | None)": "report: Weather)",
    "def with_wind(move: Move": "def with_wind(move: Weather",
    "key=lambda move: move.origin": "key=lambda move: move.delay",
    "lambda it: it.wind > 20": "lambda it: it.speed > 20",
    "lambda move: move.saw": "lambda move: move.origin",
    "report.wind if report else None": "report.wind",
    "report.wind is not None": "report.gust is not None",
    "it.wind or 0.0": "it.delay",
}


@pytest.mark.integration
def test_a_type_checker_accepts_the_example_and_finds_each_wrong_type(tmp_path: Path) -> None:
    for number, (right, wrong) in enumerate([("", ""), *WRONG.items()]):
        assert right in RIGHT
        (tmp_path / f"example_{number}.py").write_text(RIGHT.replace(right, wrong, 1))
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--no-error-summary",
            f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}",
            *map(str, sorted(tmp_path.iterdir())),
        ],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    files = {Path(line.split(":")[0]).name for line in errors}
    assert files == {f"example_{number}.py" for number in range(1, len(WRONG) + 1)}, done.stdout
