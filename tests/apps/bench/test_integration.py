"""A small run of the bench itself: every output is audited, nothing is timed."""

from pathlib import Path

import pytest

from bench import machine
from bench.__main__ import main
from bench.results import load
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration


def test_a_small_run_measures_audits_and_writes_the_page(
    broker: BrokerAddress, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--n", "5000", "--repeats", "1", "--peers", "sequitur,limit"]
    arguments += ["--scenario", "throughput,upsert", "--broker", broker.address]
    page = tmp_path / "page.md"
    folder = tmp_path / "bench"
    status = main(["engine", *arguments, "--folder", str(folder), "--page", str(page)])
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    results = load(page.with_suffix(".json"), machine.facts())
    assert results["throughput"].subjects() == ["sequitur", "limit"]
    assert len(results["throughput"].samples) == 4
    assert results["upsert"].subjects() == ["sequitur"]
    assert not any(result.problems() for result in results.values())
    assert "| Sequitur |" in page.read_text()
    assert not any((folder / "data").iterdir())
