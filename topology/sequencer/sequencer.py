"""The heart: the one place where order is decided. Pure: no I/O, and no clock of its own.

`step(ordering, state, timers, events)` takes a batch of events of many streams as they arrived and
returns a Step: the events that are ready, per stream in sequence; the streams' new progress; what
to add to and remove from the buffers; and what became of everything else. What waits in memory is
taken over from the state, and changed: a caller that cannot make the Step durable drops its state,
and makes it anew from its rows, by which nothing has happened. (Timers are an index over the state:
kept up to date here, rebuilt from the state whenever it is dropped.)

`hold(…)` amends a Step whose handling failed. Each order is a file of its own.
"""

from collections.abc import Iterable

from topology.model.event import Event
from topology.sequencer.hold import hold_all
from topology.sequencer.ordering import LAST, LOWEST, Ordering
from topology.sequencer.progress import PendingRetry, State
from topology.sequencer.step import Gap, Step
from topology.sequencer.timers import Timers

__all__ = ["LAST", "LOWEST", "Gap", "Ordering", "Step", "hold", "hold_all", "step"]


def step(
    ordering: Ordering,
    state: State,
    timers: Timers,
    events: Iterable[Event],
    *,
    now: int | None = None,
    resume: Iterable[str] = (),
    memory: int = 0,
) -> Step:
    """Order a batch.

    events: in order of arrival. timers: the deadlines of gaps and of retries. now: after the
    events, act on what is due by then (ms); say so only when all that had arrived by then is known
    to be among the events so far, None otherwise. resume: streams that the step before left
    unfinished, and those that the state says are held no longer. memory: bytes for events that
    rings grow by, before any is spilled; for orders that count.
    """
    run = ordering.run(state, timers)
    run.memory = memory
    run.resume(resume)
    run.place_all(events)
    if now is not None:
        run.fire(now)
    return run.result


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
    behind the failed event are not. state: the one that was given to `step`, and knows nothing of
    `result` yet.
    """
    hold_all(ordering, state, timers, result, {stream: (failed, retry)})
