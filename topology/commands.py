"""What an operator can tell a view: skip, redrive, unpark, halt, resume, drop.

Each is a function of a ViewTask that changes its memory and leaves the rows, and a record for the
audit topic, to a commit unit, as a step does; `StreamTask.finish` closes it, as a step's. What goes
on because of it, goes on in the step that follows: the task is `unfinished`. A command that would
break a promise is refused unless forced.
"""

from collections.abc import Callable
from dataclasses import asdict, replace

import orjson

from topology.command import Command, Refused, Result, decode_command, encode_command
from topology.on_error import Halt
from topology.rehearsal import Rehearsal, arehearse
from topology.stream_commands import drop, moved, redrive, rehearsed, released, skip, unpark
from topology.unit import CommitUnit
from topology.view_task import ViewTask

__all__ = [
    "Command",
    "Refused",
    "Result",
    "aexecute",
    "decode_command",
    "drop",
    "encode_command",
    "execute",
    "halt",
    "redrive",
    "resume",
    "skip",
    "unpark",
]

Do = Callable[[ViewTask, Command, CommitUnit], Result]


def execute(
    task: ViewTask, command: Command, unit: CommitUnit, rehearsal: Rehearsal | None = None
) -> Result:
    """Carry a command out, and audit it; `unit.now` is when.

    rehearsal: for a dry run, of a view whose handler has to be awaited; see `aexecute`.
    """
    command = _to_stream(task, command)
    try:
        do = _COMMANDS.get(command.name)
        if do is None:
            known = ", ".join(_COMMANDS)
            raise Refused(f"there is no command {command.name!r}; there are {known}")
        if not command.stream and do not in (halt, resume):
            raise Refused(f"{command.name} needs a stream")
        if not command.dry_run:
            result = do(task, command, unit)
        elif do is redrive:
            result = rehearsed(task, command, rehearsal)
        else:
            raise Refused(f"{command.name} has no dry run; redrive has")
    except Refused as reason:
        result = Result(False, str(reason), {})
    record = {"when": unit.now, **asdict(command), **asdict(result)}
    headers = [("view", command.view.encode())]
    key = (command.stream or command.view).encode()
    unit.keyed[task.view.audit_topic].append((key, orjson.dumps(record), unit.now, headers))
    unit.reports.append(f"{command.name} by {command.who}: {result.message}")
    return result


async def aexecute(task: ViewTask, command: Command, unit: CommitUnit) -> Result:
    """The same for any view: the handler is awaited where it has to be."""
    command = _to_stream(task, command)
    rehearsal, stream = None, command.stream
    if task.view.is_async and command.name == "redrive" and command.dry_run and stream:
        rehearsal = await arehearse(task, stream)
    return execute(task, command, unit, rehearsal)


def _to_stream(task: ViewTask, command: Command) -> Command:
    """The same command, its stream written as the events have it."""
    stream = command.stream
    return replace(command, stream=task.view.stream_id(stream)) if stream else command


def halt(task: ViewTask, command: Command, unit: CommitUnit) -> Result:
    """Take no more steps with the view until it is resumed."""
    if task.halted:
        raise Refused(f"view {task.view.name} is halted already: {task.halted}")
    task.halt(f"by {command.who}", unit)
    task.note(unit, [])
    return Result(True, f"view {task.view.name} is halted", {})


def resume(task: ViewTask, command: Command, unit: CommitUnit) -> Result:
    """Go on with a halted view; streams that its error policy halted it for are tried again."""
    reason = task.halted
    if not reason:
        raise Refused(f"view {task.view.name} is not halted")
    task.positions.halted = None
    streams = list(task.parked) if isinstance(task.view.error, Halt) else []
    for stream in streams:
        released(task, stream)
        moved(task, stream, task.waiting[stream], [], unit)
    task.note(unit, [])
    return Result(
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
