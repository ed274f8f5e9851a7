"""What holds a stream back."""

from collections.abc import Sequence

from topology.declaration.policies.error import Retry
from topology.diagnostics.explain.formatting import events, messages, not_read, numbered, spelled
from topology.diagnostics.explain.passed import ranges_of
from topology.diagnostics.explain.stream_context import Around, Blocked, SetAside
from topology.diagnostics.explain.stream_status import Standing
from topology.diagnostics.explain.times import lasting
from topology.model.printable import printable
from topology.sequencer.progress import Progress


def causes(standing: Standing, around: Around) -> list[str]:
    """What holds the stream back, the outermost cause first; nothing if nothing does."""
    task, found = standing.task, []
    if task.halted:
        found.append(f"view {task.view.name} is halted: {printable(task.halted, 300)}")
    if around.owner is None:
        found.append(_unassigned(around))
    if around.blocked is not None:
        found.append(_blocked(around.blocked, around.now))
    told = _cause(standing, around)
    if told:
        found.append(told)
    if around.unread and standing.situation != "unread":
        found.append(not_read(around.unread))
    if standing.passed.ahead and standing.situation != "dead":
        found.append(_dead(standing))
    found += without(standing)
    if around.malformed:
        found.append(_malformed(standing, around))
    return found


def _blocked(blocked: Blocked, now: int) -> str:
    return (
        f"its handler is at sequence {blocked.sequence} for {lasting(now - blocked.since)}, of "
        f"{blocked.timeout:g} s that the view allows, and cannot be stopped, on "
        f"{printable(blocked.who)}"
    )


def without(standing: Standing) -> list[str]:
    """What the stream went on without, in words."""
    apart, view, add = standing.passed, standing.task.view, standing.task.state.ordering.step
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
        given_up = numbered(apart.skipped)
        found.append(f"it went on without {given_up}: given up, and not seen since")
    return found


def _dead(standing: Standing) -> str:
    ahead, view = standing.passed.ahead, standing.task.view
    which = _which(ahead, standing.task.state.ordering.step)
    return f"{which} of it lie in {view.dead_topic}: {_why(ahead)}"


def _malformed(standing: Standing, around: Around) -> str:
    number, topic = len(around.malformed), standing.task.view.malformed_topic
    has = "has" if number == 1 else "have"
    return (
        f"{messages(number)} in {topic} {has} its id in the text, and may be of it: "
        f"{_why(around.malformed)}"
    )


def _which(found: Sequence[SetAside], step: int) -> str:
    return numbered(ranges_of((each.sequence or 0 for each in found), step), len(found))


def _why(found: Sequence[SetAside]) -> str:
    """The reason of the last one; all have the same one most of the time."""
    return printable(found[-1].reason or "no reason is known", 200)


def _unassigned(around: Around) -> str:
    why = {"Empty": "no worker runs", "Dead": "no worker runs"}.get(
        around.group, f"the group is {around.group}"
    )
    return f"partition {around.partition} is assigned to nobody: {why}"


def _cause(standing: Standing, around: Around) -> str | None:
    gap, progress = standing.missing, standing.progress
    match standing.situation:
        case "parked":
            failed = f", which failed: {_told(around)}" if around.failure else ", which failed"
            return f"it is parked at sequence {standing.head}{failed}"
        case "retrying":
            assert isinstance(progress, Progress)
            assert progress.retry is not None
            policy = standing.task.view.error
            of = f" of {policy.times}" if isinstance(policy, Retry) else ""
            failed = f": {_told(around)}" if around.failure else ""
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
            return not_read(around.unread)
        case "forgotten":
            return (
                f"{messages(around.read)} of it were read, and the view knows nothing of it: it "
                "was dropped, or closed and its time was over; or the worker has another data "
                "folder than the one that the changelog is of"
            )
        case "dead":
            behind = f", and {standing.waiting} wait behind" if standing.waiting else ""
            return f"{_dead(standing)}{behind}"
    return None


def _told(around: Around) -> str:
    return printable(around.failure, 200)
