"""What the commands of `sequitur units` share: the token, and how they end."""

import logging
import os
from collections.abc import Callable

from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.statuses import CANNOT
from stores.units import UnitError

TOKEN = "UNITS_TOKEN"
"""The variable that has the token of consumers and administrators."""

logger = logging.getLogger("units")


def status_of(run: Callable[[], int]) -> int:
    """Run a command; returns its status, and says in one line why it could not be done."""
    log_to_stderr()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        return run()
    except (UnitError, ValueError, *MISTAKES) as error:
        return cannot(error, logger) or CANNOT


def units_token() -> str:
    """The token in the environment. Raises ValueError where there is none."""
    if not (found := os.environ.get(TOKEN)):
        raise ValueError(f"set {TOKEN} to the servers' secret, of at least 16 ASCII characters")
    return found
