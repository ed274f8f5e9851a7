"""How a process is told to stop."""

import signal
from logging import Logger
from threading import Event
from types import FrameType


def interrupted_by(*numbers: signal.Signals) -> None:
    """Let these signals, and SIGINT, raise KeyboardInterrupt.

    SIGINT also where it was ignored when the process was started, as by a shell's `&`, by some
    CI, and in what those start in turn: Python leaves it ignored then.
    """
    for number in (signal.SIGINT, *numbers):
        signal.signal(number, signal.default_int_handler)


def take_signals(stop: Event, log: Logger, doing: str) -> None:
    """Let SIGTERM and SIGINT set `stop`, and say what is done then.

    Who sends one often sends it twice. Spark sets its own when it starts: call it again then.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            log.info("%s: %s", signal.Signals(number).name, doing)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
