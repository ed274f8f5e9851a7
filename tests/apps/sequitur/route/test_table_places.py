"""What the places of a router's tables have: the tables, or the reason why they are none."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequitur.route import table_places
from sequitur.route.loading import load_rules
from topology.model.errors import DeclarationError
from topology.model.event import Record
from topology.routing import Keymap

RULES = """
[source.in]
rules = ["r"]
[rule.r]
key = "k"
TABLES
[destination.out]
"""
KEYMAP = 'keymap = "m"\noutbound = {{ a = "out", true = "out" }}\n[keymap.m]\n{}'
OUTBOUND = "outbound = {{ from = {{ {} }} }}"


def failing() -> None:
    raise RuntimeError("no database\x1b[2J")


def later() -> Iterator[tuple[str, str]]:
    yield "a", "out"
    raise RuntimeError("no database any more")


def nothing() -> None:
    """What a function returns that forgets to."""


def rows() -> Iterator[tuple[str, str]]:
    """Rows that can be read once."""
    yield from ((each, "out") for each in "ab")


def destination(folder: Path, tables: str, value: bytes) -> tuple[str, ...]:
    rules = folder / "rules.toml"
    rules.write_text(RULES.replace("TABLES", tables))
    routing = load_rules(rules).route(Record("in", 0, 0, None, value))
    assert routing.reason is None
    return routing.destinations


@pytest.mark.parametrize("tables", [KEYMAP, OUTBOUND])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (f'function = "{__name__}:failing"', r"failing failed: .*no database\\x1b"),
        (f'function = "{__name__}:later"', "later failed: .*any more"),
        (f'function = "{__name__}:nothing"', "nothing failed: .*NoneType"),
        ('file = "five.json"', "5 is no table"),
        ('file = "null.json"', "None is no table"),
        ('file = "numbers.json"', "a row (is|has)"),
        ('file = "lists.json"', "give text of 1"),
        ('file = "empty.csv"', "empty.csv: it is empty"),
        ('file = "half.csv"', "a row (is|has)"),
        ('file = "latin.csv"', "latin.csv: it is no UTF-8"),
        ('file = "long.csv"', "long.csv: CSV of .* the limit"),
        ("query = \"SELECT x'61', 'out'\"\ndatabase = \"sqlite:///any.db\"", "a row has bytes"),
    ],
)
def test_what_is_no_table_is_refused_with_its_place(
    tables: str, place: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("topology.routing.configuration.LARGEST", 1_000)
    monkeypatch.setattr(table_places, "LARGEST", 1_000)
    files = {
        "five.json": b"5",
        "null.json": b"null",
        "numbers.json": b"[1, 2]",
        "lists.json": b'[[["a"], "out"]]',
        "empty.csv": b"",
        "half.csv": b"key,tag\na,out\nb",
        "latin.csv": b"key,tag\nM\xfcller,out\n",
        "long.csv": b"key,tag\n" + b"x,out\n" * 1_000,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    place = place if tables is KEYMAP else place.replace("\n", ", ")
    with pytest.raises(DeclarationError, match=f"rules.toml: .*{reason}"):
        destination(tmp_path, tables.format(place), b"{}")


def test_rows_that_can_be_read_once_are_a_table(tmp_path: Path) -> None:
    place = f'function = "{__name__}:rows"'
    assert destination(tmp_path, OUTBOUND.format(place), b'{"k": "b"}') == ("out",)


def test_what_a_spreadsheet_writes_is_a_table(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b'\xef\xbb\xbfkey,tag\r\n"x ""y"", z",a\r\n')
    found = destination(tmp_path, KEYMAP.format('file = "m.csv"'), b'{"k": "x \\"y\\", z"}')
    assert found == ("out",)


def test_a_truth_value_and_a_number_of_sql_are_those_of_a_message(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "m.db") as database:
        database.execute("CREATE TABLE m (n INTEGER, tag TEXT)")
        database.execute("INSERT INTO m VALUES (7, 'a')")
    database.close()
    of = f'database = "sqlite:///{tmp_path}/m.db"'
    number = KEYMAP.format(f'query = "SELECT n, tag FROM m"\n{of}')
    assert destination(tmp_path, number, b'{"k": 7}') == ("out",)
    (row,) = [(table_places._cell("m", True), "a")]  # PostgreSQL's; SQLite has none
    assert Keymap("m", [row]).entries == {"true": ("a",)}


def test_a_table_is_the_same_in_whichever_order_a_database_returns_its_rows(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "m.db") as database:
        database.execute("CREATE TABLE m (k, tag)")
        database.executemany("INSERT INTO m VALUES (?, ?)", [("x", "b"), (7, "c"), ("x", "a")])
    database.close()
    of = f'database = "sqlite:///{tmp_path}/m.db"'
    digests = set()
    for order in "", "DESC":
        rules = tmp_path / "rules.toml"
        query = KEYMAP.format(f'query = "SELECT k, tag FROM m ORDER BY rowid {order}"\n{of}')
        rules.write_text(RULES.replace("TABLES", query))
        loaded = load_rules(rules)
        digests.add(loaded.digest)
    assert loaded.keymaps["m"].entries == {"7": ("c",), "x": ("a", "b")}
    assert len(digests) == 1
