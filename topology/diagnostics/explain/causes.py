"""What holds a stream back."""

from collections.abc import Sequence

from topology.declaration.policies import Retry
from topology.diagnostics.explain.formatting import not_read, numbered, spelled
from topology.diagnostics.explain.stream_context import Blocked, SetAside, StreamContext
from topology.diagnostics.explain.stream_status import StreamStatus
from topology.diagnostics.explain.times import lasting
from topology.diagnostics.explain.went_on_without import ranges_of
from topology.model.counted import counted
from topology.model.printable import printable
from topology.sequencer.progress import Progress


def causes(status: StreamStatus, context: StreamContext) -> list[str]:
    """What holds the stream back, the outermost cause first; nothing if nothing does."""
    task, found = status.task, []
    if task.halted:
        found.append(f"view {task.view.name} is halted: {printable(task.halted, 300)}")
    work = context.work
    if work is not None and work.halted:
        why = printable(work.halted, 300)
        found.append(f"the workers of view {task.view.name} are halted: {why}")
    if work is not None and work.away:
        why = printable(work.away, 300)
        found.append(f"the database of view {task.view.name} is away: {why}")
    if context.owner is None or (work is not None and work.owner is None):
        found.append(_unassigned(context))
    if context.blocked is not None:
        found.append(_blocked(context.blocked, context.now))
    told = _cause(status, context)
    if told:
        found.append(told)
    if context.unread and status.situation != "unread":
        found.append(not_read(context.unread))
    if status.passed.ahead and status.situation != "dead":
        found.append(_dead(status))
    found += without(status)
    if context.malformed:
        found.append(_malformed(status, context))
    return found


def _blocked(blocked: Blocked, now: int) -> str:
    return (
        f"its handler is at sequence {blocked.sequence} for {lasting(now - blocked.since)}, of "
        f"{blocked.timeout:g} s that the view allows, and cannot be stopped, on "
        f"{printable(blocked.who)}"
    )


def without(status: StreamStatus) -> list[str]:
    """What the stream went on without, in words."""
    apart, view, add = status.passed, status.task.view, status.task.state.ordering.step
    found = []
    if apart.lost:
        lost = _which(apart.lost, add)
        found.append(f"it went on without {lost}, in {view.dead_topic}: {_why(apart.lost)}")
    if apart.failed:
        failed = _which(apart.failed, add)
        found.append(f"it went on without {failed}, whose handler failed: {_why(apart.failed)}")
    if apart.late:
        late = numbered(ranges_of(apart.late, add), len(apart.late))
        found.append(f"it went on without {late}: late, and in {view.late_topic}")
    if apart.skipped:
        skipped = numbered(apart.skipped)
        found.append(f"it went on without {skipped}: skipped, and not seen since")
    return found


def _dead(status: StreamStatus) -> str:
    ahead, view = status.passed.ahead, status.task.view
    which = _which(ahead, status.task.state.ordering.step)
    lies = "lies" if len(ahead) == 1 else "lie"
    return f"{which} of it {lies} in {view.dead_topic}: {_why(ahead)}"


def _malformed(status: StreamStatus, context: StreamContext) -> str:
    number, topic = len(context.malformed), status.task.view.malformed_topic
    return (
        f"{counted(number, f'message in {topic} has', f'messages in {topic} have')} its id in the "
        "text, and may be of it: "
        f"{_why(context.malformed)}"
    )


def _which(found: Sequence[SetAside], step: int) -> str:
    return numbered(ranges_of((each.sequence or 0 for each in found), step), len(found))


def _why(found: Sequence[SetAside]) -> str:
    """The reason of the last one; all have the same one most of the time."""
    return printable(found[-1].reason or "no reason is known", 200)


def _unassigned(context: StreamContext) -> str:
    why = {"Empty": "no worker runs", "Dead": "no worker runs"}.get(
        context.group, f"the group is {context.group}"
    )
    return f"partition {context.partition} is assigned to nobody: {why}"


def _cause(status: StreamStatus, context: StreamContext) -> str | None:
    gap, progress = status.missing, status.progress
    match status.situation:
        case "parked":
            failed = f", which failed: {_told(context)}" if context.failure else ", which failed"
            return f"it is parked at sequence {status.head}{failed}"
        case "retrying":
            assert isinstance(progress, Progress)
            assert progress.retry is not None
            policy = status.task.view.error
            of = f" of {policy.times}" if isinstance(policy, Retry) else ""
            failed = f": {_told(context)}" if context.failure else ""
            return (
                f"sequence {status.head} failed and is held for retry "
                f"{progress.retry.attempts}{of}{failed}"
            )
        case "waiting":
            if status.opened_by:
                return (
                    f"no event of kind {status.opened_by} has come, and {_waiting(status)} for it"
                )
            if status.blocked and status.begins_with_lowest:
                return f"it has yet to begin, and {_waiting(status)} for lower ones"
            if status.blocked and gap is not None:
                return f"{spelled(gap)} missing, and {_waiting(status)} behind"
            return f"{_waiting(status)} until sequence {status.head} comes again"
        case "redelivering":
            return (
                f"its ring of {status.task.view.buffer} slots had no room for "
                f"{counted(len(context.redelivering), 'event')}, and nothing waits in it"
            )
        case "rebuilding":
            asked = counted(status.asked, "event")
            return f"{asked} of it came late, and it waits until it is rebuilt"
        case "settling":
            return f"{_waiting(status)} until lower ones can have come"
        case "arrived":
            assert context.work is not None
            arrived = context.work.arrived
            if not context.work.counted:
                return "so much of its partition is not committed that its events may be there"
            events = counted(len(arrived), "event of it is", "events of it are")
            return f"{events} with the workers and not committed, from sequence {arrived[0]} on"
        case "unread":
            return not_read(context.unread)
        case "forgotten":
            read = counted(context.read, "message of it was", "messages of it were")
            return (
                f"{read} read, and the view knows nothing of it: it "
                "was dropped, or closed and its time was over; or the worker has another data "
                "folder than the one that the changelog is of"
            )
        case "dead":
            behind = f", and {_waiting(status)} behind" if status.waiting else ""
            return f"{_dead(status)}{behind}"
    return None


def _waiting(status: StreamStatus) -> str:
    return counted(status.waiting, "event waits", "events wait")


def _told(context: StreamContext) -> str:
    return printable(context.failure, 200)
