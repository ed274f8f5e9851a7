"""The heart: the one place where order is decided. Pure: no I/O, and no clock of its own.

`step(ordering, state, timers, events)` takes a batch of events of many streams as they arrived and
returns a Step: the events that are ready, per stream in sequence; the streams' new progress; what
to add to and remove from the buffers; and what became of everything else. The state it is given is
only read: a caller that cannot make the Step durable drops it, and nothing has happened. (Timers
are an index over the state: kept up to date here, rebuilt from the state whenever it is dropped.)

`hold(…)` amends a Step whose handling failed. Each order is a file of its own.
"""

from collections.abc import Iterable

from topology.model.event import Event
from topology.sequencer.contiguous import ContiguousRun
from topology.sequencer.followed import FollowedRun
from topology.sequencer.hold import Failed, hold_streams
from topology.sequencer.linked import LinkedRun
from topology.sequencer.monotonic import MonotonicRun
from topology.sequencer.progress import PendingRetry, Progress, State
from topology.sequencer.ring import RingBuffer
from topology.sequencer.run import Run, deadline_of
from topology.sequencer.step import LAST, Gap, Kind, Ordering, Step
from topology.sequencer.timers import Timers

__all__ = [
    "LAST",
    "Gap",
    "Ordering",
    "Step",
    "can_go_on",
    "deadline",
    "hold",
    "hold_all",
    "ring_of",
    "step",
]

_RUNS: dict[Kind, type[Run]] = {
    "contiguous": ContiguousRun,
    "linked": LinkedRun,
    "monotonic": MonotonicRun,
    "followed": FollowedRun,
}


def step(
    ordering: Ordering,
    state: State,
    timers: Timers,
    events: Iterable[Event],
    *,
    now: int | None = None,
    resume: Iterable[str] = (),
) -> Step:
    """Order a batch.

    events: in order of arrival. timers: the deadlines of gaps and of retries. now: after the
    events, act on what is due by then (ms); say so only when all that had arrived by then is known
    to be among the events so far, None otherwise. resume: streams that the step before left
    unfinished, and those that the state says are held no longer.
    """
    run = _RUNS[ordering.kind](ordering, state, timers)
    run.resume(resume)
    if ordering.kind == "contiguous" and not (ordering.opens or ordering.closes):
        _place_counted(run, events)
    else:
        for event in events:
            run.place(event, run.current(event.stream))
    if now is not None:
        run.fire(now)
    return run.result


def _place_counted(run: Run, events: Iterable[Event]) -> None:
    """Place events of which nearly all come exactly when they are expected."""
    changed, ready = run.result.changed, run.result.ready.append
    seen, progress_of, add = changed.get, run.state.progress, run.ordering.step
    for event in events:
        stream = event.stream
        progress = seen(stream)
        if progress is None:
            progress = progress_of(stream)
        if progress.__class__ is int and event.sequence == progress + add:
            changed[stream] = event.sequence
            ready(event)
        else:
            run.place(event, progress)


def hold(
    ordering: Ordering,
    state: State,
    timers: Timers,
    result: Step,
    stream: str,
    failed: Event,
    retry: PendingRetry | None = None,
) -> None:
    """Amend a Step: the handling of its ready event `failed` failed; hold the stream.

    The failed event and all of the stream's later ready events go back to waiting; the progress is
    at the one before, and held: nothing of the stream is released until the state says that it is
    not held and a step is given it in `resume`, or until `retry` is due. Gaps that were given up
    behind the failed event are not. state: as it was given to `step`; its progress has the retry
    that the step let go, if this was one.
    """
    hold_all(ordering, state, timers, result, {stream: (failed, retry)})


def hold_all(
    ordering: Ordering, state: State, timers: Timers, result: Step, failed: Failed
) -> None:
    """The same for several streams at once, each with the first of its events that failed."""
    hold_streams(_RUNS[ordering.kind], ordering, state, timers, result, failed)


def deadline(ordering: Ordering, progress: Progress) -> int | None:
    """When a stream that waits is to go on without what is missing (ms), None if never."""
    return deadline_of(_RUNS[ordering.kind], ordering, progress)


def can_go_on(ordering: Ordering, progress: Progress) -> bool:
    """Whether a stream that waits has its next event already: a drain was left unfinished."""
    return not progress.suspended and _RUNS[ordering.kind].can_go_on(ordering, progress)


def ring_of(ordering: Ordering) -> RingBuffer:
    """An empty buffer for a stream."""
    return _RUNS[ordering.kind].ring(ordering)
