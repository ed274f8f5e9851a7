import pytest

from bench import report
from bench.engine import SCENARIOS
from bench.goals import GOALS, verdicts, word
from bench.results import Figure, Result, Sample


def facts(events: int) -> dict[str, str]:
    return {
        "date": "2026-01-31",
        "Sequitur": "0.1.0",
        "processor": "a processor",
        "events": str(events),
        "repeats": "3",
        "load before": "0.1",
        "load after": "1.9",
    }


def measured(ours: float, events: int = 400_000) -> Result:
    samples = [
        *(Sample("sequitur", {"exactly_once": each}) for each in (ours, ours, ours)),
        Sample("sequitur", {"at_least_once": 200_000.0}),
        *(Sample("limit", {"exactly_once": 190_000.0}) for _ in range(3)),
        *(Sample("kafka-streams", {"exactly_once": 80_000.0}) for _ in range(3)),
        *(Sample("faust", {"at_least_once": 4_000.0}) for _ in range(3)),
        Sample("quix", {}, "it ended\nand this is its log"),
    ]
    return Result("throughput", facts(events), samples)


def test_goals_are_met_or_not_or_not_measured() -> None:
    words = {v.goal.text: v.word for v in verdicts({"throughput": measured(155_000.0)})}
    assert words["exactly once, × Kafka Streams' exactly once"] == "NOT met"
    assert words["exactly once, × the bare loop"] == "met"
    assert words["exactly once, × stock Faust's at least once"] == "met"
    assert words["recovery from the changelog, rows/s"] == "not measured"
    assert len(words) == len(GOALS)


@pytest.mark.parametrize(
    ("each", "said"),
    [
        ([2.0, 2.1, 3.0], "met"),
        ([1.9, 2.1, 2.2], "at the bound"),
        ([1.7, 1.8, 2.0], "at the bound"),
        ([1.0, 1.5, 1.9], "NOT met"),
        ([2.5], "no verdict: measured once"),
    ],
)
def test_what_repeats_do_not_agree_on_is_at_the_bound(each: list[float], said: str) -> None:
    assert word(sorted(each)[len(each) // 2], each, lambda figure: figure >= 2) == said


def test_what_only_the_medians_of_cells_meet_and_no_repeat_does_is_at_the_bound() -> None:
    assert word(2.1, [1.9, 1.9], lambda figure: figure >= 2) == "at the bound"


def test_a_trial_has_figures_and_no_verdict() -> None:
    (first, *_) = verdicts({"throughput": measured(170_000.0, 20_000)})
    assert first.word == "no verdict: a trial with 20,000 events"
    assert first.figure == pytest.approx(2.125)


def test_every_goal_belongs_to_a_scenario_that_has_its_value() -> None:
    assert {goal.scenario for goal in GOALS} <= set(SCENARIOS)
    values = {"exactly_once", "at_least_once", "rate", "seconds", "beyond", "p99"}
    shown = {column.value for scenario in SCENARIOS.values() for column in scenario.columns}
    assert values <= shown


def test_the_table_has_medians_and_ratios_in_the_order_of_the_contestants() -> None:
    grid = report.grid(SCENARIOS["throughput"], measured(155_000.0))
    assert [row[0] for row in grid.rows] == ["sequitur", "limit", "kafka-streams", "quix", "faust"]
    assert grid.rows[0][1:5] == ["200,000", "155,000", "1.94", "0.82"]
    assert grid.rows[3][1:] == [report.NONE] * 6


def test_figures_are_not_more_exact_than_they_are() -> None:
    assert report.number(154_742.1, 0) == "155,000"
    assert report.number(1_234.5, 0) == "1,230"
    assert report.number(999.6, 0) == "1,000"
    assert report.number(0.456, 2) == "0.46"
    assert report.spread(Figure(2.0, 1.0, 3.0, 3), 1) == "2.0 (1.0–3.0)"
    assert report.spread(Figure(2.0, 2.0, 2.0, 1), 1) == "2.0"
    assert report.spread(None, 1) == report.NONE


def test_the_page_says_what_was_measured_under_what_conditions_and_what_was_void() -> None:
    page = report.page(SCENARIOS.values(), {"throughput": measured(170_000.0)})
    assert "| exactly once, × Kafka Streams' exactly once | ≥ 2 | 2.12 | met |" in page
    assert "Kafka Streams 4.1.0, JVM, one thread | – | 80,000 | 1.00 | 0.42 |" in page
    assert "400,000 events, repeats: 3; load average 0.1 before and 1.9 after." in page.replace(
        "\n", " "
    )
    assert "- quix: it ended\n" in page
    assert "and this is its log" not in page
    assert "| processor | a processor |" in page
    assert all(line == line.rstrip() for line in page.splitlines())


def test_peers_that_are_not_installed_are_named() -> None:
    result = measured(170_000.0)
    result.facts["absent"] = "quix"
    assert "Not measured: quix." in report.page(SCENARIOS.values(), {"throughput": result}).replace(
        "\n", " "
    )


def test_nothing_measured_is_no_page() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        report.page(SCENARIOS.values(), {})


def test_a_table_of_another_machine_says_so() -> None:
    older = measured(1.0)
    older.facts |= {"date": "2026-01-30", "processor": "another processor"}
    newer = Result("views", facts(400_000), [Sample("1", {"at_least_once": 1.0})])
    page = report.page(SCENARIOS.values(), {"throughput": older, "views": newer})
    assert page.count("Another machine:") == 1
    assert "Another machine: processor another processor.*" in page.replace("\n", " ")
