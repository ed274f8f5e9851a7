"""The operator's commands."""

import getpass
from pathlib import Path

import pytest

from sequitur.cli.main import main
from sequitur.cli.running import TOKEN
from stores.db.engines import open_engine
from stores.inbox.inbox import Inbox
from stores.message import Message
from tests.contracts.inbox.parking import fail


def test_a_parked_stream_is_shown_and_released(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/warehouse.sqlite"
    inbox = Inbox(open_engine(url), "warehouse", attempts=1)
    inbox.receive([Message("orders", "A-17", n, None, b"") for n in (1, 2, 5)])
    fail(inbox, 1)
    store = ["--database", url, "--name", "warehouse"]
    stream = ["--topic", "orders", "--stream", "A-17"]

    def said(command: str, *more: str, status: int = 0) -> str:
        assert main(["inbox", command, *store, *more]) == status
        return capsys.readouterr().out

    assert "orders A-17: sequence 1 failed 1 time, 3 messages wait" in said("parked", status=1)
    assert "orders A-17: 3 to 4, since" in said("gaps", status=1)
    assert "goes on behind 1" in said("unpark", *stream, "--reason", "it is\x1b wrong")
    fail(inbox, 1)
    assert "is delivered again" in said("redrive", *stream)
    assert "messages=2, behind_gaps=1, parked=0, dead=1" in said("counts", status=1)
    assert main(["inbox", "redrive", *store, *stream]) == 1
    assert "is not parked" in caplog.text
    me, (redriven, unparked) = getpass.getuser(), said("commands").splitlines()
    assert redriven.endswith(f" {me}: redrive orders A-17 at sequence 2: no reason given")
    assert unparked.endswith(f" {me}: unpark orders A-17 at sequence 1: it is\\x1b wrong")
    assert said("parked") == ""


def test_a_server_without_a_secret_does_not_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for secret in ("", "short", "a secret with a line\nbreak"):
        monkeypatch.setenv(TOKEN, secret)
        assert main(["inbox", "serve", "--database", f"sqlite:///{tmp_path}/w.sqlite"]) == 2
        assert "set DELIVERY_TOKEN to a secret" in caplog.text


def test_a_database_of_another_kind_is_refused_without_its_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert main(["inbox", "counts", "--database", "mysql://me:secret@host/db"]) == 2
    said = caplog.text
    assert "use sqlite:///FILE or postgresql://" in said
    assert "secret" not in said


def test_an_inbox_without_anything_set_aside_is_all_well(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/warehouse.sqlite"
    Inbox(open_engine(url), "warehouse").receive([Message("orders", "A-17", 1, None, b"")])
    assert main(["inbox", "counts", "--database", url, "--name", "warehouse"]) == 0


def test_a_port_that_is_none_is_refused_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inbox", "serve", "--database", "sqlite:///w.sqlite", "--port", "70000"]) == 2
    assert "70000 is not in the range 0<=x<=65535" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["counts", "gaps", "parked"])
def test_a_look_at_what_is_no_inbox_is_not_all_well(
    command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A path with a slip of the pen, or another service's database: it made an inbox there, and
    said that nothing was missing."""
    file = tmp_path / "warehous.sqlite"
    assert main(["inbox", command, "--database", f"sqlite:///{file}"]) == 2
    assert "there is no such file" in caplog.text
    assert not file.exists()
    file.touch()
    assert main(["inbox", command, "--database", f"sqlite:///{file}"]) == 2
    assert "has no inbox" in caplog.text


@pytest.mark.parametrize("command", ["counts", "gaps", "parked", "commands"])
def test_a_name_that_no_inbox_has_is_not_all_well(
    command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/warehouse.sqlite"
    inbox = Inbox(engine := open_engine(url), "warehouse")
    asked = ["inbox", command, "--database", url, "--name"]
    assert main([*asked, "warehouse"]) == 0, "nothing came yet"
    Inbox(engine, "dead").receive([], malformed=[("it is no message", b"")])
    inbox.receive([Message("orders", "A-17", 1, None, b"")])
    assert main([*asked, "warehuose"]) == 2
    assert "there is no inbox 'warehuose' here; there are: dead, warehouse" in caplog.text
    assert main([*asked, "dead"]) == (command == "counts")


def test_what_is_not_shown_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/warehouse.sqlite"
    inbox = Inbox(open_engine(url), attempts=1)
    inbox.receive([Message("orders", f"s{n}", of, None, b"") for n in range(101) for of in (1, 3)])
    for _ in range(101):
        fail(inbox, 1)
    for command in ("parked", "gaps"):
        asked = ["inbox", command, "--database", url]
        assert main(asked) == 1
        *lines, last = capsys.readouterr().out.splitlines()
        assert (len(lines), last) == (100, "and more: give a larger --limit")
        assert main([*asked, "--limit", "101"]) == 1
        assert len(capsys.readouterr().out.splitlines()) == 101
