"""The actions that there are, each as its command."""

from typing import Any

from sequitur.console.actions import Action, Done, with_arguments
from topology.diagnostics.side_topics import SideFilter
from topology.engine.commands.command import CommandResult
from topology.faust.operation import control
from topology.faust.operation.bulk import BulkResult, StreamSelection, operate_many
from topology.faust.operation.dead_events import redrive_dead
from topology.faust.operation.malformed_messages import replay_messages

_LATE = "What comes of it later is late, and not handled by the view."
_NOTHING = "Nothing is lost."


def _done(result: CommandResult) -> Done:
    return result.done, result.message


def _all(found: BulkResult) -> Done:
    whole = bool(found.results) and not (found.refused or found.unanswered)
    return whole or found.done > 0, str(found)


def halt(view: str) -> Action:
    """Stop a view."""
    return Action(
        "Halt",
        f"Stop view {view} from taking input until it is resumed",
        ["halt", view],
        lambda app, why: _of(control.halt(app, view, why=why)),
        None,
        f"{_NOTHING} What comes waits in the view's input; other views go on.",
    )


def resume(view: str) -> Action:
    """Let a view go on."""
    return Action(
        "Resume",
        f"Let view {view} go on where it was",
        ["resume", view],
        lambda app, why: _of(control.resume(app, view, why=why)),
        None,
        _NOTHING,
    )


def skip(view: str, stream: str, sequence: int, *, force: bool) -> Action:
    """Give up what a stream waits for. force: more than one sequence."""
    options = ("--view", view, *(("--force",) if force else ()))
    return Action(
        "Skip",
        f"Give up what the stream misses up to sequence {sequence} in view {view}",
        with_arguments("skip", stream, str(sequence), options=options),
        lambda app, why: _of(
            control.skip(app, stream, sequence, view=view, force=force, why=why)
        ),
        lambda app: _of(
            control.skip(app, stream, sequence, view=view, force=force, dry_run=True)
        ),
        _LATE,
    )  # fmt: skip


def redrive(view: str, stream: str) -> Action:
    """Handle a parked stream again."""
    return Action(
        "Redrive",
        f"Handle the stream's events again in view {view}, from the failed one on",
        with_arguments("redrive", stream, options=("--view", view)),
        lambda app, why: _of(control.redrive(app, stream, view=view, why=why)),
        lambda app: _of(control.redrive(app, stream, view=view, dry_run=True)),
        f"{_NOTHING} What fails again is parked again.",
    )


def unpark(view: str, stream: str) -> Action:
    """Release a parked stream without its failed event."""
    return Action(
        "Unpark",
        f"Let the stream go on in view {view} without its failed event",
        with_arguments("unpark", stream, options=("--view", view)),
        lambda app, why: _of(control.unpark(app, stream, view=view, why=why)),
        lambda app: _of(control.unpark(app, stream, view=view, dry_run=True)),
        "The view does without the failed event, which goes to the dead topic.",
    )


def drop(view: str, stream: str) -> Action:
    """Forget a stream."""
    return Action(
        "Drop",
        f"Forget the stream in view {view}: its progress, its state, and what waits",
        with_arguments("drop", stream, options=("--view", view, "--force")),
        lambda app, why: _of(control.drop(app, stream, view=view, force=True, why=why)),
        lambda app: _of(control.drop(app, stream, view=view, force=True, dry_run=True)),
        "Its progress and its state are lost. What waits goes to the dead topic.",
    )


def skip_many(view: str, minutes: float) -> Action:
    """Give up what is missing in front of all streams of a view that have waited for so long."""
    choice = StreamSelection(view, minutes * 60)
    age = ("--all",) if not minutes else ("--older-than", f"{minutes * 60:g}s")
    return Action(
        "Skip all of these",
        f"Give up what streams of view {view} have missed for {minutes:g} minutes or longer",
        ["skip", "--view", view, *age, "--force"],
        lambda app, why: _of_all(operate_many(app, "skip", choice, force=True, why=why)),
        lambda app: _of_all(operate_many(app, "skip", choice, force=True, dry_run=True)),
        _LATE,
    )


def parked_many(name: str, view: str, reason: str) -> Action:
    """`redrive` or `unpark` all streams of a view that failed for a reason."""
    choice = StreamSelection(view, reason=reason)
    which = ("--reason", reason) if reason else ("--all",)
    cost = (
        f"{_NOTHING} What fails again is parked again."
        if name == "redrive"
        else "The view does without each stream's failed event, which goes to the dead topic."
    )
    return Action(
        f"{name.capitalize()} all",
        f"{name.capitalize()} all streams of view {view} that failed for this reason",
        [name, "--view", view, *which],
        lambda app, why: _of_all(operate_many(app, name, choice, why=why)),
        lambda app: _of_all(operate_many(app, name, choice, dry_run=True)),
        cost,
    )


def redrive_the_dead(view: str, *, stream: str | None = None, reason: str = "") -> Action:
    """Put dead events back."""
    which = [] if stream is None else ["--stream", stream]
    which += ["--reason", reason] if reason else []

    async def run(app: Any, why: str, dry_run: bool = False) -> Done:
        found = await redrive_dead(
            app, view=view, stream=stream, reason=reason, dry_run=dry_run, why=why
        )
        return bool(found.found.chosen), str(found)

    return Action(
        "Redrive dead",
        f"Put dead events back into view {view}, in order",
        ["redrive-dead", "--view", view, *which],
        run,
        lambda app: run(app, "", dry_run=True),
        f"{_NOTHING} What the view has passed meanwhile is late.",
    )


def replay(side: str, reason: str = "") -> Action:
    """Send what was no event to its topic again. side: "malformed" or "unknown"."""
    choice = SideFilter(reason=reason)

    async def run(app: Any, why: str, dry_run: bool = False) -> Done:
        found = await replay_messages(app, side, choice, dry_run=dry_run, why=why)
        return bool(found.sent), str(found)

    return Action(
        "Replay",
        f"Send {side} messages again that an inspector understands by now",
        ["replay", side, *(("--reason", reason) if reason else ())],
        run,
        lambda app: run(app, "", dry_run=True),
        f"{_NOTHING} Other consumers of the source's topic get the messages again.",
    )


async def _of(result: Any) -> Done:
    return _done(await result)


async def _of_all(found: Any) -> Done:
    return _all(await found)
