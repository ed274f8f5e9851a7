"""`sequitur new`: a project is written where there is none, under a name that can be imported."""

import ast
import re
import sys
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from sequitur.cli.main import main
from sequitur.local.home import ROOT
from sequitur.new.command import TEMPLATE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_files_that_have_the_name(here: Path) -> None:
    assert main(["new", "Corner-Shop"]) == 0
    files = {file.name: file.read_text() for file in (here / "Corner-Shop").iterdir()}
    assert set(files) == {
        *(".gitignore", "README.md", "compose.yaml", "pyproject.toml"),
        *("corner_shop.py", "test_corner_shop.py"),
    }
    assert not [text for text in files.values() if "{{" in text.replace("{{\n", "")]
    assert "app = compile(corner_shop)" in files["corner_shop.py"]


@pytest.mark.parametrize(
    "name", ["json", "topology", "pytest", "class", "1shop", "a b", "a/b", "", "order-board"]
)
def test_a_name_that_cannot_be_imported_is_refused(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", name]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not list(here.iterdir())


def test_nothing_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "shop").mkdir()
    (here / "shop" / "shop.py").write_text("mine")
    (here / "file").write_text("mine")
    assert main(["new", "shop"]) == 2
    assert main(["new", "shop", "--folder", "file"]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert (here / "shop" / "shop.py").read_text() == "mine"
    assert main(["new", "shop", "--folder", "other"]) == 0
    assert (here / "other" / "shop.py").exists()


def test_only_this_version_is_installed_not_what_the_index_has_of_this_name(here: Path) -> None:
    assert main(["new", "shop"]) == 0
    files = {file.name: file.read_text() for file in (here / "shop").iterdir()}
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["dependencies"] == [f"sequitur[spark]=={version('sequitur')}"]
    wheel = f"pip install 'sequitur-{version('sequitur')}-py3-none-any.whl[spark]' pytest"
    assert wheel in files["README.md"]
    assert not re.search(r"sequitur\[\w+\](?!==)", "".join(files.values()))


def names() -> list[str]:
    """What could be a project's name, of all names in the Python of the template."""
    found = set[str]()
    for file in TEMPLATE.glob("*.py.in"):
        for node in ast.walk(ast.parse(file.read_text().replace("{{name}}", "_"))):
            texts = [getattr(node, each, None) for each in ("id", "name", "arg")]
            found |= {text for text in texts if isinstance(text, str)}
    return sorted(name for name in found if name.islower() and name[0] != "_" and "." not in name)


@pytest.mark.parametrize("name", names())
def test_a_name_of_the_template_is_refused_or_its_project_works(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = main(["new", name, "--folder", "project"])
    if status:
        assert status == 2
        assert not list(here.iterdir())
        return
    monkeypatch.syspath_prepend(str(here / "project"))
    try:
        import_module(f"test_{name}").test_events_are_handled_in_sequence_and_once()
    finally:
        for module in (name, f"test_{name}"):
            sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("place", "name"), [(Path(sys.prefix).parent, "click"), (ROOT, "click"), (ROOT, "sequitur")]
)
def test_an_environment_below_the_working_directory_is_not_its_own(
    place: Path, name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert main(["new", name, "--folder", str(here / "project")]) == 2
    assert not list(here.iterdir())
