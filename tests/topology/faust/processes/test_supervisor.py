"""The supervisor's ends, with processes that are no workers."""

import asyncio
import os
import signal
from pathlib import Path
from typing import get_type_hints

import pytest

from topology.faust.processes import restarts, supervisor
from topology.faust.processes.supervisor import Supervisor, WorkerProcess


def run(command: str, until: Path | None = None, count: int = 2) -> int:
    """The status of a supervisor of shell commands; it is ended once the file has `count` lines."""

    async def supervise() -> int:
        made = Supervisor(["sh", "-c", command], count)
        running = asyncio.create_task(made.run())
        if until is not None:
            while not (until.exists() and len(until.read_text().splitlines()) >= count):
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
        return await running

    return asyncio.run(asyncio.wait_for(supervise(), 120))


def test_who_dies_again_and_again_ends_all(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(restarts, "FIRST", 0.001)
    first = "case $SEQUITUR_NUMBERED in 1:*) echo no luck; exit 3;; esac; exec sleep 1000"
    assert run(first) == 2
    found = [line for line in caplog.messages if "it is started again" in line]
    assert len(found) == restarts.MOST - 1
    assert "worker 1 ended with status 3" in found[0]
    assert "for the 5th time in a row: all workers end" in caplog.text
    assert capfd.readouterr().err.count("worker-1 | no luck\n") == restarts.MOST


def test_told_to_end_all_end_and_nothing_is_started_again(tmp_path: Path) -> None:
    file = tmp_path / "started"
    assert run(f"trap 'exit 0' TERM; echo >> {file}; while :; do sleep 0.01; done", file) == 0
    assert len(file.read_text().splitlines()) == 2


def test_who_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LAST", 0.1)
    file = tmp_path / "started"
    assert run(f"trap '' TERM; echo >> {file}; exec sleep 1000", file) == 2


def test_who_cannot_be_killed_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As it waits for a disk that hangs."""
    begun = tmp_path / "begun"

    async def never_ends(*_: object) -> bool:
        with begun.open("a") as file:
            file.write("\n")
        return await asyncio.Event().wait()

    monkeypatch.setattr(supervisor, "LAST", 0.01)
    monkeypatch.setattr(supervisor, "KILLED", 0.01)
    monkeypatch.setattr(Supervisor, "_keep", never_ends)
    assert run("", begun) == 2
    assert "2 workers cannot be killed, and are left behind" in caplog.text


def test_what_cannot_be_started_is_tried_again_and_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(restarts, "FIRST", 0.001)
    assert asyncio.run(Supervisor(["/no/such/program"], 1).run()) == 2
    assert "worker 1 could not be started" in caplog.text


def test_a_line_without_an_end_is_written_in_parts(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(supervisor, "LONGEST", 3)

    async def copy() -> None:
        source = asyncio.StreamReader()
        copying = asyncio.create_task(supervisor._copy(source, "> "))
        for part in (b"ab", b"cd", b"e\nfg"):
            source.feed_data(part)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        source.feed_eof()
        await copying

    asyncio.run(copy())
    assert capfdbinary.readouterr().err == b"> abcd\n> e\n> fg\n"


def test_who_dies_is_missed_and_all_end_whatever_has_their_output_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(restarts, "FIRST", 0.001)
    helper = f"setsid sleep 1000 & echo $! >> {tmp_path}/helpers"
    try:
        assert run(f"{helper}; exit 3", count=1) == 2
        file = tmp_path / "started"
        assert run(f"{helper}; echo >> {file}; exec sleep 1000", file) == 0
    finally:
        for each in (tmp_path / "helpers").read_text().split():
            os.kill(int(each), signal.SIGKILL)


def test_what_a_worker_takes_for_a_signal_is_not_its_method() -> None:
    assert get_type_hints(WorkerProcess.signal)["number"] is signal.Signals
