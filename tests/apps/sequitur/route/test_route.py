"""`sequitur route`: rules are checked, explained, tried and compared."""

import io
import sqlite3
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from sequitur.cli.main import main
from sequitur.route.loading import load_rules, reload_rules
from tests.conftest import BrokerAddress
from topology.model.errors import DeclarationError
from topology.model.event import Message, Record
from topology.routing import Load, RuleSet

RULES = """
[source.TOPIC]
module = "flight"
rules = ["maker", "late"]
[module.flight]
format = "json"
keys = { tail = "tail", delay = "delay" }
[keymap.makers]
KEYMAP
[rule.maker]
key = "tail"
keymap = "makers"
outbound = { boeing = "fleet" }
[rule.late]
when = { key = "delay", at_least = 60 }
to = "late"
[destination.fleet]
[destination.late]
"""
LINES = b"""\
{"tail": "N1", "delay": 70}
{"tail": "N9", "delay": 0}

not JSON
{"tail": "N1", "delay": 1}
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "makers.csv").write_text("tail,maker\nN1,boeing\n")
    return written(tmp_path, 'file = "makers.csv"')


def written(folder: Path, keymap: str, topic: str = "flights", name: str = "rules.toml") -> Path:
    path = folder / name
    path.write_text(RULES.replace("KEYMAP", keymap).replace("TOPIC", topic))
    return path


def makers() -> dict[str, str]:
    """A keymap that is a function."""
    return {"N1": "boeing"}


def test_a_keymap_is_a_file_a_query_a_function_or_in_the_rules(tmp_path: Path) -> None:
    (tmp_path / "makers.csv").write_text("tail,maker\nN1,boeing\n")
    (tmp_path / "makers.json").write_text('{"N1": "boeing"}')
    with sqlite3.connect(tmp_path / "planes.sqlite") as database:
        database.execute("CREATE TABLE planes (tail, maker)")
        database.execute("INSERT INTO planes VALUES ('N1', 'boeing')")
    (tmp_path / "url").write_text(f"sqlite:///{tmp_path}/planes.sqlite\n")
    places = (
        'file = "makers.csv"',
        'file = "makers.json"',
        f'query = "SELECT tail, maker FROM planes"\ndatabase = "@{tmp_path}/url"',
        f'function = "{__name__}:makers"',
        'entries = { N1 = "boeing" }',
    )
    digests = set()
    for place in places:
        rules = load_rules(written(tmp_path, place))
        message = Record("flights", 0, 0, None, b'{"tail": "N1", "delay": 1}')
        assert rules.route(message).destinations == ("fleet",)
        digests.add(rules.digest)
    assert len(digests) == 1


def fleets() -> dict[str, object]:
    """An outbound table that is a function."""
    return {"boeing": {"to": ["fleet"], "then": ["late"]}}


def test_an_outbound_table_is_a_file_a_query_or_a_function_too(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "fleets.sqlite") as database:
        database.execute("CREATE TABLE fleets (maker, destination)")
        database.execute("INSERT INTO fleets VALUES ('boeing', 'fleet'), ('boeing', 'late')")
    (tmp_path / "fleets.csv").write_text("maker,destination\nboeing,fleet\nboeing,late\n")
    (tmp_path / "fleets.json").write_text('{"boeing": ["fleet", "late"]}')
    query = f'database = "sqlite:///{tmp_path}/fleets.sqlite", query = "SELECT * FROM fleets"'
    message = Record("flights", 0, 0, None, b'{"tail": "N1", "delay": 70}')

    def load_with(outbound: str) -> RuleSet:
        path = written(tmp_path, 'entries = { N1 = "boeing" }')
        path.write_text(path.read_text().replace('{ boeing = "fleet" }', outbound))
        return load_rules(path)

    for place in ('file = "fleets.csv"', 'file = "fleets.json"', query):
        for outbound in (f"{{ from = {{ {place} }} }}", f'"o"\n[outbound]\no.from = {{ {place} }}'):
            rules = load_with(outbound)
            assert rules.route(message).destinations == ("fleet", "late")
    function = f'function = "{__name__}:fleets"'
    made = load_with(f'{{ airbus = "late", from = {{ {function} }} }}')
    assert made.route(message).destinations == ("fleet", "late")
    with pytest.raises(DeclarationError, match="tag 'boeing' is there, and in `from`"):
        load_with(f'{{ boeing = "late", from = {{ {function} }} }}')
    (tmp_path / "fleets.csv").write_text("maker,destination,more\nboeing,fleet,late\n")
    with pytest.raises(DeclarationError, match="a row has a tag and a destination"):
        load_with('{ from = { file = "fleets.csv" } }')


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ('file = "makers.csv"\nfunction = "a:b"', "give one of"),
        ('query = "SELECT 1"', "belong together"),
        ('file = "makers.csv"\ndatabase = "sqlite://"', "belong together"),
        ("file = 3", "give a text"),
        ('function = "no.such:thing"', "no module 'no'"),
        ("", "has no entries"),
    ],
)
def test_a_wrong_keymap_is_named(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "makers.csv").write_text("tail,maker\nN1,boeing\n")
    with pytest.raises(DeclarationError, match=f"rules.toml: .*{reason}"):
        load_rules(written(tmp_path, place))


def test_a_row_with_null_is_refused(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"sqlite:///{tmp_path}/planes.sqlite")
    place = f'query = "SELECT 1, NULL"\ndatabase = "@{tmp_path}/url"'
    with pytest.raises(DeclarationError, match="a row has NULL"):
        load_rules(written(tmp_path, place))


def test_rules_are_checked(
    rules: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["route", "check", str(rules)]) == 0
    assert "1 source, 2 rules, 2 destinations; digest " in capsys.readouterr().out
    rules.write_text(rules.read_text().replace('keymap = "makers"', 'keymap = "maker"'))
    assert main(["route", "check", str(rules)]) == 2
    assert "did you mean 'makers'" in caplog.text


def test_a_message_is_explained(
    rules: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = tmp_path / "message.json"
    message.write_bytes(LINES.splitlines()[0])
    assert main(["route", "explain", str(rules), str(message)]) == 0
    said = capsys.readouterr().out
    assert "to fleet, late (rules 1)" in said
    assert "rule late fired" in said
    given = SimpleNamespace(buffer=io.BytesIO(b"not JSON"))
    monkeypatch.setattr("sys.stdin", given)
    assert main(["route", "explain", str(rules), "-", "--json"]) == 1
    assert orjson.loads(capsys.readouterr().out)["outcome"] == "failed"
    assert main(["route", "explain", str(rules)]) == 2
    assert main(["route", "explain", str(rules), "--at", "flights/x/1"]) == 2


def test_a_dry_run_shows_where_each_line_would_go(
    rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "messages"
    file.write_bytes(LINES)
    assert main(["route", "dry-run", str(rules), str(file)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[1].split() == ["1", "fleet,", "late"]
    assert said[2].split() == ["2", "nowhere"]
    assert said[3].split()[:2] == ["4", "failed:"]
    assert {tuple(line.split()) for line in said[-4:]} == {
        ("2", "fleet"), ("1", "late"), ("1", "nowhere"), ("1", "failed"),
    }  # fmt: skip


def test_rules_are_compared_before_they_are_turned_on(
    rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new = tmp_path / "messages", tmp_path / "new.toml"
    file.write_bytes(LINES)
    new.write_text(rules.read_text().replace("at_least = 60", "at_least = 1"))
    assert main(["route", "compare", str(rules), str(rules), "--file", str(file)]) == 0
    assert main(["route", "compare", str(rules), str(new), "--file", str(file)]) == 1
    said = capsys.readouterr().out
    assert "1 of 4 messages would go elsewhere" in said
    assert "1: fleet → fleet, late" in said


def refuse(content: bytes, message: Message) -> bytes:
    """A transformation that fails."""
    raise ValueError("no such column")


def test_a_message_that_cannot_be_made_for_its_destination_fails_in_each_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, old, new = (tmp_path / name for name in ("messages", "old.toml", "new.toml"))
    file.write_bytes(b'{"amount": 2000}\n')
    old.write_text(
        '[source.orders]\nrules = ["large"]\n[rule.large]\nto = "large"\n[destination.large]\n'
    )
    new.write_text(
        f'{old.read_text()}format = "csv"\n'
        f'[transformation.csv]\nreads = "json"\nwrites = "csv"\nfunction = "{__name__}:refuse"\n'
    )
    failed = "transformation 'csv' failed: ValueError: no such column"
    for words in (["explain", str(new)], ["dry-run", str(new)], ["compare", str(old), str(new)]):
        given = ["--file"] if words[0] == "compare" else []
        assert main(["route", *words, *given, str(file)]) == 1
        assert failed in (said := capsys.readouterr().out)
    assert f"1: large → failed ({failed})" in said
    assert "rule large fired" in said
    assert main(["route", "compare", str(new), str(new), "--file", str(file)]) == 0
    assert "1 fail by both" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "given", "asked"),
    [
        ('[router]\nbroker = "own:1"', [], "own:1"),
        ('[router]\nbroker = "own:1"', ["--broker", "other:2"], "other:2"),
        ('[transport.kafka]\nkind = "kafka"\nbroker = "own:1"', [], "own:1"),
        ('[transport.kafka]\nkind = "kafka"\nbroker = "own:1"', ["--broker", "other:2"], "other:2"),
        ('[transport.disk]\nkind = "files"', [], "environment:3"),
        ("", [], "environment:3"),
    ],
)
def test_messages_are_looked_for_in_the_kafka_that_the_file_names(
    place: str, given: list[str], asked: str, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    async def of_topic(kafka: Mapping[str, Any], *more: object) -> list[Message]:
        found.append(kafka["bootstrap_servers"])
        return [Record("flights", 0, 0, None, b"{}")]

    monkeypatch.setattr(import_module("sequitur.route.command"), "of_topic", of_topic)
    monkeypatch.setenv("SEQUITUR_BROKER", "environment:3")
    new = written(rules.parent, 'file = "makers.csv"', name="new.toml")
    rules.write_text(f"{place}\n{rules.read_text()}")
    for words in (
        ["explain", str(rules), "--at", "flights/0/0"],
        ["dry-run", str(rules), "--from", "flights"],
        ["compare", str(rules), str(new), "--from", "flights"],
    ):
        assert main(["route", *words, *given]) == 0
    assert found == [asked] * 3


def test_a_broker_that_is_none_is_named(rules: Path, caplog: pytest.LogCaptureFixture) -> None:
    rules.write_text(f"[router]\nbroker = 7\n{rules.read_text()}")
    assert main(["route", "explain", str(rules), "--at", "flights/0/0"]) == 2
    assert f"{rules}: router: broker = 7; give a text" in caplog.text


@pytest.mark.integration
def test_messages_of_a_topic_are_explained_and_compared(
    broker: BrokerAddress,
    topic: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = topic("flights", 2)
    producer = Producer({"bootstrap.servers": broker.address})
    for number, line in enumerate(LINES.split(b"\n")):
        producer.produce(name, line, partition=number % 2)
    producer.flush()
    old = written(tmp_path, 'entries = { N1 = "boeing" }', name)
    new = written(tmp_path, 'entries = { N9 = "boeing" }', name, "new.toml")
    given = ["--broker", broker.address]
    assert main(["route", "explain", str(old), "--at", f"{name}/0/0", *given]) == 0
    assert f"{name}/0/0 to fleet, late" in capsys.readouterr().out
    assert main(["route", "explain", str(old), "--at", f"{name}/0/99", *given]) == 2
    assert main(["route", "compare", str(old), str(new), "--from", name, *given]) == 1
    assert "3 of 6 messages would go elsewhere" in capsys.readouterr().out
    assert main(["route", "dry-run", str(old), "--from", name, *given]) == 1
    assert ["0/0", "fleet,", "late"] in [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('[router]\nname = "a b"', "router: name"),
        ('[router]\nname = "shop"\nbroker = 7', "router: broker = 7"),
        ('[router]\nname = "shop"\ntrails = "disk"', "trails='disk'"),
        ('[router]\nname = "shop"\nnmae = "x"', "'nmae'"),
        ('[router]\nname = "shop"\npartitions = 0', "partitions"),
        ('[router]\nname = "shop"\ntrail_function = "shop"', "trail_function"),
        ('[router]\nname = "shop"\n[transport.files]\nkind = "files"', "stays within Kafka"),
        ("", "router: name"),
    ],
)
def test_a_router_that_cannot_be_served_is_refused_with_the_reason(
    wrong: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "router.toml"
    file.write_text(f'{wrong}\n[source.in]\nrules = ["r"]\n[rule.r]\nto = "out"\n[destination.out]')
    assert main(["route", "serve", str(file), "--dry-run"]) == 2
    assert said in caplog.text


def test_a_stale_keymap_alone_is_read_again_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    file, table = tmp_path / "router.toml", tmp_path / "t.csv"
    table.write_text("key,tag\na,out\n")
    file.write_text(
        '[router]\nname = "shop"\n[source.in]\nrules = ["r"]\n[destination.out]\n'
        '[rule.r]\nkey = "k"\nkeymap = "t"\noutbound = { out = "out" }\n'
        '[keymap.t]\nfile = "t.csv"\notherwise = "out"\n[keymap.other]\nfile = "none.csv"\n'
    )
    with pytest.raises(FileNotFoundError):
        load_rules(file)
    (tmp_path / "none.csv").write_text("key,tag\n")
    rules = load_rules(file)
    (tmp_path / "none.csv").unlink()  # it is not stale: nobody reads it
    table.write_text("key,tag\nb,out\n")
    newer = reload_rules(file, Load(2, frozenset({"t"}), None, fresh=False), rules)
    assert newer.number == 2
    assert dict(newer.keymaps["t"].entries) == {"b": ("out",)}
    assert newer.keymaps["t"].otherwise == ("out",)
    with pytest.raises(DeclarationError, match="no keymap 'tt'"):
        reload_rules(file, Load(3, frozenset({"tt"}), None, fresh=False), newer)


def test_a_reload_takes_another_module_by_name_and_a_table_is_asked_once_for_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taught.py").write_text(
        "asked = []\n"
        "def table():\n    asked.append(1)\n    return {'N1': 'boeing'}\n"
        "def keys(message):\n    return {'tail': message.value.decode().strip()}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    file = written(tmp_path, 'function = "taught:table"')
    rules = load_rules(file)
    message = Record("flights", 0, 0, None, b"N1")
    assert rules.route(message).reason is not None, "it is no JSON"
    file.write_text(file.read_text().replace('module = "flight"', 'module = "taught:keys"'))
    newer = reload_rules(file, Load(2, frozenset(), None, fresh=True), None)
    for _ in range(100):
        assert newer.route(message).destinations == ("fleet",)
    assert import_module("taught").asked == [1, 1]
