"""How the commands of `sequitur units` end."""

import logging
from collections.abc import Callable

from aiokafka.errors import KafkaError

from sequitur.cli.outcome import cannot, log_to_stderr
from sequitur.cli.statuses import CANNOT
from stores.units import UnitError

logger = logging.getLogger("units")


def status_of(run: Callable[[], int]) -> int:
    """Run a command; returns its status, and says in one line why it could not be done."""
    log_to_stderr()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        return run()
    except (UnitError, ValueError, KafkaError, OSError) as error:
        return cannot(error, logger) or CANNOT
