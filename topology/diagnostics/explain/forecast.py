"""What happens next to a stream, and when."""

from collections.abc import Iterable
from dataclasses import dataclass

from topology.declaration.policies import Ask, Redeliver
from topology.declaration.view import View
from topology.diagnostics.explain.formatting import spelled
from topology.diagnostics.explain.stream_context import PendingRedelivery, StreamContext
from topology.diagnostics.explain.stream_status import StreamStatus
from topology.diagnostics.explain.times import lasting
from topology.diagnostics.explain.went_on_without import can_be_put_back
from topology.model.counted import counted
from topology.sequencer.progress import Progress


@dataclass(frozen=True, slots=True)
class NextAction:
    """What will happen, and when (ms); None where that depends on somebody."""

    what: str
    when: int | None = None


def forecast(status: StreamStatus, context: StreamContext) -> list[NextAction]:
    """What will happen, in the order that it will."""
    task, found = status.task, []
    view = task.view.name
    if context.owner is None:
        found.append(NextAction("nothing until a worker has the partition; then:"))
    if task.halted or (context.work is not None and context.work.halted):
        found.append(NextAction(f"nothing in view {view} until it is resumed; then:"))
    if status.situation == "parked":
        found.append(NextAction("nothing of the stream until it is redriven or unparked"))
        return found
    # What has no body is missing: where something waits behind it, a timer may give it up.
    if ahead := status.passed.ahead if status.situation == "dead" else status.passed.recoverable:
        back = "is redriven or comes another time"
        found.append(
            NextAction(
                f"the stream does not pass sequence {ahead[0].sequence} by itself: it lies in "
                f"{task.view.dead_topic}, until it "
                + (back if can_be_put_back(ahead[0]) else "is sent again")
            )
        )
    if status.asked:
        found.append(
            NextAction(
                "it is rebuilt: its history is read again and handled in sequence, with the late "
                "events in their place"
            )
        )
    if context.unread:
        # Of what is not re-keyed yet the input has nothing.
        far = f": {counted(context.lag, 'offset')} to the end of its input" if context.lag else ""
        found.append(NextAction(f"the view reads on{far}"))
    if context.redelivering:
        due = min(each.due for each in context.redelivering)
        come = counted(len(context.redelivering), "event comes", "events come")
        found.append(NextAction(f"{come} again from redelivery", due))
        if (death := dies(task.view, context.redelivering)) is not None:
            sequence, when = death
            what = (
                f"else sequence {sequence} goes to {task.view.dead_topic}, unless the stream moves"
            )
            found.append(NextAction(what, when))
    if status.situation == "arrived":
        found.append(NextAction("what has arrived is handled, and committed at its turn"))
    if status.situation == "released":
        found.append(NextAction("its next event is here: the next step releases it"))
    if isinstance(status.progress, Progress) and status.progress.waiting:
        found += _by_timer(status, status.progress, context)
    if not found:
        expected = f"sequence {status.last + task.state.ordering.step}"
        if not task.state.ordering.counts:
            expected = "what follows"
        found.append(NextAction(f"{expected} is handled when it comes"))
    return found


def dies(view: View, redelivering: Iterable[PendingRedelivery]) -> tuple[int, int] | None:
    """(sequence, when): the first event in redelivery that is given up, if its stream does not move
    until then (ms). None where none ever is.
    """
    policy = view.full
    if not isinstance(policy, Redeliver) or policy.limit is None:
        return None
    found = [
        (each.due + _delays(view, policy, each.attempt, policy.limit), each.sequence)
        for each in redelivering
    ]
    if not found:
        return None
    when, sequence = min(found)
    return sequence, when


def _delays(view: View, policy: Redeliver, attempt: int, limit: int) -> int:
    """Ms from the time at which an event comes again, to that at which it has no attempt left."""
    left, delay, total = max(0, limit - attempt), round(policy.delay * 1000), 0
    delay <<= min(attempt, 32)
    while left and delay < view.longest_away:
        left, total, delay = left - 1, total + delay, delay * 2
    return total + left * view.longest_away


def _by_timer(status: StreamStatus, progress: Progress, context: StreamContext) -> list[NextAction]:
    due = status.task.state.ordering.deadline(progress)
    if status.situation == "retrying":
        return [NextAction(f"sequence {status.head} is tried again", due)]
    if status.situation == "settling":
        return [NextAction("what has settled is handled", due)]
    waits = status.opened_by or (status.blocked and status.missing is not None)
    if status.situation == "released" or not waits:
        return []
    if status.begins_with_lowest:
        return [NextAction(f"it begins with sequence {status.head}, or a lower one", due)]
    comes = "the stream goes on as soon as what is missing comes"
    if status.opened_by:
        comes = f"the stream begins as soon as an event of kind {status.opened_by} comes"
    elif status.task.state.ordering.counts and status.missing is not None:
        comes = f"the stream goes on as soon as sequence {status.missing.first} comes"
    if due is None and isinstance(gap := status.task.view.gap, Ask):
        asked = f"the relay of {gap.source} is asked for it every {gap.every:g} s"
        return [NextAction(f"{comes}; {asked}")]
    if due is None or status.missing is None:
        return [NextAction(f"{comes}; the view's gap policy is to wait for it")]
    unread = context.lag + context.unkeyed
    behind = f", of which {counted(unread, 'offset is', 'offsets are')} unread" if unread else ""
    known = f"once all that had arrived by then is read{behind}"
    if due <= context.now:
        known += f"; it has been due for {lasting(context.now - due)}"
    return [
        NextAction(comes),
        NextAction(f"else {spelled(status.missing, 'is', 'are')} skipped, {known}", due),
    ]
