"""`sequitur new`: a project is written where there is none, under a name that can be imported."""

from pathlib import Path

import pytest

from sequitur.cli.main import main


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


@pytest.mark.parametrize("name", ["json", "topology", "pytest", "class", "1shop", "a b", "a/b", ""])
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
