"""Who runs the tests sees what is done, what runs now, what failed, and what each part came to."""

import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkout.checks import pytest_arguments
from sequitur.local.home import ROOT
from tests import spread
from tests.progress import Progress, busy_seconds

TESTS = """
import pytest

@pytest.fixture
def broker(): pass

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip(reason="no such thing here")
def test_is_skipped(): pass
@pytest.mark.integration
def test_needs_a_broker(broker): pass
@pytest.mark.integration
def test_starts_a_process(): pass
"""


@pytest.mark.integration
def test_failures_are_told_at_once_and_parts_are_counted(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = [*pytest_arguments(fast=False), "-n", "1", "-o", "markers=integration: x"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "test_it.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    failed = next(index for index, line in enumerate(lines) if "FAILED test_it.py" in line)
    assert failed < next(index for index, line in enumerate(lines) if "= FAILURES =" in line)
    assert " of 5, " in lines[failed]
    rows = [line.split() for line in lines]
    assert ["passed", "failed", "skipped", "seconds"] in rows
    assert [row[:4] for row in rows if row[:1] in (["broker"], ["fast"], ["processes"])] == [
        ["broker", "1", "0", "0"],
        ["fast", "1", "1", "1"],
        ["processes", "1", "0", "0"],
    ]
    longest = lines.index(next(line for line in lines if "longest files" in line))
    assert re.fullmatch(r" +\d+  test_it\.py", lines[longest + 1])
    busy = [line for line in lines if line.startswith("busy: ")]
    assert len(busy) == (busy_seconds() > 0)
    assert all(re.fullmatch(r"busy: \d+\.\d\d of \d+ cores", line) for line in busy)
    assert lines[-1].startswith("1 failed, 3 passed, 1 skipped in ")


def test_what_runs_is_told_before_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(every=0.001)
    session: Any = SimpleNamespace(testscollected=7)
    progress.pytest_sessionstart(session)
    progress.pytest_runtest_logstart("test_it.py::test_long")
    told = ""
    while "running" not in told:
        time.sleep(0.001)
        told += capsys.readouterr().out
    progress.pytest_sessionfinish()
    line = r"\[   0 of 7, \d+:\d\d\] running: test_it\.py::test_long \(\d+ s\)\n"
    assert re.search(line, told)


def test_files_that_share_a_start_are_there_and_handed_out_together() -> None:
    config: Any = SimpleNamespace(getvalue=lambda name: ["popen"])
    for files in spread.SHARED.values():
        assert all((ROOT / file).is_file() for file in files)
        scheduler = spread.pytest_xdist_make_scheduler(config, None)
        assert len({scheduler._split_scope(f"{file}::test[a::b]") for file in files}) == 1
    assert scheduler._split_scope("tests/test_progress.py::test") == "tests/test_progress.py"
