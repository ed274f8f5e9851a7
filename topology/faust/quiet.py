"""Keep a Kafka client that has lost its broker from filling the log with the same line."""

import logging
import time

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


class OnceInAWhile(logging.Filter):
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
            record.msg, record.args = f"{text} (and {held} times more)", ()
        return True


def quieten() -> None:
    """Put the filter on the client's loggers, once."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(found, OnceInAWhile) for found in logger.filters):
            logger.addFilter(OnceInAWhile())
