"""`sequitur broker` where there is none to look at or to end; with one: `test_wheel.py`."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sequitur.cli.main import main
from sequitur.local import jars
from sequitur.local.home import locked


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    return ["--data", str(tmp_path / "broker")]


def test_no_broker_is_bad_news_to_who_asks_and_none_to_who_stops_it(
    data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", "status", *data]) == 1
    assert main(["broker", "stop", *data]) == 0
    assert capsys.readouterr().out.count("no broker runs in") == 2
    assert not (tmp_path / "broker").exists()


def test_what_a_killed_one_left_is_not_taken_for_a_broker(data: list[str], tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "broker" / "runs").write_text(f"{other.pid} 127.0.0.1:9092")
        assert main(["broker", "status", *data]) == 1
        assert main(["broker", "stop", *data]) == 0
        assert other.poll() is None
        other.kill()


def test_while_a_new_one_starts_nobody_signals_who_has_the_number_of_a_killed_one(
    data: list[str], tmp_path: Path
) -> None:
    with locked(tmp_path / "broker" / "lock"), subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "broker" / "runs").write_text(f"{other.pid} 127.0.0.1:9092")
        assert main(["broker", "status", *data]) == 1
        assert main(["broker", "stop", *data]) == 0
        assert other.poll() is None
        other.kill()


def test_a_folder_that_cannot_be_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jars, "installed", lambda _: True)
    (tmp_path / "file").touch()
    assert main(["broker", "start", "--data", str(tmp_path / "file" / "broker")]) == 2
    assert "Not a directory" in capsys.readouterr().err


def test_one_that_runs_is_not_started_again(
    data: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-c", "import time; time.sleep(600)", "broker", "run"]
    with (
        locked(tmp_path / "broker" / "lock"),
        subprocess.Popen([sys.executable, *words]) as process,
    ):
        (tmp_path / "broker" / "runs").write_text(f"{process.pid} 127.0.0.1:29092")
        assert main(["broker", "status", *data]) == 0
        assert main(["broker", "start", *data]) == 0
        process.kill()
    assert capsys.readouterr().out.count("127.0.0.1:29092") == 2


def test_a_port_in_use_is_told_with_a_remedy(
    data: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jars, "installed", lambda _: True)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert main(["broker", "run", "--port", port, *data]) == 2
    said = capsys.readouterr().err
    assert "the port is not free" in said
    assert "Remedy: " in said
    assert "Traceback" not in said
