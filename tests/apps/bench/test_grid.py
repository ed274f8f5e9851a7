from pathlib import Path
from typing import Any

import pytest

from bench import machine
from bench.bench import Bench
from bench.peers.registry import LIMIT, SEQUITUR
from bench.results import Result, Sample
from bench.scenarios import grid


def _bench(results: dict[str, Result]) -> Bench:
    cluster: Any = None
    return Bench(cluster, Path(), 1000, {"sequitur": SEQUITUR, "limit": LIMIT}, results)


def _result(events: str, *samples: Sample) -> dict[str, Result]:
    return {"grid": Result("grid", {"events": events} | machine.facts(), list(samples))}


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []

    def measure(bench: Bench, name: str, contestant: Any, work: Any) -> dict[str, float]:
        found.append((name, work.streams))
        return {name: 1.0}

    monkeypatch.setattr(grid, "measure", measure)
    return found


def test_it_goes_on_where_it_was_ended(measured: list[tuple[str, int]]) -> None:
    first, second, *rest = grid.cells(1000)
    kept = [Sample(first, {"ours": 2.0}), Sample(second, {"limit": 3.0})]
    void = Sample(first, {}, "the output is wrong")
    bench = _bench(_result("1000", *kept, void))
    samples = list(grid.run(bench))
    assert samples[:2] == kept
    assert len(samples) == 4 * (2 + len(rest))
    assert [name for name, _ in measured[:4]] == ["ours2", "limit", "limit2", "ours"]
    bench.results["grid"].samples, measured[:] = samples, []
    bench.turn = 1
    assert len(list(grid.run(bench))) == len(measured) == len(samples)


def test_figures_of_other_events_are_not_taken_over(measured: list[tuple[str, int]]) -> None:
    first, *_ = grid.cells(1000)
    list(grid.run(_bench(_result("999", Sample(first, {"ours": 2.0})))))
    assert len(measured) == 48


def test_figures_of_another_machine_are_not_taken_over(measured: list[tuple[str, int]]) -> None:
    first, *_ = grid.cells(1000)
    results = _result("1000", Sample(first, {"ours": 2.0}))
    results["grid"].facts["processor"] = "another"
    assert len(list(grid.run(_bench(results)))) == len(measured) == 48


def test_who_begins_changes_from_repeat_to_repeat(measured: list[tuple[str, int]]) -> None:
    bench = _bench({})
    bench.turn = 2
    bench.results |= _result("1000", *(Sample(c, {"limit": 1.0}) for c in grid.cells(1000)))
    list(grid.run(bench))
    assert [name for name, _ in measured[:4]] == ["limit", "limit2", "ours", "ours2"]


def test_the_worst_cell_is_by_the_best_of_the_others() -> None:
    (result,) = _result(
        "1000",
        Sample("a", {"ours": 6.0}),
        Sample("a", {"streams": 2.0}),
        Sample("a", {"cached": 3.0}),
        Sample("b", {"ours": 5.0}),
        Sample("b", {"streams": 4.0}),
        Sample("c", {"ours": 1.0}),
    ).values()
    assert grid.worst(result, ("streams", "cached")) == 1.25
    assert grid.worst(result, ("flink500",)) is None
