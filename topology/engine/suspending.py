"""Streams suspended after a failure: held for a retry, parked, or with their view halted."""

from collections.abc import Iterable, Mapping
from itertools import islice

from topology.engine.commit_unit import CommitUnit
from topology.engine.output.failure import Failure
from topology.engine.output.side_outputs import report_parked
from topology.engine.state.view_state import is_parked
from topology.engine.view_parts import ViewParts
from topology.model.event import Event
from topology.model.printable import printable
from topology.sequencer.progress import PendingRetry, Progress
from topology.sequencer.sequencer import LAST, Step, hold_all


def suspend_failed(
    task: ViewParts, result: Step, held: Mapping[str, Failure], unit: CommitUnit
) -> None:
    """Set the streams of failed events aside; halt the view if that is its policy."""
    state = task.state
    failed: dict[str, tuple[Event, PendingRetry | None]] = {}
    for stream, failure in held.items():
        what = failure.action
        retry = None
        if what.retry:
            delay = max(1, round(what.delay * 1000))
            retry = PendingRetry(what.retry, unit.now + delay, delay)
            state.retries.add(retry.due, stream)
        failed[stream] = (failure.event, retry)
        if what.halts:
            sequence = failure.event.sequence
            task.halt(f"stream {printable(stream)} sequence {sequence} failed", unit)
    hold_all(state.ordering, state, state.timers, result, failed)


def count_parked(
    task: ViewParts, result: Step, held: Mapping[str, Failure], unit: CommitUnit
) -> None:
    """Count what waits in parked streams apart, and tell of each event that is parked now."""
    state, changed = task.state, result.changed
    counts, parked = state.counts, state.parked
    buffered, done = _by_stream(result.buffered), _by_stream(result.released)
    for stream in [*held, *sorted(parked.keys() & changed.keys() - held.keys())]:
        progress, before = changed[stream], parked.pop(stream, 0)
        if isinstance(progress, Progress) and is_parked(progress):
            parked[stream] = progress.waiting
            # What came too early and was handled in this very step does not wait.
            handled = done.get(stream, {})
            new = {at: e for at, e in buffered.get(stream, {}).items() if at not in handled}
            if not before:
                rows = state.spilled(stream, progress.last + 1, LAST) if progress.spilled else ()
                first = islice(rows, state.ordering.drain)
                new = {e.sequence: e for e in (*first, *new.values(), *(progress.ring or ()))}
            events = [new[at] for at in sorted(new)]
            more = 0 if before else max(0, progress.waiting - len(events))
            report_parked(task.view, progress, events, held.get(stream), unit, more)
        moved = parked.get(stream, 0) - before
        counts.parked += moved
        counts.waiting -= moved


def _by_stream(events: Iterable[Event]) -> dict[str, dict[int, Event]]:
    """Stream → sequence → event."""
    found: dict[str, dict[int, Event]] = {}
    for event in events:
        found.setdefault(event.stream, {})[event.sequence] = event
    return found
