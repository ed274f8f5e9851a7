"""What holds a stream back."""

from topology.explain.around import Around
from topology.explain.standing import Standing
from topology.explain.words import events, messages, spelled
from topology.on_error import Retry
from topology.progress import Progress


def causes(standing: Standing, around: Around) -> list[str]:
    """What holds the stream back, the outermost cause first; nothing if nothing does."""
    task, found = standing.task, []
    if task.halted:
        found.append(f"view {task.view.name} is halted: {task.halted}")
    if around.owner is None:
        found.append(_unassigned(around))
    told = _cause(standing, around)
    if told:
        found.append(told)
    if around.unread and standing.situation != "unread":
        found.append(f"{messages(around.unread)} of the stream are not read yet")
    return found


def _unassigned(around: Around) -> str:
    why = {"Empty": "no worker runs", "Dead": "no worker runs"}.get(
        around.group, f"the group is {around.group}"
    )
    return f"partition {around.partition} is assigned to nobody: {why}"


def _cause(standing: Standing, around: Around) -> str | None:
    gap, progress = standing.missing, standing.progress
    match standing.situation:
        case "parked":
            failed = f", which failed: {around.failure}" if around.failure else ", which failed"
            return f"it is parked at sequence {standing.head}{failed}"
        case "retrying":
            assert isinstance(progress, Progress)
            assert progress.retry is not None
            policy = standing.task.view.error
            of = f" of {policy.times}" if isinstance(policy, Retry) else ""
            failed = f": {around.failure}" if around.failure else ""
            return (
                f"sequence {standing.head} failed and is held for retry "
                f"{progress.retry.attempts}{of}{failed}"
            )
        case "waiting":
            if standing.blocked and gap is not None:
                return f"{spelled(gap)} missing, and {standing.waiting} wait behind"
            return f"{standing.waiting} wait until sequence {standing.head} comes again"
        case "redelivering":
            return (
                f"its ring of {standing.task.view.buffer} slots had no room for "
                f"{events(len(around.away))}, and nothing waits in it"
            )
        case "rebuilding":
            return f"{events(standing.asked)} of it came late, and it waits until it is rebuilt"
        case "settling":
            return f"{events(standing.waiting)} wait until lower ones can have come"
        case "unread":
            return f"{messages(around.unread)} of the stream are not read yet"
    return None
