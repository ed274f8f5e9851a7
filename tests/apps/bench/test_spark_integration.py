"""A small run of the bench of Spark: every record has to arrive, nothing is timed."""

from pathlib import Path

import pytest

from bench import machine
from bench.__main__ import main
from bench.results import load
from bench.spark.stores import WRITERS
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration


def test_a_small_run_measures_and_writes_the_page(
    broker: BrokerAddress,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = {name: WRITERS[name] for name in ("sqlite", "copy loop")}
    monkeypatch.setattr("bench.spark.sinks.WRITERS", few)
    page, folder = tmp_path / "page.md", tmp_path / "bench"
    arguments = ["--n", "2000", "--repeats", "1", "--scenario", "sinks"]
    arguments += ["--broker", broker.address, "--folder", str(folder), "--page", str(page)]
    status = main(["spark", *arguments])
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    (result,) = load(page.with_suffix(".json"), machine.facts()).values()
    assert result.subjects() == list(few)
    assert all(sample.values["rate"] > 0 for sample in result.samples)
    assert "| sink: SQLite |" in page.read_text()
    assert not any((folder / "data").iterdir())
