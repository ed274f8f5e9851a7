"""How the commands of `sequitur replay` read their file, and how they end."""

import logging
from collections.abc import Callable
from pathlib import Path

from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.replay.content import check_contents
from sequitur.replay.replay_file import ReplayFile, read_replay_file

logger = logging.getLogger("replay")


def in_one_line(run: Callable[[ReplayFile], int], file: Path) -> int:
    """Read FILE and run; what is wrong is one line, without secrets."""
    try:
        found = read_replay_file(file)
        log_to_stderr([found.url])
        check_contents(found)
        return run(found)
    except (*MISTAKES, ValueError) as error:
        log_to_stderr()
        return cannot(error, logger)
