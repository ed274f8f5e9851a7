"""`sequitur console`: look at a topology, and operate it, in a browser."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import click

from sequitur.cli.options import FILE, PORT, Reads
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.console.access import Access, AccessError, token_of
from sequitur.console.words import PARTS, Words, words_of
from topology.model.dotted import find

logger = logging.getLogger("console")


def _parts(function: Callable[..., int]) -> Callable[..., int]:
    """Add an option for each kind of part."""
    for name, help in reversed(PARTS.items()):
        made = click.option(
            f"--{name}", type=Reads("WORDS", words_of), multiple=True, help=help
        )  # fmt: skip
        function = made(function)
    return function


@click.command("console")
@click.option("-A", "--app", "place", required=True, metavar="MODULE[:APP]", help="As of faust -A.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=PORT,
    default=7090,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option("--token-file", type=FILE, help="Else the token of CONSOLE_TOKEN, if any.")
@_parts
def command(
    place: str, host: str, port: int, token_file: Path | None, **parts: tuple[Words, ...]
) -> int:
    """Show a topology in a browser, and operate it from there.

    Who gives the token can change things. Where others than this machine reach the
    address, it takes the token to read, too, and a proxy in front for TLS. What runs
    beside the topology has pages if you name it; its options can be repeated.
    """
    from sequitur.console.server import serve  # its help needs no NiceGUI

    log_to_stderr()
    try:
        app = find("app", place, "app", lambda found: hasattr(found, "engine"))
        access = Access(host, token_of(token_file, os.environ))
        named = {name.replace("_", "-"): given for name, given in parts.items()}
        return serve(app, place, access, port, named)
    except (*MISTAKES, AccessError) as error:
        return cannot(error, logger)
