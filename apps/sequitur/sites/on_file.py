"""Commands that ask sites, or decide of them: their file, and what is away said in one line."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from sequitur.cli.options import FILE
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.sites.config import load_sites
from stores.sites import SiteError
from stores.sites.errors import AWAY

logger = logging.getLogger("sites")


def on_file(function: Callable[..., Awaitable[int]]) -> Callable[..., int]:
    """Give a command its file, and let it say in one line why it cannot be done."""

    @click.argument("file", type=FILE)
    @wraps(function)
    def run(file: Path, **given: Any) -> int:
        log_to_stderr()
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        try:
            found = load_sites(file)
            return asyncio.run(function(found, **given))  # type: ignore[arg-type]
        except (*MISTAKES, SiteError, *AWAY, ValueError) as error:
            return cannot(error, logger)

    return run
