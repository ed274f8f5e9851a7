"""The command that shows and resolves what is in doubt."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import inspect, text

from sequitur.cli.main import main
from soak.ended import ended
from soak_capture.producer import engine_of
from stores.two_phase.coordinator import Coordinator
from stores.two_phase.prepared import gid, prepared

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]


class Two:
    """A shop in SQLite and a log in PostgreSQL, and what was left prepared in the log."""

    def __init__(self, shop_url: str, log_url: str) -> None:
        self.urls = shop_url, log_url
        self.shop, self.log = engine_of(shop_url), engine_of(log_url)
        self.coordinator = Coordinator(self.shop, {"log": self.log})
        with self.log.begin() as connection:
            connection.execute(text("CREATE TABLE own (name text)"))

    def leave(self, *, decided: bool = False, decisions: str = "") -> str:
        """Prepare a row, and decide it; returns the gid."""
        transaction = uuid4().hex  # servers know no gid twice
        name = gid(decisions or self.coordinator.decisions.id, transaction, "log")
        with self.log.connect() as connection:
            part = connection.begin_twophase(name)
            connection.execute(text("INSERT INTO own VALUES ('x')"))
            part.prepare()
            connection.invalidate()
        if decided:
            with self.shop.begin() as connection:
                self.coordinator.decisions.write(connection, transaction, ["log"])
        return name

    def run(self, *words: str) -> int:
        shop, log = self.urls
        decisions = [] if words[0] == "force" else ["--decisions", shop]
        return main(["two-phase", *words, "--participant", f"log={log}", *decisions])

    def rows(self) -> int:
        with self.log.connect() as connection:
            return int(connection.execute(text("SELECT count(*) FROM own")).scalar_one())


@pytest.fixture
def two(tmp_path: Path, database: str) -> Iterator[Two]:
    two = Two(f"sqlite:///{tmp_path}/shop.sqlite", database)
    yield two
    two.coordinator.close()
    two.shop.dispose()
    two.log.dispose()


def test_list_shows_what_is_in_doubt_and_what_was_decided(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    assert two.run("list") == 0
    assert capsys.readouterr().out == ""
    names = [two.leave(), two.leave(decided=True)]
    names.append(two.leave(decisions="f" * 32))
    assert two.run("list") == 1
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[1], line[4]) for line in lines] == [
        ("log", "aborted", names[0]),
        ("log", "committed", names[1]),
        ("log", "foreign", names[2]),
    ]
    assert two.rows() == 0


def test_resolve_ends_what_was_decided_and_leaves_what_is_of_others(two: Two) -> None:
    two.leave()
    two.leave(decided=True)
    assert two.run("resolve") == 0
    assert (two.rows(), prepared("log", two.log)) == (1, [])
    two.leave(decisions="f" * 32)
    assert two.run("resolve") == 1
    assert len(prepared("log", two.log)) == 1


@pytest.mark.parametrize(("way", "count"), [("--commit", 1), ("--rollback", 0)])
def test_force_ends_one_by_hand(two: Two, way: str, count: int) -> None:
    name = two.leave(decisions="f" * 32)
    assert two.run("force", name, way) == 0
    assert (two.rows(), prepared("log", two.log)) == (count, [])
    assert two.run("force", name, way) == 1


def test_a_participant_that_cannot_be_reached_is_named(
    two: Two, caplog: pytest.LogCaptureFixture
) -> None:
    two.urls = two.urls[0], "postgresql://me:hush@/x?host=/nonexistent"
    assert two.run("list") == 2
    assert two.run("resolve") == 2
    assert "log cannot be" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize("command", ["list", "resolve"])
def test_a_mistyped_place_of_the_decisions_is_refused_and_not_made(
    command: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing, other = tmp_path / "folder" / "shpo.sqlite", tmp_path / "other.sqlite"
    other.touch()
    for file, says in ((missing, "no such file"), (other, "holds no decisions")):
        words = ["--decisions", f"sqlite:///{file}", "--participant", "log=postgresql://x/log"]
        assert main(["two-phase", command, *words]) == 2
        assert says in caplog.text
    assert not missing.parent.exists()
    assert not inspect(engine_of(f"sqlite:///{other}")).get_table_names()


@pytest.mark.parametrize("participant", ["log", "=sqlite://", "log=nothing", "log=x://me:hush@h/d"])
def test_a_wrong_participant_is_a_mistake(
    participant: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    decisions = f"sqlite:///{tmp_path}/shop.sqlite"
    assert main(["two-phase", "list", "--decisions", decisions, "--participant", participant]) == 2
    said = caplog.text + capsys.readouterr().err
    assert said
    assert "hush" not in said


@pytest.mark.parametrize("words", [["list"], ["resolve"], ["force", "x", "--rollback"]])
def test_a_participant_that_is_named_twice_is_refused(
    two: Two, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one of the two nothing would be shown, and its decisions be deleted."""
    assert two.run(*words, "--participant", "log=postgresql://me@127.0.0.1:1/x") == 2
    assert "--participant log is given twice" in capsys.readouterr().err


def test_every_goes_on_where_the_decisions_are_away_for_a_while(
    two: Two, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(two.urls[0].removeprefix("sqlite:///")).parent
    away = folder.with_suffix(".away")
    two.leave(decided=True)
    rows = []

    class Stop:
        def wait(self, seconds: float) -> bool:
            rows.append(two.rows())
            if len(rows) == 1:
                two.leave(decided=True)
                folder.rename(away)
            elif len(rows) == 2:
                away.rename(folder)
            return len(rows) == 3

    monkeypatch.setattr("sequitur.two_phase.Event", Stop)
    monkeypatch.setattr("sequitur.two_phase.take_signals", lambda stop, log: None)
    assert two.run("resolve", "--every", "1s") == 0
    assert rows == [1, 1, 2]
    assert caplog.text.count("the decisions cannot be read: unable to open") == 1


def test_every_resolves_again_and_again_until_it_is_told_to_stop(two: Two) -> None:
    shop, log = two.urls
    command = [sys.executable, "-m", "sequitur", "two-phase", "resolve", "--every", "50ms"]
    process = subprocess.Popen(
        [*command, "--decisions", shop, "--participant", f"log={log}"], cwd=ROOT
    )
    try:
        for _ in range(2):
            two.leave(decided=True)
            while prepared("log", two.log):
                assert process.poll() is None
        assert two.rows() == 2
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert ended(process, 240) == 0
