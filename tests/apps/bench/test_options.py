import pytest

from bench.__main__ import main, options
from bench.engine import SCENARIOS
from bench.peers.registry import PEERS
from sequitur.local.home import ROOT


def test_by_default_everything_is_measured_at_full_size() -> None:
    chosen = options(["engine"])
    assert chosen.events == 400_000
    assert chosen.repeats == 3
    assert list(chosen.peers) == list(PEERS)
    assert list(chosen.scenarios) == list(SCENARIOS)
    assert not chosen.install
    assert chosen.page == ROOT / "docs" / "benchmarks.md"


def test_peers_and_scenarios_are_chosen_by_name() -> None:
    chosen = options(
        ["engine", "--peers", "limit,sequitur", "--scenario", "views", "--n", "20,000"]
    )
    assert chosen.peers == ["sequitur", "limit"]
    assert chosen.scenarios == ["views"]
    assert chosen.events == 20_000


@pytest.mark.parametrize(
    "arguments",
    [
        ["spark", "--scenario", "throughput"],
        [],
        ["engine", "--peers", "nobody"],
        ["engine", "--n", "0"],
        ["engine", "--scenario", "all"],
    ],
)
def test_what_does_not_fit_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refusal:
        options(arguments)
    assert refusal.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_data_side_has_scenarios_of_its_own() -> None:
    chosen = options(["spark", "--scenario", "sinks", "--n", "2000"])
    assert (chosen.scenarios, chosen.events) == (["sinks"], 2000)
    assert chosen.page == ROOT / "docs" / "benchmarks-spark.md"


def test_the_verbs_have_all_movements_unless_told_otherwise() -> None:
    chosen = options(["verbs", "--scenario", "late,live"])
    assert (chosen.scenarios, chosen.events) == (["late", "live"], 655_867)
    assert chosen.page == ROOT / "docs" / "benchmarks-verbs.md"


def test_a_page_of_the_docs_is_not_written_from_a_changed_checkout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.machine.changed", lambda: True)
    assert main(["engine"]) == 1
    assert "commit them, or write the page elsewhere" in capsys.readouterr().err
