"""The pages: their Python runs, their links lead somewhere, their commands and settings exist."""

import os
import re
import shlex
import unicodedata
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import Any

import click
import pytest
from faust.cli.faust import cli

from sequitur.cli.main import sequitur
from stores.sinks import dead_limit as dead
from topology import Topology
from topology.faust import Settings
from topology.faust import compile as compile_topology

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

FACES = {
    "stores.inbox",
    "stores.outbox",
    "stores.replay.recovering",
    "stores.sinks",
    "stores.sinks.contract",
    "stores.sinks.toolbox",
    "stores.sites",
    "stores.two_phase",
    "stores.units",
    "stores.view_state",
    "stores.view_state.contract",
    "topology",
    "topology.faust",
    "topology.routing",
    "topology.spark",
    "topology.testing",
    "topology.verbs",
}
"""What a user imports from; `contract` is apart, since it needs pytest."""

COMMANDS = {"home", "complete", "rabbitmq", "replay_token"}
"""What commands take from variables: where they keep things, completion, RabbitMQ, a token."""

_BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]+\]\((?P<target>[^)\s]+)\)")
_KINDS = {"python", "bash", "json", "text", "toml", "mermaid"}
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
_OTHERS = {"export", "source", "sqlite3"}


@pytest.fixture(params=PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    """(kind, text, line number of its fence) of the fenced blocks."""
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        yield found["kind"], found["text"], text.count("\n", 0, found.start()) + 1


def python_of(page: Path) -> list[CodeType]:
    """The page's Python, with the line numbers that it has on the page."""
    return [
        compile("\n" * line + text, str(page), "exec")
        for kind, text, line in blocks(page)
        if kind == "python"
    ]


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command, without what it sets in its environment."""
    for kind, text, _ in blocks(page):
        for line in text.replace("\\\n", " ").splitlines() if kind == "bash" else ():
            words = shlex.split(line, comments=True)
            while words and _ASSIGNMENT.fullmatch(words[0]):
                del words[0]
            if words:
                yield words


def options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def anchors(page: Path) -> set[str]:
    """What a link into the page may name: its headings as they become ids."""
    prose = _BLOCK.sub("", page.read_text())
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    kept = ("".join(c for c in t.lower() if c in " -_" or c.isalnum()) for t in titles)
    return {title.strip().replace(" ", "-") for title in kept}


def source_of(module: str) -> str:
    """The text of a module, or of what runs as a package, and of who shares its options."""
    text = text_of(f"{module}.__main__" if is_package(module) else module)
    shared = re.findall(r"^from (soak\.rounds) import", text, re.MULTILINE)
    return "\n".join([text, *map(text_of, shared)])


def text_of(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    return Path(spec.origin).read_text()


def is_package(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def program_of(script: Path) -> list[str]:
    """What a script of ours ends in: `-m` and a module, or `sequitur` and a command."""
    return str(re.findall(r"(?:/|\s)(-m [\w.]+|sequitur \w+)", script.read_text())[-1]).split()


def test_every_block_says_what_it_is(page: Path) -> None:
    assert {kind for kind, _, _ in blocks(page)} <= _KINDS
    assert len(re.findall(r"^```", page.read_text(), re.MULTILINE)) == 2 * len(list(blocks(page)))


def test_all_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SEQUITUR_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for code in python_of(page):
        exec(code, names)
    for name, test in list(names.items()):
        if name.startswith("test_"):
            test()


def test_a_user_imports_from_public_faces_only(page: Path) -> None:
    found = {
        name
        for kind, text, _ in blocks(page)
        if kind == "python"
        for name in re.findall(r"^\s*(?:from|import) ((?:topology|stores)[\w.]*)", text, re.M)
    }
    assert found <= FACES, f"{page.name} imports {sorted(found - FACES)}"


def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(
        r"(?<![\w/.-])((?:topology|stores|apps|tests|scripts)/[\w/.-]*\w/?)", page.read_text()
    )
    missing = [each for each in named if not (ROOT / each.rstrip(".")).exists()]
    assert not missing


def test_the_rooms_of_the_architecture_are_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    for house in ("topology", "stores"):
        rows = re.search(rf"\| `{house}/` \| contents \|\n\|[-|]+\|\n((?:\|.*\n)+)", text)
        assert rows is not None
        rooms = set()
        for row in rows[1].splitlines():
            room, *inside = re.findall(r"`([\w/]+/|\w+\.py)`", row)
            assert (ROOT / house / room).exists(), room
            if room.endswith(".py"):
                continue
            rooms.add(room.rstrip("/"))
            for each in inside:
                assert (ROOT / house / room / each).exists(), (room, each)
        assert rooms == {path.parent.name for path in (ROOT / house).glob("*/__init__.py")}


def test_the_walks_of_the_architecture_lead_to_files_that_are_there() -> None:
    page = ROOT / "docs/architecture.md"
    walks = [text for kind, text, _ in blocks(page) if kind == "mermaid"]
    assert len(walks) == 2
    named = {each for text in walks for each in re.findall(r"[\w/]+(?:\.py|/(?=[\s:]))", text)}
    assert len(named) > 15
    houses = (ROOT, ROOT / "topology")
    assert [each for each in named if not any((house / each).exists() for house in houses)] == []


def test_the_readme_s_topology_has_some_twenty_lines() -> None:
    first = next(text for kind, text, _ in blocks(PAGES[0]) if kind == "python")
    assert "Topology(" in first
    assert len(first.splitlines()) <= 25


def test_links_lead_somewhere(page: Path) -> None:
    prose = _BLOCK.sub("", page.read_text())
    for target in (found["target"] for found in _LINK.finditer(prose)):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.is_file(), target
        assert path.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(path), target


def test_the_readme_leads_to_every_page() -> None:
    linked, new = {PAGES[0]}, {PAGES[0]}
    while new:
        targets = (t for at in new for t in _LINK.findall(at.read_text()))
        found = {(ROOT / "docs" / Path(t.partition("#")[0]).name).resolve() for t in targets}
        new = {path for path in found if path in PAGES} - linked
        linked |= new
    assert linked == set(PAGES)


def test_commands_exist(page: Path) -> None:
    compile_topology(Topology("any"))  # which adds its own to Faust's
    for words in commands(page):
        command, *rest = words
        if command.startswith("scripts/"):
            assert os.access(ROOT / command, os.X_OK), command
            if (program := program_of(ROOT / command))[0] == "sequitur":
                assert_sequitur([*program[1:], *rest])
            else:
                assert_options(rest, source_of(program[-1]))
        elif command == "faust":
            assert rest[0] == "-A"
            assert_app(page, rest[1])
            assert rest[2] in cli.commands, words
            params = cli.commands[rest[2]].params
            known = {name for p in params for name in (*p.opts, *p.secondary_opts)}
            assert options(rest[3:]) <= known, words
        elif command == "sequitur":
            assert_sequitur(rest)
            for option, place in pairwise(rest):
                if option in ("--topology", "--app"):
                    assert_app(page, place.partition(":")[0])
        elif command == "python":
            assert rest[0] == "-m", words
            assert_options(rest, source_of(rest[1]))
        else:
            assert command in _OTHERS, words


def assert_sequitur(words: list[str]) -> None:
    command: click.Command | None = sequitur
    rest = iter(words)
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), next(rest))
    assert command is not None, words
    assert options(words) <= {name for p in command.params for name in (*p.opts, *p.secondary_opts)}


def assert_options(words: list[str], source: str) -> None:
    for option in options(words):
        assert f'"{option}"' in source, option


def assert_app(page: Path, module: str) -> None:
    """A module of ours, or the one that the README has the reader write."""
    if module == "shop":
        assert "`shop.py`" in PAGES[0].read_text()
    else:
        assert find_spec(module) is not None, module


def test_settings_exist(page: Path) -> None:
    """The worker's and the read stores', but for those named after sources or databases."""
    named = set(re.findall(r"SEQUITUR_(?!INSPECTOR_|DATABASE_)([A-Z_]+)", page.read_text()))
    stores = {name.removeprefix("SEQUITUR_").lower() for name in (dead.ROWS, dead.DAYS)}
    assert {name.lower() for name in named} <= set(Settings.model_fields) | stores | COMMANDS


def test_every_setting_is_explained() -> None:
    text = (ROOT / "docs" / "running.md").read_text()
    for name, field in Settings.model_fields.items():
        row = re.search(rf"^\| `SEQUITUR_{name.upper()}` \| (.+?) \|", text, re.MULTILINE)
        assert row is not None, name
        if field.default is not None:
            unit = "s" if name.endswith(("timeout", "ahead")) else ""
            shown = f"{field.default:g}" if isinstance(field.default, float) else field.default
            if isinstance(field.default, bool):
                shown = str(field.default).lower()
            assert row[1] == f"`{shown}{unit}`"


def test_nothing_names_a_machine(page: Path) -> None:
    text = unicodedata.normalize("NFKC", page.read_text())
    assert not re.search(r"(?<![\w.])/(work|tmp|root|home|Users)\b", text)
    assert not re.search(r"https?://(?!127\.0\.0\.1|localhost)", text)
    assert not re.search(r"\b(pypi|pythonhosted|maven|artifactory|nexus)\.\w", text, re.IGNORECASE)


def test_no_page_has_what_a_merge_left(page: Path) -> None:
    assert not re.search(r"^(<{7}|={7}|>{7})( |$)", page.read_text(), re.MULTILINE)
