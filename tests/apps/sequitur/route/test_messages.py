"""Messages of files, to try rules with: whatever the file has, the command says what it found."""

import io
from pathlib import Path

import pytest

from sequitur.cli.main import main
from sequitur.route import messages
from sequitur.route.messages import of_file

RULES = """
[source.TOPIC]
rules = ["r"]
[rule.r]
when = { key = "k", exists = true }
to = "out"
[destination.out]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(RULES.replace("TOPIC", "orders"))
    return path


def test_of_what_is_too_large_no_more_is_read_than_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_MOST", 8)
    file = tmp_path / "lines"
    for line in (b"x" * 7, b"x" * 8, b"x" * 9, b"x" * 15, b"x" * 16, b"x" * 40):
        file.write_bytes(b"a\n" + line + b"\r\n\nb\n" + line)
        shown = line if len(line) == 7 else line[:8]
        found = [(each.offset, each.value) for each in of_file(file, "in")]
        assert found == [(0, b"a"), (1, shown), (3, b"b"), (4, shown)]
        (whole,) = of_file(file, "in", whole=True)
        assert whole.value == file.read_bytes()[:8]


def test_an_empty_file_is_an_empty_message_or_none(
    rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert main(["route", "explain", str(rules), str(empty)]) == 1
    assert "failed: the value is not JSON" in capsys.readouterr().out
    assert main(["route", "dry-run", str(rules), str(empty)]) == 0
    assert "0 messages" in capsys.readouterr().out
    assert main(["route", "compare", str(rules), str(rules), "--file", str(empty)]) == 0
    assert "0 of 0 messages" in capsys.readouterr().out


def test_a_topic_that_no_rules_are_about_is_refused_and_compared_with_none(
    rules: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, new = tmp_path / "lines", tmp_path / "new.toml"
    file.write_bytes(b'{"k": 1}\n')
    new.write_text(RULES.replace("TOPIC", "bills"))
    given = [*map(str, (rules, new))], ["--file", str(file), "--source"]
    assert main(["route", "compare", *given[0], *given[1], "ordres"]) == 2
    assert "--source: no source 'ordres' (did you mean 'orders'?)" in caplog.text
    assert main(["route", "compare", *given[0], "--from", "ordres"]) == 2
    assert "--from: no source 'ordres'" in caplog.text
    for verb in ("explain", "dry-run"):
        assert main(["route", verb, str(rules), str(file), "--source", "bills"]) == 2
    assert main(["route", "compare", *given[0], *given[1], "bills"]) == 1


def test_what_fails_by_both_rules_is_said(
    rules: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"k": 1}\nno JSON\n')))
    assert main(["route", "compare", str(rules), str(rules), "--file", "-"]) == 0
    assert capsys.readouterr().out == (
        "0 of 2 messages would go elsewhere by rules 2\n  1 fail by both\n"
    )
