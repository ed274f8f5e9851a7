"""What happens next to a stream, and when."""

from collections.abc import Iterable
from dataclasses import dataclass

from topology.declaration.policies.full import Redeliver
from topology.declaration.policies.gap import Ask
from topology.declaration.view import View
from topology.diagnostics.explain.formatting import events, spelled
from topology.diagnostics.explain.stream_context import Around, Away
from topology.diagnostics.explain.stream_status import Standing
from topology.diagnostics.explain.times import lasting
from topology.sequencer.progress import Progress
from topology.sequencer.sequencer import deadline


@dataclass(frozen=True, slots=True)
class Next:
    """What will happen, and when (ms); None where that depends on somebody."""

    what: str
    when: int | None = None


def nexts(standing: Standing, around: Around) -> list[Next]:
    """What will happen, in the order that it will."""
    task, found = standing.task, []
    view = task.view.name
    if around.owner is None:
        found.append(Next("nothing until a worker has the partition; then:"))
    if task.halted:
        found.append(Next(f"nothing in view {view} until it is resumed; then:"))
    if standing.situation == "parked":
        found.append(Next("nothing of the stream until it is redriven or unparked"))
        return found
    if standing.passed.ahead:
        first = standing.passed.ahead[0].sequence
        found.append(
            Next(
                f"the stream does not pass sequence {first} by itself: it lies in "
                f"{task.view.dead_topic}, until it is redriven or comes another time"
            )
        )
    if standing.asked:
        found.append(
            Next(
                "it is rebuilt: its history is read again and handled in sequence, with the late "
                "events in their place"
            )
        )
    if around.unread:
        # Of what is not re-keyed yet the input has nothing.
        far = f": {around.lag} offsets to the end of its input" if around.lag else ""
        found.append(Next(f"the view reads on{far}"))
    if around.away:
        due = min(away.due for away in around.away)
        found.append(Next(f"{events(len(around.away))} come again from redelivery", due))
        if (death := dies(task.view, around.away)) is not None:
            sequence, when = death
            what = (
                f"else sequence {sequence} goes to {task.view.dead_topic}, unless the stream moves"
            )
            found.append(Next(what, when))
    if standing.situation == "released":
        found.append(Next("its next event is here: the next step releases it"))
    if isinstance(standing.progress, Progress) and standing.progress.waiting:
        found += _by_timer(standing, standing.progress, around)
    if not found:
        expected = f"sequence {standing.last + task.state.ordering.step}"
        if task.state.ordering.kind != "contiguous":
            expected = "what follows"
        found.append(Next(f"{expected} is handled when it comes"))
    return found


def dies(view: View, away: Iterable[Away]) -> tuple[int, int] | None:
    """(sequence, when): the first event in redelivery that is given up, if its stream does not move
    until then (ms). None where none ever is.
    """
    policy = view.full
    if not isinstance(policy, Redeliver) or policy.limit is None:
        return None
    found = [
        (each.due + _delays(view, policy, each.attempt, policy.limit), each.sequence)
        for each in away
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


def _by_timer(standing: Standing, progress: Progress, around: Around) -> list[Next]:
    due = deadline(standing.task.state.ordering, progress)
    if standing.situation == "retrying":
        return [Next(f"sequence {standing.head} is tried again", due)]
    if standing.situation == "settling":
        return [Next("what has settled is handled", due)]
    if standing.situation == "released" or not standing.blocked or standing.missing is None:
        return []
    comes = f"the stream goes on as soon as sequence {standing.missing.first} comes"
    if standing.task.state.ordering.kind != "contiguous":
        comes = "the stream goes on as soon as what is missing comes"
    if due is None and isinstance(gap := standing.task.view.gap, Ask):
        asked = f"the relay of {gap.source} is asked for it every {gap.every:g} s"
        return [Next(f"{comes}; {asked}")]
    if due is None:
        return [Next(f"{comes}; the view's gap policy is to wait for it")]
    unread = around.lag + around.unkeyed
    behind = f", of which {unread} offsets are unread" if unread else ""
    known = f"once all that had arrived by then is read{behind}"
    if due <= around.now:
        known += f"; it has been due for {lasting(around.now - due)}"
    return [
        Next(comes),
        Next(f"else {spelled(standing.missing, 'is', 'are')} given up, {known}", due),
    ]
