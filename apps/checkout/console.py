"""Tell the person at the terminal what is going on, and for how long it has been."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

_WIDTH = 100


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def step(title: str, log: Path | None = None) -> Iterator[None]:
    """Announce a step, show that it is alive, and say how long it took.

    log: the file whose last line is shown while the step runs: in place on a terminal, else as a
    line each 20 s.
    """
    began = time.monotonic()
    say(f"{title} …")
    ended = Event()
    reporter = Thread(target=_report, args=(began, log, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()
    say(f"      done in {time.monotonic() - began:.0f} s")


def _report(began: float, log: Path | None, ended: Event) -> None:
    terminal = sys.stdout.isatty()
    while not ended.wait(1 if terminal else 20):
        text = f"      {time.monotonic() - began:.0f} s  {_last_line(log)}".rstrip()
        if terminal:
            print(f"\r\033[K{text[:_WIDTH]}", end="", flush=True)
        else:
            say(text[:_WIDTH])
    if terminal:
        print("\r\033[K", end="", flush=True)


def _last_line(log: Path | None) -> str:
    if log is None or not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 500))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
