"""The operator's commands of `faust -A app`: skip, redrive, unpark, halt, resume, drop, cancel."""

from dataclasses import replace
from typing import Any, ClassVar

from click import IntRange
from faust.cli import argument, option

from topology.diagnostics.explain.times import seconds_of
from topology.diagnostics.explain.told import WAITS
from topology.engine.commands.command import Command
from topology.faust.inspection.answering import JSON, Answering, CannotTell
from topology.faust.inspection.commands import commands as commands_of
from topology.faust.inspection.named import view_of
from topology.faust.operation.dead_command import CHOICE, Redrive
from topology.faust.operation.many import LIMIT, Choice, many
from topology.faust.operation.operate import ANSWER, LIVES, operate
from topology.sequencer.sequencer import LAST

_VIEW = option("--view", default="", help="The view; may be left out where there is only one.")
_FORCE = option("--force", is_flag=True, default=False, help="Although something is lost by it.")
_DRY_RUN = option("--dry-run", is_flag=True, default=False, help="Only say what would be done.")
_TIMEOUT = option("--timeout", type=float, default=ANSWER, help="Seconds to wait for a worker.")
_LIVES = option(
    "--lives", type=float, default=LIVES,
    help="Seconds after which it is not carried out any more; 0 for never.",
)  # fmt: skip
_STREAM = argument("stream")
_SOME = argument("stream", default="")
_SEQUENCE = argument("sequence", type=IntRange(-(2**63), LAST), default=None, required=False)
_NAME = argument("name")
_COMMON = (_VIEW, JSON, _TIMEOUT, _LIVES)
_MANY = (
    option("--all", "every", is_flag=True, default=False, help="All streams, of all views."),
    option("--older-than", default="", help="Those that have waited for so long: 90s, 15m, 2h."),
    option("--limit", type=int, default=LIMIT, help="So many streams at most, the oldest first."),
)
_REASON = option("--reason", default="", help="Those that failed for a reason with this text.")


class Operator(Answering):
    """A command that a worker carries out; the exit status is 1 where it was refused."""

    abstract: ClassVar[bool] = True

    async def give(self, command: Command, *, as_json: bool, timeout: float, lives: float) -> None:
        """Give the command and say what came of it."""
        command = replace(command, view=view_of(self.app, command.view).name)
        result = await operate(self.app, command, seconds=timeout, lives=lives)
        self.answer(result.message, result, as_json)
        if not result.done:
            raise SystemExit(1)

    async def give_many(
        self, command: Command, *, every: bool, older_than: str, limit: int, reason: str = "",
        as_json: bool, timeout: float, lives: float,
    ) -> None:  # fmt: skip
        """Give it for the streams that are meant, where none is named."""
        meant = every or bool(older_than or reason)
        if command.stream and meant:
            raise CannotTell("name a stream, or say which with --all, --older-than and --reason")
        if command.stream:
            await self.give(command, as_json=as_json, timeout=timeout, lives=lives)
            return
        if not meant:
            raise CannotTell("name a stream, or say which: --all, --older-than 15m, --reason TEXT")
        choice = Choice(command.view, seconds_of(older_than or "0"), reason, limit)
        found = await many(
            self.app, command.name, choice, force=command.force, dry_run=command.dry_run,
            seconds=timeout, lives=lives,
        )  # fmt: skip
        self.answer(str(found), found.as_dict(), as_json)
        if found.unanswered:
            raise CannotTell(
                f"{found.unanswered} streams were not answered in {timeout:.0f} s: does a worker "
                "run? List what waits with `commands`"
            )
        if found.refused or found.more:
            raise SystemExit(1)


def register(app: Any) -> None:
    """Add the commands to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        _SOME, _SEQUENCE, _FORCE, _DRY_RUN,
        *_COMMON, *_MANY, base=Operator,
    )  # fmt: skip
    async def skip(
        self: Operator, stream: str, sequence: int | None, force: bool, dry_run: bool, view: str,
        **options: Any,
    ) -> None:  # fmt: skip
        """Give up the sequence that a stream waits for; of many streams, what each waits for."""
        if stream and sequence is None:
            raise CannotTell("name the sequence, too: skip STREAM SEQUENCE")
        command = Command("skip", view, stream, sequence, force=force, dry_run=dry_run)
        await self.give_many(command, **options)

    @app.command(_SOME, _DRY_RUN, *_COMMON, *_MANY, _REASON, base=Operator)  # type: ignore[untyped-decorator]
    async def redrive(
        self: Operator, stream: str, dry_run: bool, view: str, **options: Any
    ) -> None:
        """Handle a parked stream's events again, from the failed one on."""
        await self.give_many(Command("redrive", view, stream, dry_run=dry_run), **options)

    @app.command(_SOME, _DRY_RUN, *_COMMON, *_MANY, _REASON, base=Operator)  # type: ignore[untyped-decorator]
    async def unpark(self: Operator, stream: str, dry_run: bool, view: str, **options: Any) -> None:
        """Release a parked stream without its failed event, which goes to the dead topic."""
        await self.give_many(Command("unpark", view, stream, dry_run=dry_run), **options)

    @app.command(_STREAM, _FORCE, _DRY_RUN, *_COMMON, base=Operator)  # type: ignore[untyped-decorator]
    async def drop(
        self: Operator, stream: str, force: bool, dry_run: bool, view: str, **options: Any
    ) -> None:
        """Forget a stream in a view: its progress, its state, and with --force what waits."""
        await self.give(Command("drop", view, stream, force=force, dry_run=dry_run), **options)

    @app.command(_VIEW, *CHOICE, JSON, base=Redrive)  # type: ignore[untyped-decorator]
    async def redrive_dead(
        self: Redrive, view: str, stream: str | None, reason: str | None, older_than: str,
        dry_run: bool, as_json: bool,
    ) -> None:  # fmt: skip
        """Put events of the dead topic back into their view, in order, each once."""
        await self.redrive(view, stream, reason, older_than, dry_run=dry_run, as_json=as_json)

    @app.command(_NAME, JSON, _TIMEOUT, _LIVES, base=Operator)  # type: ignore[untyped-decorator]
    async def halt(self: Operator, name: str, **options: Any) -> None:
        """Let a view take no more input, in all its partitions, until it is resumed."""
        await self.give(Command("halt", name), **options)

    @app.command(_NAME, JSON, _TIMEOUT, _LIVES, base=Operator)  # type: ignore[untyped-decorator]
    async def resume(self: Operator, name: str, **options: Any) -> None:
        """Let a halted view go on."""
        await self.give(Command("resume", name), **options)

    @app.command(argument("id"), JSON, _TIMEOUT, base=Operator)  # type: ignore[untyped-decorator]
    async def cancel(self: Operator, id: str, **options: Any) -> None:
        """Take a command back that no worker has carried out yet; `commands` lists them."""
        looked = await commands_of(self.app, limit=0)
        meant = [told for told in looked.found if told.state == WAITS and told.id.startswith(id)]
        if len(meant) != 1:
            many_or_none = f"{len(meant)} commands wait" if meant else "no command waits"
            raise CannotTell(f"{many_or_none} whose id begins with {id!r}; see `commands`")
        (told,) = meant
        command = Command("cancel", told.view, told.stream, cancels=told.id)
        await self.give(command, lives=0, **options)
