"""The packages are layers: who may import whom is a contract in pyproject.toml, and it holds."""

import re
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


ARROWS = [
    ("topology.model.names", "topology.engine.state.positions", "The rooms of topology"),
    ("topology.sequencer.ring", "topology.sequencer.run", "No circles"),
    ("stores.db.clock", "stores.sinks.schema", "The rooms of stores"),
    ("stores.sinks.schema", "topology.engine.state.rows", "Stores know values"),
    ("stores.sinks.schema", "topology.sequencer.ring", "Of the stores, only the inbox"),
    ("topology.engine.state.rows", "sequitur.local.home", "Nothing that is imported"),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Contract → why it is broken, in a checkout to which all these arrows were added."""
    folder = tmp_path_factory.mktemp("checkout")
    for each in ("topology", "stores", "apps"):
        shutil.copytree(ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for module, arrow, _ in ARROWS:
        with (folder / f"{module.replace('.', '/')}.py").open("a") as file:
            file.write(f"\nimport {arrow}  # an arrow\n")
    status, words = lint(folder)
    assert status == 1, words
    _, _, report = words.partition("Broken contracts")
    _, *parts = re.split(r"^([^-\n].*)\n-+$", report, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(("module", "arrow", "contract"), ARROWS)
def test_an_arrow_that_is_added_is_found(
    module: str, arrow: str, contract: str, broken: dict[str, str]
) -> None:
    (why,) = [words for name, words in broken.items() if name.startswith(contract)]
    # Siblings of a circle are told by their last names.
    names = (module, arrow) if "circle" not in contract else (_last(module), _last(arrow))
    assert re.search(rf"- +{re.escape(' -> '.join(names))} \(", why), why


def _last(module: str) -> str:
    return "." + module.rpartition(".")[2]
