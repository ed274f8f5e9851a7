"""Quix Streams, in an environment of its own: its needs and ours do not have to agree."""

import sys
from pathlib import Path

from sequitur.local.home import HOME, LOGS, LocalError
from sequitur.local.process import spawn, tail

VERSION = "3.28.1"
PROGRAM = Path(__file__).with_name("quix_peer.py")
VERBS = Path(__file__).with_name("quix_verbs.py")
FOLDER = HOME / "bench" / "quix"
_COMPLETE = FOLDER / ".complete"
_PYTHON = FOLDER / "bin" / "python"


def missing() -> str | None:
    """What is not installed."""
    complete = _COMPLETE.is_file() and _COMPLETE.read_text() == VERSION and _PYTHON.exists()
    return None if complete else "its environment is not installed"


def install() -> None:
    """Make the environment. Raises LocalError with the end of pip's log."""
    if missing() is None:
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / "bench-quix.log"
    made = [sys.executable, "-m", "venv", "--clear", str(FOLDER)]
    package = f"quixstreams=={VERSION}"
    filled = [str(_PYTHON), "-m", "pip", "install", "--progress-bar", "off", package]
    with log.open("wb") as output:
        for step in (made, filled):
            process = spawn(step, output=output, descendants=True)
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
            if status:
                raise LocalError(
                    "Quix Streams",
                    f"the end of {log}:\n{tail(log)}",
                    "check the network and run scripts/bench engine --install again",
                )
    _COMPLETE.write_text(VERSION)


def command(program: Path = PROGRAM) -> list[str]:
    """The command that runs a program."""
    return [str(_PYTHON), str(program)]
