"""How a process is told to stop.

Python runs a handler between any two steps of the main thread. One that raises may do so where the
standard library has just taken a lock (`Popen.poll`, whatever has a Condition), which nobody gives
back then; one that sets an Event may wait for ever, where `Event.wait` has just taken the Event's
own lock. Hence a process that waits for others only notes the signal, and looks at it where it
waits; and an Event is set by a thread.
"""

import signal
from logging import Logger
from queue import SimpleQueue
from threading import Event, Thread
from types import FrameType

_received: list[int] = []


def note_signals(*numbers: signal.Signals) -> None:
    """Note these signals, and SIGINT, for `check_interrupted`; nothing is raised before it.

    SIGINT also where it was ignored when the process was started, as by a shell's `&`, by some
    CI, and in what those start in turn: Python leaves it ignored then.
    """
    for number in (signal.SIGINT, *numbers):
        signal.signal(number, lambda number, _: _received.append(number))


def interrupted_by(*numbers: signal.Signals) -> None:
    """Let these signals, and SIGINT, raise KeyboardInterrupt with their number wherever they come.

    For what starts nothing that has to be waited for; else see `note_signals`.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        _received.append(number)
        raise KeyboardInterrupt(number)

    for number in (signal.SIGINT, *numbers):
        signal.signal(number, on_signal)


def check_interrupted() -> None:
    """Raise KeyboardInterrupt with the number of the first signal, if one came.

    Call it in loops that wait, after `interrupted_by` too: Python drops what a signal raises while
    the garbage collector or a C library calls back, and 3.14 may begin to sleep, or to wait for
    input, with a signal that has come and was not looked for.
    """
    if _received:
        raise KeyboardInterrupt(_received[0])


def take_signals(stop: Event, log: Logger | None = None, doing: str = "stopping") -> None:
    """Let SIGTERM and SIGINT set `stop`, and say what is done then.

    Who sends one often sends it twice. Spark sets its own when it starts: call it again then.
    """
    received = SimpleQueue[int]()

    def wait() -> None:
        number = received.get()
        if log is not None and not stop.is_set():
            log.info("%s: %s", signal.Signals(number).name, doing)
        stop.set()

    Thread(target=wait, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: received.put(number))
