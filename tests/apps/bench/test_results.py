from pathlib import Path

import pytest

from bench.results import Figure, Result, Sample, load, percentile, save

RESULT = Result(
    "throughput",
    {"events": "5", "Sequitur": "0.1.0 (a)"},
    [
        Sample("a", {"rate": 30.0}),
        Sample("b", {"rate": 10.0}),
        Sample("a", {"rate": 20.0}),
        Sample("a", {"rate": 1.0}, "3 records twice"),
        Sample("a", {"rate": 40.0}),
        Sample("c", {}, "it ended"),
    ],
)


def test_a_figure_is_the_median_of_the_sound_samples() -> None:
    assert RESULT.figure("a", "rate") == Figure(30.0, 20.0, 40.0, 3)
    assert RESULT.figure("c", "rate") is None
    assert RESULT.figure("a", "other") is None


def test_ratios_are_of_medians_and_of_nothing_else() -> None:
    assert RESULT.ratio("a", "b", "rate") == pytest.approx(3)
    assert RESULT.ratio("a", "c", "rate") is None
    assert RESULT.ratio("a", "nobody", "rate") is None


def test_void_samples_are_told() -> None:
    assert RESULT.problems() == ["a: 3 records twice", "c: it ended"]
    assert RESULT.subjects() == ["a", "b", "c"]


def test_each_repeat_has_the_values_that_came_in_it() -> None:
    samples = [*RESULT.samples, Sample("a", {"cpu": 1.0}), Sample("b", {"rate": 4.0})]
    turns = Result("throughput", {}, samples).turns()
    assert [turn.ratio("a", "b", "rate") for turn in turns] == [3.0, 5.0, None]
    assert [turn.figure("a", "cpu") for turn in turns] == [Figure(1.0, 1.0, 1.0, 1), None, None]


def test_results_are_kept_from_run_to_run(tmp_path: Path) -> None:
    kept = tmp_path / "bench" / "results.json"
    other = Result("grid", {**RESULT.facts, "Sequitur": "0.1.0 (b)"}, RESULT.samples)
    assert load(kept, RESULT.facts) == {}
    save(kept, [RESULT, other])
    assert load(kept, RESULT.facts) == {"throughput": RESULT}
    assert load(kept, other.facts) == {"grid": other}  # a page is of one commit
    assert load(kept, RESULT.facts | {"cores": "2"}) == {"throughput": RESULT}
    kept.write_text("half a fi")
    assert load(kept, RESULT.facts) == {}


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_percentiles(share: float, value: float) -> None:
    assert percentile(range(1, 101), share) == value
    assert percentile([7.0], share) == 7.0
