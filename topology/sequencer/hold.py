"""Set streams aside after a handler failed: their later events wait, in order, in this view."""

from collections.abc import Mapping

from topology.model.event import Event
from topology.sequencer.ordering import Ordering
from topology.sequencer.progress import PendingRetry, Progress, State, last_of
from topology.sequencer.step import Step
from topology.sequencer.timers import Timers

Failed = Mapping[str, tuple[Event, PendingRetry | None]]
"""Stream → its event that failed, and when to try it again, None for when somebody says so."""


def hold_all(
    ordering: Ordering, state: State, timers: Timers, result: Step, failed: Failed
) -> None:
    """See `sequencer.hold`; here of several streams, each with the first event that failed."""
    handled: dict[str, int] = {}
    back: dict[str, dict[int, Event]] = {}
    ready: list[Event] = []
    for event in result.ready:
        stream = event.stream
        if stream in failed:
            if event is failed[stream][0] or stream in back:
                back.setdefault(stream, {})[event.sequence] = event
                continue
            handled[stream] = event.sequence
        ready.append(event)
    result.ready = ready
    # What waited before, or was to wait, goes on with its row; what came just now gets one.
    had_row: set[tuple[str, int]] = set()
    released: list[Event] = []
    for event in result.released:
        if event.sequence in back.get(event.stream, ()):
            had_row.add((event.stream, event.sequence))
        else:
            released.append(event)
    result.released = released
    result.buffered += [
        event
        for events in back.values()
        for event in events.values()
        if (event.stream, event.sequence) not in had_row
    ]
    result.unfinished = [stream for stream in result.unfinished if stream not in back]
    result.skipped = [
        gap
        for gap in result.skipped
        if gap.stream not in back or gap.first <= failed[gap.stream][0].sequence
    ]
    result.reopened = [
        event
        for event in result.reopened
        if event.stream not in back or event.sequence < failed[event.stream][0].sequence
    ]
    for stream, events in back.items():
        event, retry = failed[stream]
        if stream in handled:
            last = handled[stream]
            closed = result.closed.get((stream, last))
        elif stream in result.before:
            last, closed = result.before[stream]
        else:
            last, closed = last_of(state.progress(stream)), None
        progress = _held(ordering, result.changed[stream], event, last, events)
        progress.retry, progress.closed = retry, closed
        result.changed[stream] = progress
        timers.discard(stream)
        if (due := ordering.deadline(progress)) is not None:
            timers.add(due, stream)


def _held(
    ordering: Ordering,
    reached: int | Progress,
    failed: Event,
    last: int,
    back: dict[int, Event],
) -> Progress:
    """The progress of a stream that had `reached` so far, and goes back to before `failed`."""
    progress = Progress(reached) if isinstance(reached, int) else reached.copy()
    progress.last = ordering.before(failed, last)
    progress.held = True
    progress.skipped = tuple(r for r in progress.skipped if r[0] <= failed.sequence)
    progress.below = tuple(r for r in progress.below if r[0] <= failed.sequence)
    progress.recent = tuple(each for each in progress.recent if each <= progress.last)
    waits = [*back.values(), *(progress.ring or ())]
    since = min(event.arrived for event in waits)
    progress.since = min(since, progress.since) if progress.spilled else since
    ring = progress.ring = ordering.ring()
    spilled = 0
    # All of it is in memory, and some of that only: it may have no row to be read from.
    if (
        ordering.counts
        and ordering.full != "redeliver"
        and not ring.admits(progress.last, highest := max(event.sequence for event in waits))
    ):
        ring.grow(progress.last, highest)
    for event in sorted(waits, key=lambda event: event.sequence):
        if ring.admits(progress.last, event.sequence):
            ring.put(event)
        else:
            spilled += 1
    # Rows that were beyond what was loaded are not in the ring, even where it reaches them now.
    end = ring.end(progress.last)
    progress.loaded = min(end, progress.loaded) if progress.spilled else end
    progress.spilled += spilled
    return progress
