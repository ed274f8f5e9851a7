"""The replay log by commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from sequitur.cli.main import main
from sequitur.replay.content import Contents
from sequitur.replay.replay_file import ReplayFile, read_replay_file
from stores.replay import CapturedMessage
from topology.model.event import Record

FILE = """
[replay]
database = "@url"
site = "ewr"
topics = ["moves", "orders.*"]
[field.tail]
path = { moves = "plane.tail", "orders.*" = 2 }
[field.delay]
kind = "integer"
path = { header = "delay" }
[stream.moves]
stream = { record = "key" }
sequence = "leg"
[format."orders.*"]
format = "csv"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "url").write_text(f"sqlite:///{tmp_path}/log.db\n")
    path = tmp_path / "replay.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def filled(file: Path) -> Path:
    log = read_replay_file(file).log()
    messages = [
        CapturedMessage(
            *("moves", n % 2, n, b'{"n": %d}' % n),
            time=1_357_000_000_000 + n * 60_000,
            key=b"\xff",
            headers=(("h", b"\x1b[31m"),),
            site="ewr",
            stream=f"s\x1b{n % 3}",
            sequence=n,
            metadata={"tail": f"N{n}", "delay": n * 10},
        )
        for n in range(10)
    ]
    log.append("moves", messages, {0: 10, 1: 10})
    return file


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    capsys.readouterr()
    assert main(["replay", *words]) == status
    return capsys.readouterr().out


def test_messages_are_counted_listed_and_shown(
    filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = str(filled)
    assert said(capsys, "count", at) == "10\n"
    for words, number in (
        (("--topic", "moves", "--partition", "1"), 5),
        (("--topic", "else"), 0),
        (("--site", "ewr", "--sequences", "3.."), 7),
        (("--sequences", "..3", "--where", "delay>=20"), 2),
        (("--since", "2013-01-01T00:30:00Z"), 6),
        (("--until", "2013-01-01T00:30"), 4),
        (("--stream", "s\x1b1", "--text", '"n": 4'), 1),
        (("--after", "3", "--through", "5"), 2),
        (("--where", "tail^=N", "--where", "tail!=N3"), 9),
    ):
        assert said(capsys, "count", at, *words) == f"{number}\n", words
    lines = said(capsys, "list", at, "--limit", "3", "--after", "2").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["3", "4", "5"]
    assert "\tewr/moves/0/2\ts\\x1b2:2\t8 B\ttail=N2 delay=20" in lines[0]
    found = json.loads(said(capsys, "list", at, "--limit", "1", "--json"))
    assert (found["id"], found["key"], "value" in found) == (1, {"hex": "ff"}, False)
    shown = said(capsys, "show", at, "4")
    assert 'value: {"n": 3}' in shown
    assert "\x1b" not in shown + said(capsys, "show", at, "4", "--json")
    assert said(capsys, "show", at, "4", "--content") == '{"n": 3}'
    assert said(capsys, "fields", at).splitlines() == [
        *("field tail: text", "field delay: integer"),
        "topic moves: 0 to 10, 1 to 10",
    ]
    assert said(capsys, "retain", at, "--keep", "30d", "--dry-run") == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("count", "--where", "gate=1"), "there is no field 'gate'; declared are: delay, tail"),
        (("count", "--where", "gate"), "'gate' is no condition"),
        (("count", "--sequences", "3"), "write A..B"),
        (("count", "--sequences", "8..3"), "nothing is from 8 to 3; write the lower one first"),
        (("list", "--until", "2013-01-01", "--since", "2013-01-01"), "--since is earlier"),
        (("list", "--since", "soon"), "Invalid isoformat"),
        (("show", "99"), "there is no message 99"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(
    filled: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    words: tuple[str, ...],
    why: str,
) -> None:
    assert main(["replay", words[0], str(filled), *words[1:]]) == 2
    assert why in capsys.readouterr().err + caplog.text


def test_no_log_is_made_by_asking(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["replay", "count", str(file)]) == 2
    assert "there is no such file" in caplog.text
    assert not (file.parent / "log.db").exists()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('site = "ewr"', 'site = "e/r"', "replay.site: String should match"),
        ('"moves", ', '"mo ves", ', "topic 'mo ves'"),
        ('"integer"', '"date"', "field.delay.kind"),
        ('= "leg"', '= "a..b"', "field path 'a..b'"),
        ('moves = "plane.tail"', "moves = true", "moves: tail: give a path"),
        ('format = "csv"', 'format = "cvs"', "cvs"),
        ('sequence = "leg"', "sequence = true", "moves: JsonKeys: key 'the-sequence'"),
        ("[stream.moves]", "[streams.moves]", "streams: Extra inputs"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    file: Path, caplog: pytest.LogCaptureFixture, old: str, new: str, why: str
) -> None:
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    assert main(["replay", "count", str(file)]) == 2
    assert why in caplog.text


def found(file: ReplayFile, topic: str, value: bytes | None, **given: Any) -> Any:
    contents = Contents(file, topic)
    headers = given.get("headers", ())
    record = Record(topic, 0, 0, given.get("key"), value, headers)
    return *contents.find(record), contents.counts["unread"]


def test_streams_sequences_and_fields_are_found_by_topic(file: Path) -> None:
    given = read_replay_file(file)
    body = b'{"plane": {"tail": "N1"}, "leg": "7"}'
    header = (("delay", b"12"),)
    assert found(given, "moves", body, key=b"k", headers=header) == (
        *("k", 7, {"tail": "N1", "delay": "12"}, 0),
    )
    assert found(given, "moves", b'{"leg": 1.5, "plane": {"tail": [1, 2]}}') == (
        *(None, None, {"tail": "1"}, 0),
    )
    assert found(given, "moves", None, key=b"k") == ("k", None, {}, 0)
    assert found(given, "moves", b"{", key=b"k") == (None, None, {}, 1)
    assert found(given, "orders.eu", b"a,b,c") == (None, None, {"tail": "b"}, 0)
    assert found(given, "else", b"{") == (None, None, {}, 0)


def test_a_pattern_takes_no_topics_of_others(file: Path) -> None:
    file.write_text(FILE.replace('"moves", "orders.*"]', '"*", "sequitur-moves"]'))
    given = read_replay_file(file)
    for name in ("moves", "orders", "sequitur-moves", "disaster.recovery.events"):
        assert given.captures(name)
    recovery = ("moves.recovery.0123456789ab", "billing.recovering")
    for name in ("__consumer_offsets", "sequitur-starts", *recovery):
        assert not given.captures(name)
