"""Whatever a router's file has: a command that reads it says in one line what is wrong in it."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sequitur.cli.outcome import MISTAKES
from sequitur.route import loading
from sequitur.route.loading import load_rules, load_units
from sequitur.route.replay_way import RouterWay
from sequitur.route.router_file import address, load_router, units_control
from sequitur.route.transports import open_transports
from tests.only_checked import only_checked
from topology.model.errors import DeclarationError

UNITS = """
[router]
name = "shop"
site = "berlin"
[units]
ledger = "sqlite:///FOLDER/ledger.db"
segments = "segments"
errors = { transport = "disk", destination = "errors", attempts = 1, parks = true }
lease = "2s"
backlog = 1000
window = 5.0
control = "kafka"
batch = { count = 40, idle = 0.002, size = 1000, seconds = 1.0 }
[transport.disk]
kind = "files"
folder = "."
[transport.kafka]
kind = "kafka"
broker = "127.0.0.1:1"
[transport.sql]
kind = "sql"
database = "sqlite:///FOLDER/m.db"
[transport.rabbit]
kind = "rabbitmq"
url = "amqp://127.0.0.1:1"
heartbeat = 10
[transport.stream]
kind = "rabbitmq-stream"
url = "amqp://127.0.0.1:1"
port = 5552
[source.lines]
transport = "disk"
place = "lines.txt"
rules = ["even"]
[rule.even]
when = { key = "even", equals = true }
to = "some"
[destination.some]
transport = "rabbit"
address = "even-ones"
"""
KAFKA = """
[router]
name = "shop"
broker = "127.0.0.1:1"
partitions = 4
trails = "log"
trail_function = "builtins:dict"
attempts = 2
parks = true
[source.in]
transport = "kafka"
rules = ["all"]
[rule.all]
to = "out"
[destination.out]
address = "there"
[transport.kafka]
kind = "kafka"
[units]
control = "kafka"
"""
LOADERS: dict[str, Callable[[Path], Any]] = {
    "rules": load_rules,
    "units": load_units,
    "router": lambda path: load_router(path).topology(),
    "control": units_control,
    "address": lambda path: address(path, "out"),
    "replay": lambda path: RouterWay(path, lambda _: ()),
}
ODD: list[Any] = [7, -1.5, float("inf"), "../x", ["a"], {"x": 1}]


def places(table: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for name, value in [*table.items()]:
        yield table, name
        if isinstance(value, dict):
            yield from places(value)


@pytest.mark.parametrize(
    ("text", "loaders"),
    [(UNITS, ["rules", "units", "replay"]), (KAFKA, [*LOADERS])],
    ids=["units", "kafka"],
)
def test_no_value_in_a_file_ends_a_command_but_by_a_mistake_that_is_named(
    text: str, loaders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, data = tmp_path / "router.toml", tomllib.loads(text.replace("FOLDER", str(tmp_path)))
    file.touch()
    monkeypatch.setattr(loading, "read_toml", lambda _: data)
    refused = 0
    for table, name in places(data):
        before = table[name]
        for odd in ODD:
            table[name] = odd
            for loader in loaders:
                try:
                    made = LOADERS[loader](file)
                    if loader == "units":
                        made.engine.dispose()
                except (*MISTAKES, ValueError) as error:
                    refused += 1
                    assert str(error)  # noqa: PT017
        table[name] = before
    assert refused > 100


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('lease = "2s"', "lease = 0", "units: lease: .*greater than 0"),
        ('lease = "2s"', 'lease = "soon"', "units: lease: .*number and its unit"),
        ("window = 5.0", "window = -1", "units: window"),
        ("backlog = 1000", "backlog = 0", "units: backlog"),
        ("attempts = 1", "attempts = 0", "units: errors: .*1 attempt or more"),
        ("attempts = 1", 'attempts = "twice"', "units: errors.attempts"),
        ("parks = true", "park = true", "units: errors.park"),
        ("idle = 0.002", "idle = nan", "units: batch.idle: .*equal to 0"),
        ("heartbeat = 10", "heartbeat = 0", "transport 'rabbit': heartbeat"),
        ("port = 5552", "port = 70000", "transport 'stream': port"),
        ('name = "shop"', 'name = "../shop"', "router: name '../shop'"),
        ('transport = "rabbit"', 'transport = "a/b"', "'a/b': routers, topics and transports"),
        ('"lines.txt"', "7", "source 'lines': place = 7"),
        ('site = "berlin"', 'sight = "berlin"', "router: it has no 'sight' .did you mean 'site'"),
    ],
)
def test_what_means_nothing_is_refused_when_the_file_is_read(
    old: str, new: str, reason: str, tmp_path: Path
) -> None:
    text, file = UNITS.replace("FOLDER", str(tmp_path)), tmp_path / "router.toml"
    assert old in text
    file.write_text(text.replace(old, new) + '[transport."a/b"]\nkind = "files"\n')
    with pytest.raises(DeclarationError, match=f"router.toml: .*{reason}"):
        load_units(file)


own_transport = only_checked("folder: Missing")


def test_a_transport_s_annotations_may_name_what_only_a_type_checker_imports() -> None:
    table = {"kind": f"{__name__}:own_transport", "folder": "here"}
    found: dict[str, Any] = {**open_transports({"mine": table}, Path())}
    assert found == {"mine": {"folder": "here"}}
    with pytest.raises(DeclarationError, match=r"transport 'mine': .*'fold'"):
        open_transports({"mine": table | {"fold": 1}}, Path())


def test_rules_that_no_router_runs_may_route_what_is_recovered(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[source.in]\nrules = ["r"]\n[rule.r]\nto = "out"\n[destination.out]\n')
    assert RouterWay(file, lambda _: ()).begin("r").startswith("those of rules.toml")
