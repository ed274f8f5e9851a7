import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from checkout import setup
from sequitur.local.home import ROOT


@pytest.fixture(autouse=True)
def _no_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Who runs the tests may have named one for the set-up.
    monkeypatch.delenv("PYTHON", raising=False)


def test_a_second_set_up_has_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Never the real one: where it is not set up for these inputs, a test would install packages.
    def set_up() -> None:
        raise AssertionError("it sets up again")

    stamp = tmp_path / "setup.json"
    stamp.write_text(f'{{"key": "{setup._key()}"}}')
    monkeypatch.setattr(setup, "_STAMP", stamp)
    monkeypatch.setattr(setup, "_set_up", set_up)
    assert setup.main([]) == 0
    assert capsys.readouterr().out.startswith("Everything is set up in ")


def test_a_python_that_does_not_fit_is_refused_with_a_remedy() -> None:
    done = subprocess.run(
        [ROOT / "scripts" / "setup"],
        env=os.environ | {"PYTHON": "/no/such/python"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "PYTHON=/no/such/python is not a Python 3.11 or newer\n  Remedy:" in done.stderr


@pytest.mark.parametrize(
    ("there", "taken"),
    [
        ({"python3": (3, 9), "python3.14": (3, 14)}, "python3.14"),
        ({"python3": (3, 14), "python3.11": (3, 11)}, "python3"),
        ({"python3": (3, 15), "python3.12": (3, 12)}, "python3.12"),
        ({"python3": (3, 15)}, "python3"),
        ({"python3.10": (3, 10), "python3": (3, 10)}, None),
    ],
)
def test_the_python_is_one_that_all_packages_have_files_for_where_there_is_one(
    there: dict[str, tuple[int, int]], taken: str | None, tmp_path: Path
) -> None:
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    for name, version in there.items():
        # Asked with -c it answers as one of that version, else it says who it is.
        asked = f"exec {sys.executable} -c 'import sys; sys.version_info = {version}\n'\"$2\""
        command = tmp_path / name
        command.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then {asked}; fi\necho {name} "$@"\n')
        command.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", ROOT / "scripts" / "setup"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == (f"{taken} -m checkout.setup\n" if taken else "")
    assert ("no Python 3.11 or newer" in done.stderr) == (taken is None)


def test_packages_whose_installation_was_killed_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "VENV", tmp_path)
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("whole", "half"):
        (packages / f"{name}-1.dist-info").mkdir(parents=True)
        (packages / f"{name}-1.dist-info" / "METADATA").touch()
    (packages / "whole-1.dist-info" / "RECORD").touch()
    assert [folder.name for folder in setup._half_made_packages()] == ["half-1.dist-info"]


def test_an_environment_that_was_moved_or_half_made_is_not_taken_for_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = tmp_path / ".complete"
    monkeypatch.setattr(setup, "VENV", tmp_path)
    monkeypatch.setattr(setup, "_COMPLETE", complete)
    assert not setup._environment_complete()
    complete.write_text("/elsewhere")
    assert not setup._environment_complete()
    complete.write_text(str(tmp_path))
    assert setup._environment_complete()


def test_an_environment_of_another_python_than_the_one_named_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = tmp_path / ".complete"
    complete.write_text(f"{tmp_path}\n{setup._maker()}")
    monkeypatch.setattr(setup, "VENV", tmp_path)
    monkeypatch.setattr(setup, "_COMPLETE", complete)
    monkeypatch.setenv("PYTHON", "python3.12")
    # What runs the set-up is what was named, wherever the environment's own link leads.
    assert setup._environment_complete()
    complete.write_text(f"{tmp_path}\n/opt/another/bin/python3.12")
    assert not setup._environment_complete()
    monkeypatch.delenv("PYTHON")
    assert setup._environment_complete(), "nobody named one"


def test_a_stamp_of_other_inputs_or_a_damaged_one_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = tmp_path / "setup.json"
    monkeypatch.setattr(setup, "_STAMP", stamp)
    assert not setup._ready()
    for text in ("", "[]", "{}", '{"key": "of another pyproject.toml"}'):
        stamp.write_text(text)
        assert not setup._ready()
    stamp.write_text(f'{{"key": "{setup._key()}"}}')
    assert setup._ready()


LOCKS = ("constraints.txt", "constraints-build.txt")


def locked(name: str) -> dict[str, list[str]]:
    """Package with its version → its hashes."""
    found: dict[str, list[str]] = {}
    for entry in (ROOT / name).read_text().replace("\\\n", " ").splitlines():
        package, *hashes = entry.split(" --hash=")
        found[package.split(";")[0].strip()] = [each.strip() for each in hashes]
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_no_package_without_its_version_and_hashes_and_none_says_where_from(name: str) -> None:
    packages = locked(name)
    assert packages
    for package, hashes in packages.items():
        assert re.fullmatch(r"[\w.-]+==[\w.]+", package)
        assert hashes
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes), package


def test_every_declared_package_is_locked_and_so_is_what_builds() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = declared["project"]
    names = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    builds = [*declared["build-system"]["requires"], *declared["dependency-groups"]["build"]]
    for lock, wanted in zip(LOCKS, (names, builds), strict=True):
        there = {entry.split("==")[0] for entry in locked(lock)}
        for each in wanted:
            found = re.match(r"[\w-]+", each)
            assert found is not None
            assert found[0].lower().replace("_", "-") in there | {"sequitur"}, each


def test_nothing_is_installed_without_its_hash_being_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(setup, "VENV", tmp_path)
    monkeypatch.setattr(setup, "LOGS", tmp_path)

    def run(command: list[str], log: Path) -> int:
        asked.append(command)
        return 0

    monkeypatch.setattr(setup, "_run", run)
    setup._install_packages()
    *fetched, project = [command for command in asked if "pip" in command]
    assert [command[-1] for command in fetched] == [*reversed(LOCKS)]
    assert all("--require-hashes" in command for command in fetched)
    assert project[-2:] == ["-e", "."]
    # No isolated build: it would fetch what it builds with, and check nothing.
    assert {"--no-deps", "--no-build-isolation"} <= {*project}
    assert "--no-build-isolation" in fetched[-1]


def test_a_set_up_that_cannot_archive_classes_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "LOGS", tmp_path)
    monkeypatch.setattr(setup, "_run", lambda *_: 1)
    setup._archive_classes()
    assert "not made, so they start later: " in capsys.readouterr().out
