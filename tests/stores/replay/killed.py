"""A process that works on a replay log and is killed at one of its statements."""

import os
import signal
from collections.abc import Callable
from typing import Any

from sqlalchemy import event

from stores.db.engines import open_engine
from stores.replay import ReplayLog, writing
from tests.stores.replay.sample import FIELDS, messages

MOST = 20
"""Messages of a period, here."""


def append_more(log: ReplayLog) -> None:
    """End a period that has its messages, and begin the next one."""
    writing.PERIOD, period = MOST, writing.PERIOD
    log.append("moves", messages(3), {0: MOST + 3})
    writing.PERIOD = period


def retain(log: ReplayLog) -> None:
    """Drop what ended before the last second."""
    log.retain(1)


def killed_at(url: str, work: Callable[[ReplayLog], object], number: int) -> None:
    """Work, and be killed before a statement or a commit, the numberth of them."""
    engine, seen = open_engine(url), list[object]()
    log = ReplayLog(engine, FIELDS)

    def note(*given: Any) -> None:
        seen.append(given)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("before_cursor_execute", "commit"):
        event.listen(engine, name, note)
    work(log)
