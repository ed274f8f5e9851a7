"""What would become of a parked stream if it were redriven, found out on copies."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from topology.declaration.policies.error import Park
from topology.engine.commit_unit import CommitUnit
from topology.engine.handling import Handling
from topology.engine.view_state import ViewState
from topology.model.event import Event
from topology.sequencer.progress import Progress
from topology.sequencer.sequencer import step
from topology.sequencer.timers import Timers


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """released: events that would be handled. fails: the sequence that fails next, None if none
    does. error: how. waits: events that would wait behind another gap, or that were not tried.
    """

    released: int
    fails: int | None
    error: str | None
    waits: int


def rehearse(task: ViewState, stream: str) -> Rehearsal:
    """Run the handler over copies of what would be released; nothing of it takes effect.

    Only what the handler itself does elsewhere is done.
    """
    ready, handling = _prepared(task, stream)
    handling.run(ready)
    return _found(task, stream, handling)


async def arehearse(task: ViewState, stream: str) -> Rehearsal:
    """The same with a handler that has to be awaited."""
    ready, handling = _prepared(task, stream)
    await handling.arun(ready)
    return _found(task, stream, handling)


class _Released:
    """The sequencer's State of one stream, as if it were held no longer."""

    def __init__(self, task: ViewState, progress: Progress) -> None:
        self._task = task
        self._progress = progress

    def progress(self, stream: str) -> int | Progress:
        return self._progress

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        return self._task.spilled(stream, first, last)


def _prepared(task: ViewState, stream: str) -> tuple[list[Event], Handling]:
    found = task.progress(stream)
    progress = Progress(found) if isinstance(found, int) else found.copy()
    progress.held, progress.retry = False, None
    result = step(task.ordering, _Released(task, progress), Timers(), (), resume=[stream])
    # Whatever the view does about a failure, here the first one is where it ends.
    view = replace(task.view, error=Park())
    return result.ready, Handling(view, CommitUnit("", 0), task.state)


def _found(task: ViewState, stream: str, handling: Handling) -> Rehearsal:
    progress = task.progress(stream)
    waiting = progress.waiting if isinstance(progress, Progress) else 0
    released = handling.processed + handling.passed
    failure = handling.held.get(stream)
    if failure is None:
        return Rehearsal(released, None, None, waiting - released)
    return Rehearsal(released, failure.event.sequence, failure.error, waiting - released - 1)
