"""Replays by commands, and what `sequitur replay serve` refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from sequitur.cli.main import main
from sequitur.local.ports import free_port
from sequitur.replay.replay_file import read_replay_file
from sequitur.replay.server.work import ReplayWork
from stores.replay.retention_timer import RetentionTimer
from tests.apps.sequitur.replay.test_queries import file, filled, said

__all__ = ["file", "filled"]
WHO = ("--actor", "ann", "--reason", "case 4711")


def test_a_replay_is_previewed_started_paused_and_cancelled_and_all_of_it_is_kept(
    filled: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    at = str(filled)
    query = ("--topic", "moves", "--sequences", "2..5", "--to", "moves=again", "--rate", "5")
    id, state, what = said(capsys, "preview", at, *query, *WHO).split("\t")
    assert (state, what) == ("previewed", "0 of 4 messages, moves → again\n")
    for verb, then in (("start", "running"), ("pause", "paused"), ("resume", "running"),
                       ("cancel", "cancelled")):  # fmt: skip
        assert said(capsys, verb, at, id, *WHO) == f"{id}\t{then}\t{what}"
    said(capsys, "start", at, id, *WHO, status=2)
    assert "start is for one that is previewed; it has ended" in caplog.text
    said(capsys, "start", at, "none", *WHO, status=2)
    assert "there is no replay 'none'" in caplog.text
    lines = said(capsys, "status", at, id).splitlines()[1:]
    verbs = ("preview", "start", "pause", "resume", "cancel")
    assert [line.partition(" ")[2] for line in lines] == [
        f"{verb} by ann: case 4711" for verb in verbs
    ]
    found = json.loads(said(capsys, "status", at, "--json"))
    assert (found["id"], found["count"], found["query"]["through"]) == (id, 4, 10)
    said(capsys, "preview", at, "--topic", "moves", "--to", "a", "--to", "b", *WHO, status=2)
    assert "--to names a topic twice" in caplog.text
    nothing = said(capsys, "preview", at, "--topic", "else", "--to", "again", *WHO)
    assert nothing.endswith("\tpreviewed\t0 of 0 messages, * → again\n")


@pytest.mark.parametrize(
    ("server", "token", "why"),
    [
        ("", "", "set SEQUITUR_REPLAY_TOKEN"),
        ("", "too short", "to a secret of at least 16"),
        ("", "a secret of 16 and Ärger", "to a secret of at least 16 ASCII"),
        ('host = "0.0.0.0"\nreading = "open"', "a" * 16, 'reading = "open" is for loopback alone'),
    ],
)
def test_a_server_that_anybody_could_use_does_not_start(
    file: Path,
    server: str,
    token: str,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert read_replay_file(file).server.host == "127.0.0.1"
    file.write_text(f"{file.read_text()}\n[server]\nport = 0\n{server}\n")
    monkeypatch.setenv("SEQUITUR_REPLAY_TOKEN", token)
    assert main(["replay", "serve", str(file)]) == 2
    assert why in caplog.text


@pytest.mark.parametrize("part", [ReplayWork, RetentionTimer])
def test_a_server_one_of_whose_parts_ended_ends_too(
    file: Path, part: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*_: Any) -> None:
        raise RuntimeError("planted")

    text = file.read_text().replace("[replay]\n", '[replay]\nkeep = "1d"\n')
    file.write_text(f"{text}\n[server]\nport = {free_port()}\n")
    monkeypatch.setenv("SEQUITUR_REPLAY_TOKEN", "a" * 16)
    monkeypatch.setenv("SEQUITUR_BROKER", "127.0.0.1:1")
    monkeypatch.setattr(part, "run", run)
    with pytest.raises(RuntimeError, match="planted"):
        main(["replay", "serve", str(file)])
