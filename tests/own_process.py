"""What a test does to the process that it shares with other tests ends with it.

A command that a test runs in its own process takes signals, quiets loggers, and tells the processes
that it starts where to import from.
"""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

_NEW = logging.NOTSET, False, True
"""Level, disabled and propagate of a logger that nobody has changed."""


@contextmanager
def kept() -> Iterator[None]:
    """Have loggers, the handlers of signals, the environment and the paths be as before."""
    disabled, loggers = logging.root.manager.disable, {name: _state(it) for name, it in _loggers()}
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    environment, path, folder = dict(os.environ), sys.path[:], os.getcwd()
    try:
        yield
    finally:
        logging.disable(disabled)
        for name, logger in _loggers():
            if (before := loggers.get(name, _NEW)) != _state(logger):
                logger.setLevel(before[0])
                logger.disabled, logger.propagate = before[1:]
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                assert current_thread() is main_thread()
                signal.signal(number, handler)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        sys.path[:] = path
        os.chdir(folder)


def _loggers() -> list[tuple[str, logging.Logger]]:
    found = [("root", logging.root), *logging.root.manager.loggerDict.items()]
    return [(name, each) for name, each in found if isinstance(each, logging.Logger)]


def _state(logger: logging.Logger) -> tuple[int, bool, bool]:
    return logger.level, logger.disabled, logger.propagate
