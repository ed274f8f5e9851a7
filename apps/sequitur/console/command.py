"""`sequitur console`: look at a topology, and operate it, in a browser."""

import logging
import os
from pathlib import Path

import click

from sequitur.cli.options import FILE
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.console.access import Access, AccessError, token_of
from topology.model.dotted import find

logger = logging.getLogger("console")


@click.command("console")
@click.option("-A", "--app", "place", required=True, metavar="MODULE[:APP]", help="As of faust -A.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7090,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--token-file", type=FILE, help="Else the token of CONSOLE_TOKEN, if any.")
def command(place: str, host: str, port: int, token_file: Path | None) -> int:
    """Show a topology in a browser, and operate it from there.

    Without a token nobody can change anything. With one, those can who give it.
    Where others than this machine reach the address, it takes the token to read,
    too, and a proxy in front for TLS.
    """
    from sequitur.console.server import serve  # its help needs no NiceGUI

    log_to_stderr()
    try:
        app = find("app", place, "app", lambda found: hasattr(found, "engine"))
        access = Access(host, token_of(token_file, os.environ))
        return serve(app, place, access, port)
    except (*MISTAKES, AccessError) as error:
        return cannot(error, logger)
