"""A short soak of capture passes, says so, and is done when it is run again."""

from pathlib import Path

import pytest

from soak_capture import __main__ as soak

pytestmark = pytest.mark.integration


def test_a_short_soak(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "HOME", tmp_path)
    command = ["--harms", "4", "--per-round", "2", "--way", "two, sqlite", "--seed", "3"]
    assert soak.main(command) == 0
    rounds = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in rounds[:2]] == ["seed 3", "seed 4"]
    assert rounds[-1].startswith("4 harms in 2 rounds")


def test_what_is_wrong_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "HOME", tmp_path)
    monkeypatch.setattr("soak_capture.place.differences", lambda *_: ["invented: x"])
    assert soak.main(["--harms", "1", "--way", "one, sqlite"]) == 1
    assert "FAILED: one, sqlite, seed 1, after" in capsys.readouterr().out
