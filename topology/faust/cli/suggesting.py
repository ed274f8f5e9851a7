"""A mistyped command, or Faust's own folder: `faust -A app` names what was meant."""

from typing import Any

from click import Context
from click.core import ParameterSource
from faust.cli.base import cli

from topology.model.closest import closest

_resolve = cli.resolve_command


def _resolved(ctx: Context, args: list[str]) -> Any:
    """As click resolves a command; of one that is not there, what comes close is named too."""
    if ctx.get_parameter_source("datadir") is ParameterSource.COMMANDLINE:
        ctx.fail("--datadir is not the worker's folder; set SEQUITUR_DATADIR")
    if args and cli.get_command(ctx, args[0]) is None:
        ctx.fail(f"No such command {args[0]!r}{closest(args[0], cli.list_commands(ctx))}")
    return _resolve(ctx, args)


def suggest_commands() -> None:
    """Have Faust's command line suggest commands. It is one for all apps of a process."""
    cli.resolve_command = _resolved  # type: ignore[method-assign]
