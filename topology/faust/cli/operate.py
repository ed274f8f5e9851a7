"""The operator's commands: skip, redrive, unpark, drop, redrive-dead, halt, resume, cancel."""

from typing import Any, ClassVar

from click import IntRange
from faust.cli import argument, option

from topology.engine.commands.command import CommandResult
from topology.faust.cli.answering import BAD_NEWS, AnsweringCommand
from topology.faust.cli.options import (
    DRY_RUN,
    DURATION,
    JSON,
    OLDER_THAN,
    ONE_VIEW,
    REASON,
    WHY,
    limit,
)
from topology.faust.inspection import CannotAnswer
from topology.faust.operation import control
from topology.faust.operation.bulk import LIMIT, StreamSelection, operate_many
from topology.faust.operation.command_sender import ANSWER, EXPIRES
from topology.faust.operation.dead_events import redrive_dead as put_back
from topology.model.counted import counted
from topology.sequencer.sequencer import LAST

_FORCE = option("--force", is_flag=True, default=False, help="Do it although it loses something.")
_TIMEOUT = option(
    "--timeout",
    "seconds",
    type=DURATION,
    default=f"{ANSWER:g}s",
    help="How long to wait for a worker.",
)
_EXPIRES = option(
    "--expires", type=DURATION, default=f"{EXPIRES:g}s",
    help="Time after which no worker carries the command out any more; 0 for never.",
)  # fmt: skip
_STREAM = argument("stream")
_ANY_STREAM = argument("stream", default="")
_SEQUENCE = argument("sequence", type=IntRange(-(2**63), LAST), default=None, required=False)
_NAME = argument("view")
_TOLD = (JSON, WHY, _TIMEOUT, _EXPIRES)
_MANY = (
    option("--all", "every", is_flag=True, default=False, help="All streams, of all views."),
    OLDER_THAN,
    limit(LIMIT, "Streams at most, the oldest first."),
)


class OperatorCommand(AnsweringCommand):
    """A command that a worker carries out; the exit status is 1 where it was refused."""

    abstract: ClassVar[bool] = True

    def told(self, result: CommandResult) -> None:
        """Say what came of a command."""
        self.answer(result.message, result, bad=not result.done)

    async def give_many(
        self, name: str, *, view: str, older_than: float | None, limit: int, reason: str = "",
        **options: Any,
    ) -> None:  # fmt: skip
        """Give a command for each of the streams that are meant."""
        choice = StreamSelection(view, older_than or 0, reason, limit)
        found = await operate_many(self.app, name, choice, **options)
        self.answer(str(found), found.as_dict())
        if found.unanswered:
            raise CannotAnswer(
                f"{counted(found.unanswered, 'stream was', 'streams were')} not answered "
                f"in {options['seconds']:.0f} s: does a worker run? List what waits with `commands`"
            )
        if found.refused or found.more or found.unread:
            raise SystemExit(BAD_NEWS)


def _meant(stream: str, every: bool, older_than: float | None, reason: str = "") -> bool:
    """Whether one stream is meant, rather than many. Raises CannotAnswer for both and neither."""
    many = every or older_than is not None or bool(reason)
    if stream and many:
        raise CannotAnswer("name a stream, or say which with --all, --older-than and --reason")
    if not stream and not many:
        raise CannotAnswer("name a stream, or say which: --all, --older-than 15m, --reason TEXT")
    return not many


def register(app: Any) -> None:
    """Add the commands to an app's command line."""
    _register_of_streams(app)
    _register_of_views(app)


def _register_of_streams(app: Any) -> None:
    @app.command(  # type: ignore[untyped-decorator]
        _ANY_STREAM, _SEQUENCE, ONE_VIEW, *_MANY, _FORCE, DRY_RUN, *_TOLD, base=OperatorCommand
    )
    async def skip(
        self: OperatorCommand, stream: str, sequence: int | None, every: bool,
        older_than: float | None, limit: int, **options: Any,
    ) -> None:  # fmt: skip
        """Give up what STREAM waits for, up to SEQUENCE; of many streams, what each waits for."""
        if not _meant(stream, every, older_than):
            await self.give_many("skip", older_than=older_than, limit=limit, **options)
        elif sequence is None:
            raise CannotAnswer("name the sequence, too: skip STREAM SEQUENCE")
        else:
            self.told(await control.skip(self.app, stream, sequence, **options))

    @app.command(  # type: ignore[untyped-decorator]
        _ANY_STREAM, ONE_VIEW, *_MANY, REASON, DRY_RUN, *_TOLD, base=OperatorCommand
    )
    async def redrive(
        self: OperatorCommand, stream: str, every: bool, older_than: float | None,
        limit: int, reason: str, **options: Any,
    ) -> None:  # fmt: skip
        """Handle a parked stream's events again, from the failed one on."""
        if _meant(stream, every, older_than, reason):
            self.told(await control.redrive(self.app, stream, **options))
        else:
            await self.give_many(
                "redrive", older_than=older_than, limit=limit, reason=reason, **options
            )

    @app.command(  # type: ignore[untyped-decorator]
        _ANY_STREAM, ONE_VIEW, *_MANY, REASON, DRY_RUN, *_TOLD, base=OperatorCommand
    )
    async def unpark(
        self: OperatorCommand, stream: str, every: bool, older_than: float | None,
        limit: int, reason: str, **options: Any,
    ) -> None:  # fmt: skip
        """Release a parked stream without its failed event, which goes to the dead topic."""
        if _meant(stream, every, older_than, reason):
            self.told(await control.unpark(self.app, stream, **options))
        else:
            await self.give_many(
                "unpark", older_than=older_than, limit=limit, reason=reason, **options
            )

    @app.command(_STREAM, ONE_VIEW, _FORCE, DRY_RUN, *_TOLD, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def drop(self: OperatorCommand, stream: str, **options: Any) -> None:
        """Forget a stream in a view: its progress, its state, and with --force what waits."""
        self.told(await control.drop(self.app, stream, **options))

    @app.command(  # type: ignore[untyped-decorator]
        ONE_VIEW,
        option("--stream", default=None, help="Only dead events of this stream."),
        REASON, OLDER_THAN, DRY_RUN, WHY, JSON, base=AnsweringCommand,
    )  # fmt: skip
    async def redrive_dead(
        self: AnsweringCommand, older_than: float | None, **options: Any
    ) -> None:
        """Put events of the dead topic back into their view, in order, each once."""
        done = await put_back(self.app, older_than=older_than or 0, **options)
        self.answer(str(done), done.as_dict())


def _register_of_views(app: Any) -> None:
    @app.command(_NAME, *_TOLD, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def halt(self: OperatorCommand, view: str, **options: Any) -> None:
        """Stop VIEW from taking input, in all its partitions, until it is resumed."""
        self.told(await control.halt(self.app, view, **options))

    @app.command(_NAME, *_TOLD, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def resume(self: OperatorCommand, view: str, **options: Any) -> None:
        """Let the halted VIEW go on."""
        self.told(await control.resume(self.app, view, **options))

    @app.command(argument("id"), JSON, _TIMEOUT, base=OperatorCommand)  # type: ignore[untyped-decorator]
    async def cancel(self: OperatorCommand, id: str, **options: Any) -> None:
        """Take a command back that no worker has carried out; `commands` lists the ids."""
        self.told(await control.cancel(self.app, id, **options))
