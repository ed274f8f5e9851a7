"""Commands whose mistakes are one line, without what may be secret in it."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click

from topology.model.dotted import extra_of

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class Command(click.Command):
    """A command that does not repeat a word it did not expect: it may be a secret."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line. Raises click.UsageError."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            ctx.fail("there are words without an option")
        return rest


class Group(click.Group):
    """Commands, of which those that come close to a mistyped name are named."""

    command_class = Command
    group_class = type

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named first. Raises click.UsageError."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-"):
            known = self.list_commands(ctx)
            if name not in known:
                close = get_close_matches(name, known, n=2, cutoff=0.6)
                meant = f" Did you mean {' or '.join(close)}?" if close else ""
                ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)


class Lazy(NamedTuple):
    """A command that is imported when it is run.

    module: where it is, under the name `command`. help: one line.
    """

    module: str
    help: str


class LazyGroup(Group):
    """Commands of which only the one that runs is imported."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order in which help shows them."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported; None if there is none of that name."""
        if cmd_name not in self.lazy:
            return None
        try:
            found = import_module(self.lazy[cmd_name].module).command
        except ModuleNotFoundError as error:
            if not (extra := extra_of(error.name or "")):
                raise
            raise click.ClickException(
                f"{cmd_name} needs {error.name}, which is not installed{extra}"
            ) from None
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.help) for name, each in self.lazy.items()])
