"""No secret of a command line, a URL or a file reaches what a process says or leaves behind."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from sequitur.cli.main import main
from sequitur.cli.outcome import log_to_stderr
from sequitur.local.ports import HOST, free_port
from soak.ended import ended
from stores.view_state.by_url import open_store
from stores.view_state.table import TableError
from tests.stores.db.test_urls import POSITIONS, SECRET
from topology.faust.settings import Settings

URLS = [p.replace("@host", "@127.0.0.1:1") for p in POSITIONS if not p.startswith("delta")]
COMMANDS = {
    "materialize": ["--topics", "a", "--checkpoint", "x", "--read-store", "URL"],
    "live": ["--topology", "sequitur.flights:topology", "--checkpoint", "x", "--read-store", "URL"],
    "rebuild": ["shadows", "--read-store", "URL"],
    "two-phase": ["list", "--decisions", "URL", "--participant", "log=URL"],
    "relay": [
        *(
            "void",
            "--topic",
            "t",
            "--stream",
            "s",
            "--reason",
            "r",
            "--first",
            "1",
            "--database",
            "URL",
        ),
    ],
    "inbox": ["counts", "--database", "URL"],
}
OPTIONS = {
    "materialize": "--read-store",
    "live": "--read-store",
    "rebuild": "--read-store",
    "two-phase": "--decisions",
    "relay": "--database",
    "inbox": "--database",
}


def _status(module: str, arguments: list[str]) -> object:
    return main([module, *arguments])


@pytest.mark.parametrize("module", COMMANDS)
@pytest.mark.parametrize("position", URLS)
def test_a_store_that_cannot_be_opened_is_status_2_and_one_line_without_its_secret(
    module: str,
    position: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    url = position.format(SECRET)
    assert _status(module, [url if w == "URL" else w.replace("URL", url)
                            for w in COMMANDS[module]]) == 2  # fmt: skip
    said = capsys.readouterr()
    (line,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert "\n" not in line
    assert SECRET not in caplog.text + said.out + said.err
    assert not [f for f in tmp_path.rglob("*") if f.is_file() and SECRET in f.read_text("latin-1")]


@pytest.mark.parametrize("module", COMMANDS)
def test_a_mistake_on_the_command_line_does_not_show_a_url(
    module: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = f"postgresql://me:{SECRET}@host/db"
    command = [word.replace("URL", "sqlite:///x") for word in COMMANDS[module]]
    for wrong in (
        [*command, "--stroe", url],
        [*command, f"--stroe={url}", "and", SECRET],
        [*command, OPTIONS[module], f"@{tmp_path}/missing"],
    ):
        assert _status(module, wrong) == 2
    said = capsys.readouterr().err
    assert "--stroe" in said
    assert "missing" in said
    assert SECRET not in said


@pytest.mark.parametrize("place", ["me:{}@host:9092", "kafka://me:{}@host"])
def test_a_broker_with_a_login_is_refused_without_showing_it(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = place.format(SECRET)
    for module, words in {
        "materialize": ["--topics", "a", "--checkpoint", "x", "--read-store", "sqlite:///read.db"],
        "live": ["--topology", "a", "--checkpoint", "x"],
        "relay": ["kafka", "--database", "sqlite:///x"],
        "inbox": ["feed", "--topic", "a", "--database", "sqlite:///x"],
        "rebuild": ["export", "--topic", "a", "--to", "x"],
    }.items():
        assert _status(module, [*words, "--broker", broker]) == 2
    said = capsys.readouterr().err
    assert "host:port" in said
    assert SECRET not in said
    with pytest.raises(ValidationError) as refused:
        Settings(broker=broker)
    assert SECRET not in str(refused.value)


def test_settings_show_no_secret_in_errors_and_tracebacks() -> None:
    assert SECRET not in repr(Settings(view_state=f"postgresql://me:{SECRET}@host/db"))
    with pytest.raises(ValidationError) as refused:
        Settings(batch=SECRET, storee=f"redis://:{SECRET}@host")  # type: ignore[call-arg, arg-type]
    assert "batch" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("position", URLS)
def test_a_view_state_store_that_cannot_be_opened_does_not_show_its_secret(
    position: str, tmp_path: Path
) -> None:
    with pytest.raises(TableError) as refused:
        open_store(position.format(SECRET), "group", tmp_path).table("view", 0).claim()
    assert SECRET not in str(refused.value)


def test_whoever_logs_no_secret_is_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        url = f"postgresql://me:{SECRET}@host/db?password=another{SECRET}"
        login = f'org.Login required username="me" password="one-more{SECRET}";'
        log_to_stderr([url], {"kafka.sasl.jaas.config": login, "kafka.client.id": "one"})
        try:
            raise ValueError(f"cannot use {url} with {login}")
        except ValueError:
            logging.getLogger("any").exception("as %s: one-more%s", url, SECRET)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert SECRET not in said


@pytest.mark.integration
@pytest.mark.parametrize(
    "command",
    [
        ["sequitur", "relay", "kafka", "--database", "@url", "--broker", "BROKER"],
        ["sequitur", "inbox", "feed", "--topic", "a", "--database", "@url", "--broker", "BROKER"],
        [*("sequitur", "materialize", "--topics", "a", "--checkpoint", "c"),
         *("--read-store", "sqlite:///read.db"),
         *("--broker", "BROKER", "--kafka-properties", "client", "--status", "status")],
    ],
)  # fmt: skip
def test_no_secret_is_in_the_processes_that_run_nor_in_what_they_leave(
    command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "url").write_text(f"postgresql://me:{SECRET}@{HOST}:{free_port()}/db\n")
    (tmp_path / "client").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="me" password="{SECRET}";\n'
    )
    broker = f"{HOST}:{free_port()}"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *(word.replace("BROKER", broker) for word in command)],
            cwd=tmp_path,
            env=dict(os.environ),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            until, seen = time.monotonic() + 240, set[bytes]()
            while time.monotonic() < until and not _ready(tmp_path, seen):
                seen |= _command_lines(process.pid)
                time.sleep(0.05)
        finally:
            process.terminate()
            ended(process, 120, tmp_path / "log")
    assert _ready(tmp_path, seen), (tmp_path / "log").read_text()
    assert not [line for line in seen if SECRET.encode() in line]
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name not in ("url", "client"):
            assert SECRET.encode() not in file.read_bytes(), file


def _ready(folder: Path, seen: set[bytes]) -> bool:
    """Whether it has said that it waits; Spark's JVM was seen then."""
    text = (folder / "log").read_text()
    if (folder / "status").exists():
        return any(b"java" in line for line in seen)
    return "connection" in text.lower()


def _command_lines(pid: int) -> set[bytes]:
    """Those of a process and of all that it started."""
    found = set()
    try:
        found.add(Path(f"/proc/{pid}/cmdline").read_bytes())
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found |= _command_lines(int(child))
    except OSError:
        pass  # it has ended
    return found
