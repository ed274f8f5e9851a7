"""The packages are layers: who may import whom is a contract in pyproject.toml, and it holds."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sequitur.local.home import ROOT


def lint(folder: Path) -> tuple[int, str]:
    """import-linter's exit status and words on a checkout."""
    code = "from importlinter.cli import lint_imports_command as lint; lint()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "--no-cache", "--no-logo"],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{folder}/apps", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_no_room_imports_what_it_may_not() -> None:
    status, words = lint(ROOT)
    assert status == 0, words
    assert "0 broken" in words


@pytest.mark.parametrize(
    ("module", "arrow", "broken"),
    [
        ("topology/model/names.py", "topology.engine.state.positions", "The rooms of topology"),
        ("topology/sequencer/ring.py", "topology.sequencer.run", "No circles"),
        ("stores/db/clock.py", "stores.sinks.schema", "The rooms of stores"),
        ("stores/sinks/schema.py", "topology.engine.state.rows", "Stores know values"),
        ("stores/sinks/schema.py", "topology.sequencer.ring", "Of the stores, only the inbox"),
        ("topology/engine/state/rows.py", "sequitur.local.home", "Nothing that is imported"),
    ],
)
def test_an_arrow_that_is_added_is_found(
    module: str, arrow: str, broken: str, tmp_path: Path
) -> None:
    for each in ("topology", "stores", "apps"):
        shutil.copytree(ROOT / each, tmp_path / each, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / module).open("a") as file:
        file.write(f"\nimport {arrow}  # an arrow\n")
    status, words = lint(tmp_path)
    assert status == 1, words
    assert any(line.startswith(broken) and "BROKEN" in line for line in words.splitlines()), words
