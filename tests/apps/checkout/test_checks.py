from pathlib import Path

import pytest

from checkout import chromium
from checkout.checks import Outcome, _report, closing_line

PASSED = Outcome("lint", 0, 0.1, "All checks passed!")
FAILED = Outcome("types", 1, 2.0, "x.py:1: error")
CLOSING = "=== 3 passed in 1.25s ==="


@pytest.mark.parametrize(
    "line",
    [
        "============================= 32 passed in 11.10s ==============================",
        "==== 1 failed, 31 passed, 2 skipped, 1 warning in 71.10s (0:01:11) =====",
        "3 passed, 2 subtests passed in 0.02s",
        "no tests ran in 0.01s",
        "============ no tests ran in 0.01s ============",
        "1 passed, 1 error in 90061.00s (1 day, 1:01:01)",
    ],
)
def test_pytests_closing_line_is_known_in_colour_too(line: str) -> None:
    assert closing_line(f"{line}\n") == line
    assert closing_line(f"\x1b[32m\x1b[1m{line}\x1b[0m\x1b[32m\x1b[0m\n") == line


@pytest.mark.parametrize(
    "line", ["tests/test_x.py ..  [ 37%]", "E   3 passed in vain", "== 4 failures in 2 files =="]
)
def test_other_lines_are_not_taken_for_it(line: str) -> None:
    assert closing_line(line) == ""


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([PASSED, Outcome("tests", 0, 3.0, closing=CLOSING)], 0),
        ([FAILED, Outcome("tests", 0, 3.0, closing=CLOSING)], 1),
        ([PASSED, Outcome("tests", 1, 3.0, closing=CLOSING)], 1),
        ([PASSED, Outcome("tests", 5, 0.1, closing="no tests ran in 0.01s")], 1),
    ],
)
def test_the_status_is_that_of_all_checks(
    outcomes: list[Outcome],
    status: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chromium, "browser_file", lambda: Path("/usr/bin/chromium"))
    assert _report(outcomes, fast=False) == status
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == outcomes[-1].closing
    assert ("x.py:1: error" in lines) is (FAILED in outcomes)


def test_what_was_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    _report([Outcome("tests", 0, 3.0, closing=CLOSING)], fast=True)
    assert "left out" in capsys.readouterr().out


def test_the_last_line_says_that_the_browser_tests_did_not_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tests = Outcome("tests", 0, 3.0, closing=CLOSING)
    monkeypatch.setattr(chromium, "browser_file", lambda: Path("/usr/bin/chromium"))
    _report([tests], fast=False)
    assert "browser tests" not in capsys.readouterr().out
    monkeypatch.setattr(chromium, "browser_file", lambda: None)
    _report([tests], fast=False)
    *summary, last = capsys.readouterr().out.splitlines()
    assert "browser tests did not run: no Chromium" in last
    assert any("browser tests did not run" in line for line in summary)
