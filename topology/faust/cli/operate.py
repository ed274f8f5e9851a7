"""The operator's commands: skip, redrive, unpark, drop, redrive-dead, halt, resume, cancel."""

from dataclasses import replace
from typing import Any, ClassVar

from click import IntRange
from faust.cli import argument, option

from topology.diagnostics.explain.command_log import WAITS
from topology.engine.commands.command import Command
from topology.engine.redelivery.dead_events import DeadEventFilter
from topology.faust.cli.answering import BAD_NEWS, AnsweringCommand
from topology.faust.cli.options import (
    DRY_RUN,
    DURATION,
    JSON,
    OLDER_THAN,
    ONE_VIEW,
    REASON,
    limit,
)
from topology.faust.inspection import commands as found_commands
from topology.faust.inspection.cannot_answer import CannotAnswer
from topology.faust.inspection.named import view_of
from topology.faust.kafka.worker_clock import wall
from topology.faust.operation.bulk import LIMIT, StreamSelection, operate_many
from topology.faust.operation.command_sender import ANSWER, EXPIRES, operate
from topology.faust.operation.dead_events import redrive_dead as put_back
from topology.model.counted import counted
from topology.sequencer.sequencer import LAST

_FORCE = option("--force", is_flag=True, default=False, help="Do it although it loses something.")
_TIMEOUT = option(
    "--timeout", type=DURATION, default=f"{ANSWER:g}s", help="How long to wait for a worker."
)
_EXPIRES = option(
    "--expires", type=DURATION, default=f"{EXPIRES:g}s",
    help="Time after which no worker carries the command out any more; 0 for never.",
)  # fmt: skip
_STREAM = argument("stream")
_ANY_STREAM = argument("stream", default="")
_SEQUENCE = argument("sequence", type=IntRange(-(2**63), LAST), default=None, required=False)
_NAME = argument("view")
_TOLD = (JSON, _TIMEOUT, _EXPIRES)
_MANY = (
    option("--all", "every", is_flag=True, default=False, help="All streams, of all views."),
    OLDER_THAN,
    limit(LIMIT, "Streams at most, the oldest first."),
)


class OperatorCommand(AnsweringCommand):
    """A command that a worker carries out; the exit status is 1 where it was refused."""

    abstract: ClassVar[bool] = True

    async def give(self, command: Command, *, timeout: float, expires: float) -> None:
        """Give the command and say what came of it."""
        command = replace(command, view=view_of(self.app, command.view).name)
        result = await operate(self.app, command, seconds=timeout, expires=expires)
        self.answer(result.message, result, bad=not result.done)

    async def give_many(
        self, command: Command, *, every: bool, older_than: float | None, limit: int,
        reason: str = "", timeout: float, expires: float,
    ) -> None:  # fmt: skip
        """Give it for the streams that are meant, where none is named."""
        meant = every or older_than is not None or bool(reason)
        if command.stream and meant:
            raise CannotAnswer("name a stream, or say which with --all, --older-than and --reason")
        if command.stream:
            await self.give(command, timeout=timeout, expires=expires)
            return
        if not meant:
            raise CannotAnswer(
                "name a stream, or say which: --all, --older-than 15m, --reason TEXT"
            )
        choice = StreamSelection(command.view, older_than or 0, reason, limit)
        found = await operate_many(
            self.app, command.name, choice, force=command.force, dry_run=command.dry_run,
            seconds=timeout, expires=expires,
        )  # fmt: skip
        self.answer(str(found), found.as_dict())
        if found.unanswered:
            raise CannotAnswer(
                f"{counted(found.unanswered, 'stream was', 'streams were')} not answered "
                f"in {timeout:.0f} s: does a worker run? List what waits with `commands`"
            )
        if found.refused or found.more:
            raise SystemExit(BAD_NEWS)


def register(app: Any) -> None:
    """Add the commands to an app's command line."""
    _register_of_streams(app)
    _register_of_views(app)


def _register_of_streams(app: Any) -> None:
    @app.command(  # type: ignore[untyped-decorator]
        _ANY_STREAM, _SEQUENCE, ONE_VIEW, *_MANY, _FORCE, DRY_RUN, *_TOLD, base=OperatorCommand
    )
    async def skip(
        self: OperatorCommand, stream: str, sequence: int | None, force: bool, dry_run: bool,
        view: str, **options: Any,
    ) -> None:  # fmt: skip
        """Give up what STREAM waits for, up to SEQUENCE; of many streams, what each waits for."""
        if stream and sequence is None:
            raise CannotAnswer("name the sequence, too: skip STREAM SEQUENCE")
        command = Command("skip", view, stream, sequence, force=force, dry_run=dry_run)
        await self.give_many(command, **options)

    @app.command(  # type: ignore[untyped-decorator]
        _ANY_STREAM, ONE_VIEW, *_MANY, REASON, DRY_RUN, *_TOLD, base=OperatorCommand
    )
    async def redrive(
        self: OperatorCommand, stream: str, dry_run: bool, view: str, **options: Any
    ) -> None:
        """Handle a parked stream's events again, from the failed one on."""
        await self.give_many(Command("redrive", view, stream, dry_run=dry_run), **options)

    @app.command(  # type: ignore[untyped-decorator]
        _ANY_STREAM, ONE_VIEW, *_MANY, REASON, DRY_RUN, *_TOLD, base=OperatorCommand
    )
    async def unpark(
        self: OperatorCommand, stream: str, dry_run: bool, view: str, **options: Any
    ) -> None:
        """Release a parked stream without its failed event, which goes to the dead topic."""
        await self.give_many(Command("unpark", view, stream, dry_run=dry_run), **options)

    @app.command(_STREAM, ONE_VIEW, _FORCE, DRY_RUN, *_TOLD, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def drop(
        self: OperatorCommand, stream: str, force: bool, dry_run: bool, view: str, **options: Any
    ) -> None:
        """Forget a stream in a view: its progress, its state, and with --force what waits."""
        await self.give(Command("drop", view, stream, force=force, dry_run=dry_run), **options)

    @app.command(  # type: ignore[untyped-decorator]
        ONE_VIEW,
        option("--stream", default=None, help="Only dead events of this stream."),
        REASON, OLDER_THAN, DRY_RUN, JSON, base=AnsweringCommand,
    )  # fmt: skip
    async def redrive_dead(
        self: AnsweringCommand, view: str, stream: str | None, reason: str,
        older_than: float | None, dry_run: bool,
    ) -> None:  # fmt: skip
        """Put events of the dead topic back into their view, in order, each once."""
        until = wall() - round((older_than or 0) * 1000)
        choice = DeadEventFilter(stream, reason or None, until)
        done = await put_back(self.app, view_of(self.app, view), choice, dry_run=dry_run)
        self.answer(str(done), done.as_dict())


def _register_of_views(app: Any) -> None:
    @app.command(_NAME, *_TOLD, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def halt(self: OperatorCommand, view: str, **options: Any) -> None:
        """Stop VIEW from taking input, in all its partitions, until it is resumed."""
        await self.give(Command("halt", view), **options)

    @app.command(_NAME, *_TOLD, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def resume(self: OperatorCommand, view: str, **options: Any) -> None:
        """Let the halted VIEW go on."""
        await self.give(Command("resume", view), **options)

    @app.command(argument("id"), JSON, _TIMEOUT, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def cancel(self: OperatorCommand, id: str, **options: Any) -> None:
        """Take a command back that no worker has carried out; `commands` lists the ids."""
        found = (await found_commands(self.app, limit=0)).found
        meant = [told for told in found if told.state == WAITS and told.id.startswith(id)]
        if len(meant) != 1:
            many_or_none = f"{len(meant)} commands wait" if meant else "no command waits"
            raise CannotAnswer(f"{many_or_none} whose id begins with {id!r}; see `commands`")
        (told,) = meant
        command = Command("cancel", told.view, told.stream, cancels=told.id)
        await self.give(command, expires=0, **options)
