"""What happens next to a stream, and when."""

from dataclasses import dataclass

from topology.explain.around import Around
from topology.explain.standing import Standing
from topology.explain.times import lasting
from topology.explain.words import events, spelled
from topology.on_gap import Ask
from topology.progress import Progress
from topology.sequencer import deadline


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
    if standing.asked:
        found.append(
            Next(
                "it is rebuilt: its history is read again and handled in sequence, with the late "
                "events in their place"
            )
        )
    if around.unread:
        found.append(
            Next(f"the view reads on: {around.lag} offsets to the end of its input"),
        )
    if around.away:
        due = min(away.due for away in around.away)
        found.append(Next(f"{events(len(around.away))} come again from redelivery", due))
    if standing.situation == "released":
        found.append(Next("its next event is here: the next step releases it"))
    if isinstance(standing.progress, Progress) and standing.progress.waiting:
        found += _by_timer(standing, standing.progress, around)
    if not found:
        expected = f"sequence {standing.last + task.ordering.step}"
        if task.ordering.kind != "contiguous":
            expected = "what follows"
        found.append(Next(f"{expected} is handled when it comes"))
    return found


def _by_timer(standing: Standing, progress: Progress, around: Around) -> list[Next]:
    due = deadline(standing.task.ordering, progress)
    if standing.situation == "retrying":
        return [Next(f"sequence {standing.head} is tried again", due)]
    if standing.situation == "settling":
        return [Next("what has settled is handled", due)]
    if standing.situation == "released" or not standing.blocked or standing.missing is None:
        return []
    comes = f"the stream goes on as soon as sequence {standing.missing.first} comes"
    if standing.task.ordering.kind != "contiguous":
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
