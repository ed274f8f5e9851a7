"""Processes of units of work end with the process that has started them, whatever they do."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from sequitur.route import unit_commands

DEAF = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


async def test_a_process_that_does_not_end_is_killed_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Its parent waited for ever, for a transformation that waited for a host."""
    monkeypatch.setattr(unit_commands, "STOP", 1.0)
    there, stopped = tmp_path / "there", asyncio.Event()
    commands = {
        "deaf": [sys.executable, "-c", DEAF, str(there)],
        "good": [sys.executable, "-c", "import time; time.sleep(600)"],
    }
    working = asyncio.create_task(unit_commands._processes(commands, stopped))
    async with asyncio.timeout(60):
        while not there.exists():
            await asyncio.sleep(0.05)
        stopped.set()
        with caplog.at_level(logging.ERROR):
            await working
    assert caplog.messages == ["the process of deaf has not ended in 1 s: it is killed"]
