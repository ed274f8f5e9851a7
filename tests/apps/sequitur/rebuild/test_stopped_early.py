"""A rebuild that is told to stop before Spark runs stops, also where Python drops the signal."""

import signal
from pathlib import Path

import pytest

from sequitur.cli import signals
from sequitur.cli.main import main


@pytest.mark.parametrize(
    "words",
    [
        [
            "run",
            "--app",
            "sequitur.flights",
            "--view",
            "aircraft",
            "--read-store",
            "sqlite:///r.db",
        ],
        ["export", "--topic", "a", "--to", "new"],
    ],
    ids=lambda words: words[0],
)
def test_an_interrupt_that_was_dropped_is_noticed_before_spark_starts(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signals, "_received", [signal.SIGINT])
    assert main(["rebuild", *words]) == 130
    assert not list(tmp_path.iterdir())
