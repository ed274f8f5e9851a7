"""The command `sequitur`: help, mistakes, completion, and what it imports."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sequitur.cli.main import COMMANDS, main, sequitur
from topology.model.extras import pip_install


def paths(command: click.Command = sequitur, words: tuple[str, ...] = ()) -> Iterator[list[str]]:
    """The words of every command and group."""
    yield list(words)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from paths(found, (*words, name))


def _said(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a command that cannot be done."""
    capsys.readouterr()
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


@pytest.mark.parametrize("words", list(paths()), ids=" ".join)
def test_help_fits_a_screen(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_name_that_it_is_found_by(name: str) -> None:
    command = sequitur.get_command(click.Context(sequitur), name)
    assert command is not None
    assert command.name == name


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from sequitur.cli.main import main; main(['--help']);"
        "print(sorted({'aiohttp', 'faust', 'pyspark', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["materialise"], "No such command 'materialise'. Did you mean materialize?"),
        (["relay", "kafak"], "No such command 'kafak'. Did you mean kafka?"),
        (["xyz"], "No such command 'xyz'."),
        (["materialize", "--topicz", "a"], "--topics"),
        (["materialize", "--topics", "a", "--checkpoint", "c"], "--read-store"),
        (["materialize", "--checkpoint", "c", "--read-store", "sqlite:///read.db"],
         "--topology or --topics"),
        (["live", "--checkpoint", "c"], "--topology"),
        (["rebuild", "drop"], "--read-store"),
        (["relay", "kafka", "--database", "sqlite:///x", "--lease", "0"], "above 0"),
        (["dead-records", "remove", "--read-store", "sqlite:///read.db", "--older-than", "30"],
         "30s, 15m, 4h or 30d"),
        (["two-phase", "force", "gid", "--participant", "a=sqlite://"], "--commit or --rollback"),
        (["relay", "status", "--database", "sqlite://", "more"], "words without an option"),
        (["broker", "run", "--port", "many"], "--port"),
        (["new"], "NAME"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = _said(words, capsys)
    assert line.startswith("sequitur")
    assert ": error: " in line
    assert says in line


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("zsuch:x", "there is no module 'zsuch'"),
        ("zraises:x", "importing 'zraises' failed"),
        ("zempty:x", "module 'zempty' has no 'x'"),
    ],
)
@pytest.mark.parametrize(
    "command", [["materialize", "--read-store", "sqlite:///read.db"], ["live"]]
)
def test_a_wrong_module_is_one_line(
    command: list[str],
    place: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "zraises.py").write_text("raise RuntimeError('as it is')\n")
    (tmp_path / "zempty.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main([*command, "--topology", place, "--checkpoint", str(tmp_path / "c")]) == 2
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert says in record.getMessage()
    assert "\n" not in record.getMessage()
    assert record.exc_info is None


def test_a_command_whose_package_is_not_installed_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("sequitur.demo")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert pip_install("demo") in _said(["demo"], capsys)


@pytest.mark.integration
def test_a_shell_completes_commands_and_options() -> None:
    def completed(words: str, at: int) -> str:
        environment = os.environ | {
            "_SEQUITUR_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(at),
        }
        command = [sys.executable, "-m", "sequitur"]
        return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

    assert completed("sequitur mat", 1).split() == ["plain,materialize"]
    assert "plain,--checkpoint" in completed("sequitur materialize --che", 2)
