"""What a message says reaches no log and no terminal raw: reports are one line, and printable."""

from typing import Any

import orjson
import pytest

from stores.view_state.memory import MemoryTable
from topology import Inspector, Record, Topology, halt, rebuild_stream, skip
from topology.declaration.policies import OnError
from topology.engine.stream_task import StreamTask

NOW = 1_700_000_000_000
EVIL = "a\x1b[2J\nWARNING all is well\u202e" + "x" * 300


def reports(*numbers: tuple[int, str], fails: bool = False, **policies: Any) -> list[str]:
    """What is told of a stream with a hostile id."""
    topology = Topology("evil")
    source = topology.source("in", inspector=Inspector("id", "n"), keyed=True)

    def handler(event: Any) -> None:
        if fails:
            raise ValueError("no")

    topology.view("v", of=source, handler=handler, **policies)
    task = StreamTask(topology, source, 0, {"v": MemoryTable()})
    found: list[str] = []
    for at, (number, body) in enumerate(numbers):
        value = orjson.dumps({"id": EVIL, "n": number, "body": body})
        now = NOW + at * 10_000
        unit = task.process([Record("in", 0, at, b"k", value, (), now)], now, now - 5_000)
        found += unit.reports
    unit = task.process([], NOW + 100_000, NOW + 100_000)
    return found + unit.reports


ON_ERROR: dict[str, OnError] = {"error": halt()}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (reports((1, ""), (3, ""), gap=skip(after=1)), "skipped 1 missing"),
        (reports((3, "one"), (3, "other")), "came twice with different bodies"),
        (reports((1, ""), fails=True, **ON_ERROR), "is halted"),
    ],
)
def test_a_stream_id_is_told_on_one_line_escaped_and_shortened(said: list[str], told: str) -> None:
    assert any(told in report for report in said)
    for report in said:
        assert "all is well" not in report.split("\n")[1:]
        for line in report.split("\n"):
            assert line.isprintable()
            assert not line.startswith("WARNING")
        assert "x" * 150 not in report


def test_a_rebuild_of_such_a_stream_tells_it_so_too() -> None:
    found = reports((1, ""), (3, ""), (2, ""), gap=skip(after=1), late=rebuild_stream())
    assert all(line.isprintable() for report in found for line in report.split("\n"))
