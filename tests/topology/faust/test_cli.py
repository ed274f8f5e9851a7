"""The command line of an app: its commands, --json, and what was meant by a name that is wrong."""

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from faust.cli.base import find_app
from faust.cli.faust import cli

from topology.faust.cli.answering import AnsweringCommand
from topology.faust.inspection.named import named

COMMANDS = [
    "audit", "explain a", "gaps", "views", "parked", "commands", "suggest-timeouts", "topics",
    "skip a 4", "redrive a", "unpark a", "drop a", "redrive-dead", "halt v", "resume v", "cancel 1",
]  # fmt: skip


def listed(module: str) -> set[str]:
    """The commands that a command line has without an app."""
    told = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True
    )
    _, _, commands = told.stdout.partition("Commands:\n")
    return {line.split()[0] for line in commands.splitlines() if line[2:3].strip()}


@pytest.mark.integration
def test_what_commands_are_made_of_is_no_command() -> None:
    assert listed("topology.faust") == listed("faust")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a command would be run with, instead of running it."""
    seen: dict[str, Any] = {}

    def run(self: AnsweringCommand) -> None:
        seen.update(self.kwargs, json=self.json)

    monkeypatch.setattr(AnsweringCommand, "__call__", run)
    return seen


find = cache(find_app)  # as `faust` does with its own arguments


def run(*words: str) -> Result:
    find("sequitur.flights")
    return CliRunner().invoke(cli, ["-A", "sequitur.flights", *words])


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_taken_before_and_after_the_command(asked: dict[str, Any], command: str) -> None:
    for words, wanted in (
        (["--json", *command.split()], True),
        ([*command.split(), "--json"], True),
        (command.split(), False),
    ):
        asked.clear()
        run(*words)
        assert asked["json"] is wanted, words


@pytest.mark.parametrize("command", COMMANDS)
def test_a_screen_holds_the_help_of_a_command(command: str) -> None:
    told = run(command.split()[0], "--help")
    assert told.exit_code == 0
    assert len(told.output.splitlines()) <= 24


@pytest.mark.parametrize(
    ("words", "meant"), [("gasp", "'gaps'"), ("gaps --vew x", "--view"), ("redive a", "'redrive'")]
)
def test_a_name_that_is_wrong_brings_up_the_one_that_was_meant(words: str, meant: str) -> None:
    told = run(*words.split())
    assert told.exit_code == 2
    (line,) = [line for line in told.output.splitlines() if line.startswith("Error:")]
    assert meant in line


@pytest.mark.parametrize("option", ["--datadir", "-D"])
def test_the_folder_that_faust_would_have_is_refused(option: str, tmp_path: Path) -> None:
    told = run(option, str(tmp_path), "tables")
    assert told.exit_code == 2
    (line,) = [line for line in told.output.splitlines() if line.startswith("Error:")]
    assert "set SEQUITUR_DATADIR" in line


def test_a_view_that_is_misspelt_brings_up_the_one_that_was_meant() -> None:
    with pytest.raises(KeyError, match=r"did you mean 'orders'\?"):
        named("view", "ordesr", {"orders": 1, "stock": 2}, "shop")
