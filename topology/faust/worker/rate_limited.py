"""Keep the log readable: no floods of the same line, no false alarms, no codes for a terminal."""

import logging
import time
from collections import deque
from typing import Any, NoReturn

import faust

from topology.model.counted import counted

LOGGERS = (
    "aiokafka",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.consumer",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
    "aiokafka.consumer.subscription_state",
    "aiokafka.producer.producer",
    "aiokafka.producer.sender",
)
SECONDS = 10.0
_KEPT = 500


class RateLimitFilter(logging.Filter):
    """Lets a line of the same text through once in SECONDS, with a count of those held back."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        now = time.monotonic()
        last, held = self._said.get(text, (-SECONDS, 0))
        if now - last < SECONDS:
            self._said[text] = last, held + 1
            return False
        if len(self._said) >= _KEPT:
            self._said.clear()
        self._said[text] = now, 0
        if held:
            record.msg, record.args = f"{text} (and {counted(held, 'time', 'times')} more)", ()
        return True


class NotReadyFilter(logging.Filter):
    """Holds "not enough replicas" back unless it lasts.

    A broker says so to a producer of a transaction that it has yet to begin, even where it is the
    only one: the client tries again some ms later, and that is that. Where replicas are missing, it
    says so again at each of these tries.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, deque[float]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "NotEnoughReplicas" not in text:
            return True
        if len(self._said) >= _KEPT:
            self._said.clear()
        times = self._said.setdefault(text, deque(maxlen=MANY))
        times.append(time.monotonic())
        return len(times) == MANY and times[-1] - times[0] < WITHIN


MANY, WITHIN = 250, 5.0
"""So often in so many seconds it lasts; one that is not ready yet is tried again a few times."""


def install_log_filters() -> None:
    """Put the filters on the client's loggers, once."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for kind in (NotReadyFilter, RateLimitFilter):
            if not any(isinstance(found, kind) for found in logger.filters):
                logger.addFilter(kind())


class Worker(faust.Worker):
    """Faust's, which shows a turning wheel while it starts: here only where somebody may see it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.spinner is not None and not self.spinner.file.isatty():
            self.spinner = None

    async def start(self) -> None:
        """Start; one that is told to stop meanwhile has not failed for what that ends."""
        try:
            await super().start()
        except Exception as error:
            if not self._signal_stop_time:
                raise
            self.log.info("Stopped while it started: %r", error)

    def execute_from_commandline(self) -> NoReturn:
        """Run until it is told to stop; status 2, not Faust's 1, where that fails."""
        try:
            super().execute_from_commandline()
        except SystemExit as ended:
            raise SystemExit(2 if ended.code else 0) from None
