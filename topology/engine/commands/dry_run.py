"""What would become of a parked stream if it were redriven, found out on copies."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from topology.declaration.policies import Park
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.handling import Handling
from topology.engine.state.view_state import ViewState
from topology.model.event import Event
from topology.sequencer.ordering import LAST
from topology.sequencer.progress import Progress
from topology.sequencer.sequencer import step
from topology.sequencer.timers import Timers


@dataclass(frozen=True, slots=True)
class DryRun:
    """released: events that would be handled. fails: the sequence that fails next, None if none
    does. error: how. waits: events that would wait behind another gap, or the one that fails.
    untried: events beyond what one step releases: what would become of them is not known.
    """

    released: int
    fails: int | None
    error: str | None
    waits: int
    untried: int = 0


def dry_run(state: ViewState, stream: str) -> DryRun:
    """Run the handler over copies of what would be released; nothing of it takes effect.

    Only what the handler itself does elsewhere is done.
    """
    ready, handling, more = _prepared(state, stream)
    handling.run(ready)
    return _found(state, stream, handling, more)


async def adry_run(state: ViewState, stream: str) -> DryRun:
    """The same with a handler that has to be awaited."""
    ready, handling, more = _prepared(state, stream)
    await handling.arun(ready)
    return _found(state, stream, handling, more)


class _Released:
    """The sequencer's State of one stream, as if it were held no longer."""

    def __init__(self, state: ViewState, progress: Progress) -> None:
        self._state = state
        self._progress = progress

    def progress(self, stream: str) -> int | Progress:
        return self._progress

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        return self._state.spilled(stream, first, last)


def _prepared(state: ViewState, stream: str) -> tuple[list[Event], Handling, bool]:
    """What is to be handled, what does it, and whether there is more than one step releases."""
    found = state.progress(stream)
    progress = Progress(found) if isinstance(found, int) else found.copy()
    progress.held, progress.retry = False, None
    # All has settled that waits: what is to go is known.
    now = LAST if state.ordering.settles else None
    released = _Released(state, progress)
    result = step(state.ordering, released, Timers(), (), now=now, resume=[stream])
    # Whatever the view does about a failure, here the first one is where it ends.
    view = replace(state.view, error=Park())
    handling = Handling(view, CommitUnit("", 0), state.stream_state, stored=state.cells)
    return result.ready, handling, bool(result.unfinished)


def _found(state: ViewState, stream: str, handling: Handling, more: bool) -> DryRun:
    progress = state.progress(stream)
    waiting = progress.waiting if isinstance(progress, Progress) else 0
    released = handling.processed + handling.passed
    failure = handling.held.get(stream)
    if failure is None:
        left = waiting - released
        return DryRun(released, None, None, 0 if more else left, left if more else 0)
    return DryRun(released, failure.event.sequence, failure.error, waiting - released - 1)
