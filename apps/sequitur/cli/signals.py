"""How a process is told to stop."""

import signal
from logging import Logger
from threading import Event
from types import FrameType

_received: list[int] = []


def interrupted_by(*numbers: signal.Signals) -> None:
    """Let these signals, and SIGINT, raise KeyboardInterrupt with their number.

    SIGINT also where it was ignored when the process was started, as by a shell's `&`, by some
    CI, and in what those start in turn: Python leaves it ignored then.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        _received.append(number)
        raise KeyboardInterrupt(number)

    for number in (signal.SIGINT, *numbers):
        signal.signal(number, on_signal)


def check_interrupted() -> None:
    """Raise KeyboardInterrupt again if a signal raised one before; call it in loops that wait.

    Python drops what a signal raises while the garbage collector or a C library calls back.
    """
    if _received:
        raise KeyboardInterrupt(_received[0])


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
