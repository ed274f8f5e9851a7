"""What an operator can tell a view: skip, redrive, unpark, halt, resume, drop.

Each is a function of a ViewTask that changes its memory and leaves the rows, and a record for the
audit topic, to a commit unit, as a step does; `StreamTask.finish` closes it, as a step's. What goes
on because of it, goes on in the step that follows: the task is `unfinished`. A command that would
break a promise is refused unless forced.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

import orjson

from topology.declaration.policies import Halt
from topology.engine.commands.command import (
    Command,
    CommandRefused,
    CommandResult,
    decode_command,
    encode_command,
)
from topology.engine.commands.dry_run import DryRun, adry_run
from topology.engine.commands.stream_commands import (
    drop,
    moved,
    redrive,
    redrive_dry_run,
    release_in_order,
    released,
    skip,
    unpark,
)
from topology.engine.commit_unit import CommitUnit
from topology.engine.state.lane_names import ids_of
from topology.engine.view_task import ViewTask
from topology.model.event import Message
from topology.model.printable import printable
from topology.sequencer.progress import Progress

__all__ = [
    "Command",
    "CommandRefused",
    "CommandResult",
    "aexecute",
    "decode_command",
    "drop",
    "encode_command",
    "execute",
    "halt",
    "obey",
    "redrive",
    "resume",
    "skip",
    "unpark",
]

Do = Callable[[ViewTask, Command, CommitUnit], CommandResult]


def execute(
    task: ViewTask, command: Command, unit: CommitUnit, tried: DryRun | None = None
) -> CommandResult:
    """Carry a command out, and audit it; `unit.now` is when.

    tried: for a dry run, of a view whose handler has to be awaited; see `aexecute`.
    """
    command = _to_stream(task, command)
    try:
        result = _done(task, command, unit, tried)
    except CommandRefused as reason:
        result = CommandResult(False, str(reason), reason.facts)
    _note(task, command, result, unit)
    return result


def _done(
    task: ViewTask, command: Command, unit: CommitUnit, tried: DryRun | None
) -> CommandResult:
    """What comes of a command. Raises CommandRefused."""
    name = command.name
    if command.expires and unit.now > command.expires:
        age = (unit.now - command.given) // 1000 if command.given else 0
        told = f"{name} was given {age} s ago, and is too old; give it again if it is still meant"
        return CommandResult(False, told, {}, "expired")
    if name == "cancel":
        raise CommandRefused(
            f"command {printable(command.cancels)} does not wait any more: it was carried out, or "
            "another one cancelled it; list the commands to see"
        )
    if command.view != task.view.name:
        raise CommandRefused(f"it is for view {printable(command.view)}, not for {task.view.name}")
    do = _COMMANDS.get(name)
    if do is None:
        known = ", ".join(_COMMANDS)
        raise CommandRefused(f"there is no command {printable(repr(name))}; there are {known}")
    if not command.stream and do not in (halt, resume):
        raise CommandRefused(f"{name} needs a stream")
    if do in (redrive, unpark) and task.view.work is not None and not _held(task, command.stream):
        return release_in_order(task, command, unit)
    if not command.dry_run:
        task.state.save(unit)
        return do(task, command, unit)
    if do is redrive:
        return redrive_dry_run(task, command, tried)
    if do in (skip, unpark, drop):
        return do(task, command, unit)
    raise CommandRefused(f"{name} has no dry run; skip, redrive, unpark and drop have")


def _held(task: ViewTask, stream: str | None) -> bool:
    """Whether the stage that orders has a stream parked, not one behind it."""
    progress = task.state.progress(stream or "")
    return isinstance(progress, Progress) and progress.held


def _note(task: ViewTask, command: Command, result: CommandResult, unit: CommitUnit) -> None:
    """Audit what came of a command."""
    made = {"when": unit.now, "partition": unit.partition}
    record = {**made, **asdict(command), **asdict(result)}
    headers = [("view", command.view.encode())]
    key = (command.stream or command.view).encode()
    unit.keyed[task.view.audit_topic].append((key, orjson.dumps(record), unit.now, headers))
    unit.reports.append(printable(f"{command.name} by {command.who}: {result.message}", 1000))


async def aexecute(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """The same for any view: the handler is awaited where it has to be."""
    command = _to_stream(task, command)
    tried, stream = None, command.stream
    if task.view.is_async and command.name == "redrive" and command.dry_run and stream:
        tried = await adry_run(task.state, stream)
    return execute(task, command, unit, tried)


async def obey(task: ViewTask, records: Iterable[Message], unit: CommitUnit) -> None:
    """Carry out the commands of records of the view's commands topic, and note how far it is read.

    Of two commands that are here at once, one may cancel the other. A record that is no command is
    audited as refused.
    """
    found: list[tuple[Command | None, str]] = []
    for record in records:
        try:
            found.append((decode_command(record.value), ""))
        except ValueError as error:
            found.append((None, f"{record.topic} at {record.offset}: {error}"))
        task.state.positions.commands = record.offset + 1
    cancels = {c.cancels: c for c, _ in found if c is not None and c.name == "cancel"}
    waited = {c.id for c, _ in found if c is not None and c.name != "cancel"}
    for command, wrong in found:
        if command is None:
            unread = Command("unreadable", task.view.name)
            _note(task, unread, CommandResult(False, wrong, {}), unit)
        elif command.name == "cancel" and command.cancels in waited:
            told = f"command {printable(command.cancels)} is cancelled"
            _note(task, command, CommandResult(True, told, {}), unit)
        elif command.id and command.name != "cancel" and command.id in cancels:
            told = f"{cancels[command.id].who} cancelled it before it was carried out"
            _note(task, command, CommandResult(False, told, {}, "cancelled"), unit)
        else:
            await aexecute(task, command, unit)


def _to_stream(task: ViewTask, command: Command) -> Command:
    """The same command, its stream written as the events have it.

    One that may mean several streams stays as it is: it is of none of them.
    """
    stream = command.stream
    if not stream:
        return command
    known = ids_of(task.state, stream)
    if len(known) > 1:
        return command
    return replace(command, stream=known[0] if known else task.view.stream_id(stream))


def halt(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """Take no more steps with the view until it is resumed."""
    if task.halted:
        told = f"view {task.view.name} is halted already: {task.halted}"
        return CommandResult(True, told, {"already": True})
    task.halt(f"by {command.who}" + (f": {command.why}" if command.why else ""), unit)
    task.state.note(unit, [])
    return CommandResult(True, f"view {task.view.name} is halted", {})


def resume(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """Go on with a halted view; streams that its error policy halted it for are tried again."""
    reason = task.halted
    if not reason:
        workers = "; its workers go on, if they were halted" if task.view.work is not None else ""
        return CommandResult(
            True, f"view {task.view.name} is not halted: it goes on{workers}", {"already": True}
        )
    task.state.positions.halted = None
    streams = list(task.state.parked) if isinstance(task.view.error, Halt) else []
    for stream in streams:
        released(task, stream)
        moved(task, stream, task.state.waiting[stream], [], unit)
    task.state.note(unit, [])
    return CommandResult(
        True,
        f"view {task.view.name} goes on; it was halted: {reason}",
        {"released": len(streams)},
    )


_COMMANDS: dict[str, Do] = {
    "skip": skip,
    "redrive": redrive,
    "unpark": unpark,
    "halt": halt,
    "resume": resume,
    "drop": drop,
}
