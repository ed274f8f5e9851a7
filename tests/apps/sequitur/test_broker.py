"""`sequitur broker` where there is none to look at or to end; with one: `test_wheel.py`."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


_RUN = """\
import sys, time
from sequitur import broker
from sequitur.local.broker import Broker

class Slow(Broker):
    running = True

    def start(self):
        self.data.mkdir(parents=True, exist_ok=True)
        self._own_the_folder()
        return self

    def stop(self):
        time.sleep(1)
        super().stop()

broker._install, broker.Broker = lambda: None, Slow
from sequitur.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def slow(data: list[str]) -> Iterator[None]:
    """A process of `sequitur broker run` whose broker takes a second to end."""
    command = [sys.executable, "-c", _RUN, "broker", "run", *data]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()  # it runs
            yield
        finally:
            process.kill()


def test_one_that_runs_is_not_started_again(
    data: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with slow([*data, "--port", "29092"]):
        assert main(["broker", "status", *data]) == 0
        assert main(["broker", "start", *data]) == 0
    assert capsys.readouterr().out.count("127.0.0.1:29092") == 2


def test_what_is_stopped_has_ended(data: list[str], tmp_path: Path) -> None:
    with slow(data):
        assert main(["broker", "status", *data]) == 0
        assert main(["broker", "stop", *data]) == 0
        with locked(tmp_path / "broker" / "lock", wait=False) as free:
            assert free
    assert main(["broker", "status", *data]) == 1


def test_how_to_stop_it_names_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, found = ["--data", str(tmp_path / "its own")], iter([None, (1, "127.0.0.1:1")])
    monkeypatch.setattr(jars, "installed", lambda _: True)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: None)
    monkeypatch.setattr("sequitur.broker.runner", lambda _: next(found))
    assert main(["broker", "start", *data]) == 0
    assert capsys.readouterr().out.endswith(f"stop --data '{tmp_path}/its own'\n")


def test_a_folder_that_kafka_cannot_name_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", "start", "--data", str(tmp_path / "a,b")]) == 2
    assert "Remedy: choose another folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


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
