"""The operator's commands of `faust -A app`: skip, redrive, unpark, halt, resume, drop."""

import sys
from typing import Any

import orjson
from click import IntRange
from faust.cli import AppCommand, argument, option

from topology.commands import Command
from topology.faust.cli_dead import CHOICE, Redrive
from topology.faust.operate import ANSWER, NoAnswer, operate, view_of
from topology.sequencer import LAST

_VIEW = option("--view", default="", help="The view; may be left out where there is only one.")
_FORCE = option("--force", is_flag=True, default=False, help="Although something is lost by it.")
_DRY_RUN = option(
    "--dry-run", is_flag=True, default=False, help="Only say what would be released, and fail."
)
_JSON = option("--json", "as_json", is_flag=True, default=False, help="Answer in JSON.")
_TIMEOUT = option("--timeout", type=float, default=ANSWER, help="Seconds to wait for a worker.")
_STREAM = argument("stream")
_SEQUENCE = argument("sequence", type=IntRange(-(2**63), LAST))
_NAME = argument("name")


class Operator(AppCommand):
    """A command that a worker carries out; the exit status is 1 where it was refused."""

    redirect_stdouts = False

    async def give(self, command: Command, *, as_json: bool, timeout: float) -> None:
        """Give the command and say what came of it."""
        try:
            view = view_of(self.app, command.view)
            result = await operate(self.app, _named(command, view.name), seconds=timeout)
        except (KeyError, NoAnswer) as error:
            self.carp_plainly(error.args[0])
            raise SystemExit(2) from None
        if as_json:
            print(orjson.dumps(result).decode())
        else:
            print(result.message)
        sys.stdout.flush()
        if not result.done:
            raise SystemExit(1)

    def carp_plainly(self, text: str) -> None:
        """Say what is wrong, on standard error."""
        print(text, file=sys.stderr, flush=True)


def _named(command: Command, view: str) -> Command:
    return Command(
        command.name, view, command.stream, command.sequence,
        force=command.force, dry_run=command.dry_run,
    )  # fmt: skip


def register(app: Any) -> None:
    """Add the commands to an app's command line."""
    common = (_VIEW, _JSON, _TIMEOUT)

    @app.command(_STREAM, _SEQUENCE, _FORCE, *common, base=Operator)  # type: ignore[untyped-decorator]
    async def skip(
        self: Operator, stream: str, sequence: int, force: bool, view: str, as_json: bool,
        timeout: float,
    ) -> None:  # fmt: skip
        """Give up the sequence that a stream waits for."""
        command = Command("skip", view, stream, sequence, force=force)
        await self.give(command, as_json=as_json, timeout=timeout)

    @app.command(_STREAM, _DRY_RUN, *common, base=Operator)  # type: ignore[untyped-decorator]
    async def redrive(
        self: Operator, stream: str, dry_run: bool, view: str, as_json: bool, timeout: float
    ) -> None:
        """Handle a parked stream's events again, from the failed one on."""
        command = Command("redrive", view, stream, dry_run=dry_run)
        await self.give(command, as_json=as_json, timeout=timeout)

    @app.command(_STREAM, *common, base=Operator)  # type: ignore[untyped-decorator]
    async def unpark(self: Operator, stream: str, view: str, as_json: bool, timeout: float) -> None:
        """Release a parked stream without its failed event, which goes to the dead topic."""
        await self.give(Command("unpark", view, stream), as_json=as_json, timeout=timeout)

    @app.command(_STREAM, _FORCE, *common, base=Operator)  # type: ignore[untyped-decorator]
    async def drop(
        self: Operator, stream: str, force: bool, view: str, as_json: bool, timeout: float
    ) -> None:
        """Forget a stream in a view: its progress, its state, and with --force what waits."""
        command = Command("drop", view, stream, force=force)
        await self.give(command, as_json=as_json, timeout=timeout)

    @app.command(_VIEW, *CHOICE, _JSON, base=Redrive)  # type: ignore[untyped-decorator]
    async def redrive_dead(
        self: Redrive, view: str, stream: str | None, reason: str | None, older_than: float,
        dry_run: bool, as_json: bool,
    ) -> None:  # fmt: skip
        """Put events of the dead topic back into their view, in order, each once."""
        await self.redrive(view, stream, reason, older_than, dry_run=dry_run, as_json=as_json)

    @app.command(_NAME, _JSON, _TIMEOUT, base=Operator)  # type: ignore[untyped-decorator]
    async def halt(self: Operator, name: str, as_json: bool, timeout: float) -> None:
        """Let a view take no more input, in all its partitions, until it is resumed."""
        await self.give(Command("halt", name), as_json=as_json, timeout=timeout)

    @app.command(_NAME, _JSON, _TIMEOUT, base=Operator)  # type: ignore[untyped-decorator]
    async def resume(self: Operator, name: str, as_json: bool, timeout: float) -> None:
        """Let a halted view go on."""
        await self.give(Command("resume", name), as_json=as_json, timeout=timeout)
