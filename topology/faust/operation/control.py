"""What an operator tells the views of a topology: a function for each command."""

from typing import Any

from topology.diagnostics.explain.command_log import WAITS
from topology.engine.commands.command import Command, CommandResult
from topology.faust.inspection import CannotAnswer, commands
from topology.faust.operation.command_sender import ANSWER, EXPIRES, operate


async def skip(
    app: Any, stream: str, sequence: int, *, view: str = "", force: bool = False,
    dry_run: bool = False, seconds: float = ANSWER, expires: float = EXPIRES, why: str = "",
) -> CommandResult:  # fmt: skip
    """Give up the sequence that a stream waits for; what comes of it later is late.

    Args:
        app: what `compile` made.
        stream: the stream's id.
        sequence: the sequence to give up; with `force`, everything up to it.
        view: the view's name; may be left out where there is only one.
        force: do it although it loses something: events that wait go to the dead topic.
        dry_run: say only what would be done.
        seconds: how long to wait for a worker's answer.
        expires: seconds after which no worker carries the command out any more; 0 for never.
        why: for the record.

    Returns:
        Whether it was done, and a message.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: no worker answered in time.
    """
    command = Command("skip", view, stream, sequence, force=force, dry_run=dry_run, why=why)
    return await operate(app, command, seconds=seconds, expires=expires)


async def redrive(
    app: Any, stream: str, *, view: str = "", dry_run: bool = False, seconds: float = ANSWER,
    expires: float = EXPIRES, why: str = "",
) -> CommandResult:  # fmt: skip
    """Handle a parked stream's events again, from the failed one on.

    Args:
        app: what `compile` made.
        stream: the stream's id.
        view: the view's name; may be left out where there is only one.
        dry_run: say only what would be done.
        seconds: how long to wait for a worker's answer.
        expires: seconds after which no worker carries the command out any more; 0 for never.
        why: for the record.

    Returns:
        Whether it was done, and a message.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: no worker answered in time.
    """
    command = Command("redrive", view, stream, dry_run=dry_run, why=why)
    return await operate(app, command, seconds=seconds, expires=expires)


async def unpark(
    app: Any, stream: str, *, view: str = "", dry_run: bool = False, seconds: float = ANSWER,
    expires: float = EXPIRES, why: str = "",
) -> CommandResult:  # fmt: skip
    """Release a parked stream without its failed event, which goes to the dead topic.

    Args:
        app: what `compile` made.
        stream: the stream's id.
        view: the view's name; may be left out where there is only one.
        dry_run: say only what would be done.
        seconds: how long to wait for a worker's answer.
        expires: seconds after which no worker carries the command out any more; 0 for never.
        why: for the record.

    Returns:
        Whether it was done, and a message.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: no worker answered in time.
    """
    command = Command("unpark", view, stream, dry_run=dry_run, why=why)
    return await operate(app, command, seconds=seconds, expires=expires)


async def drop(
    app: Any, stream: str, *, view: str = "", force: bool = False, dry_run: bool = False,
    seconds: float = ANSWER, expires: float = EXPIRES, why: str = "",
) -> CommandResult:  # fmt: skip
    """Forget a stream in a view: its progress and its state.

    Args:
        app: what `compile` made.
        stream: the stream's id.
        view: the view's name; may be left out where there is only one.
        force: forget what waits, too; the events go to the dead topic.
        dry_run: say only what would be done.
        seconds: how long to wait for a worker's answer.
        expires: seconds after which no worker carries the command out any more; 0 for never.
        why: for the record.

    Returns:
        Whether it was done, and a message.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: no worker answered in time.
    """
    command = Command("drop", view, stream, force=force, dry_run=dry_run, why=why)
    return await operate(app, command, seconds=seconds, expires=expires)


async def halt(
    app: Any, view: str, *, seconds: float = ANSWER, expires: float = EXPIRES, why: str = ""
) -> CommandResult:
    """Stop a view from taking input, in all its partitions, until it is resumed.

    Args:
        app: what `compile` made.
        view: the view's name.
        seconds: how long to wait for a worker's answer.
        expires: seconds after which no worker carries the command out any more; 0 for never.
        why: for the record.

    Returns:
        Whether it was done, and a message.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: no worker answered in time.
    """
    return await operate(app, Command("halt", view, why=why), seconds=seconds, expires=expires)


async def resume(
    app: Any, view: str, *, seconds: float = ANSWER, expires: float = EXPIRES, why: str = ""
) -> CommandResult:
    """Let a halted view go on.

    Args:
        app: what `compile` made.
        view: the view's name.
        seconds: how long to wait for a worker's answer.
        expires: seconds after which no worker carries the command out any more; 0 for never.
        why: for the record.

    Returns:
        Whether it was done, and a message.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: no worker answered in time.
    """
    return await operate(app, Command("resume", view, why=why), seconds=seconds, expires=expires)


async def cancel(app: Any, id: str, *, seconds: float = ANSWER) -> CommandResult:
    """Take a command back that no worker has carried out.

    Args:
        app: what `compile` made.
        id: the command's, or what it begins with; `commands` lists them.
        seconds: how long to wait for a worker's answer.

    Returns:
        Whether it was done, and a message.

    Raises:
        CannotAnswer: not exactly one command waits that has the id, or no worker answered in time.
    """
    found = (await commands(app, limit=0)).found
    meant = [told for told in found if told.state == WAITS and told.id.startswith(id)]
    if len(meant) != 1:
        many_or_none = f"{len(meant)} commands wait" if meant else "no command waits"
        raise CannotAnswer(f"{many_or_none} whose id begins with {id!r}; see `commands`")
    (told,) = meant
    command = Command("cancel", told.view, told.stream, cancels=told.id)
    return await operate(app, command, seconds=seconds, expires=0)
