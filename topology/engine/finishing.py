"""What ends a view's step, when its handler has run: `PARTS` is the list of it, in order.

Each function takes one part of the outcome over, into memory and into the commit unit. Those that
a view has no use for are left out of its own list. The order of the rows matters where a unit is
not one transaction, and only its first rows may be written:

- A late event's row comes before the progress that says that its stream waits for a rebuild.
- Cells come before progress: each has what it was before, too.
- When a closed stream is to be dropped is noted before its progress says that it is closed. When
  it is dropped its cells go first, then its progress, then that note.
- Progress comes before what it lets go: a waiting event is there twice rather than not at all.
- The counts come last.
"""

from collections.abc import Callable, Sequence

from topology.declaration.policies import RebuildStream
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.handling import Handling
from topology.engine.output.side_outputs import report_step, send_late, send_malformed, why_full
from topology.engine.redelivery.records import bury_impossible, redeliver
from topology.engine.state.rows import LATENESS, TORN
from topology.engine.suspending import count_parked, suspend_failed
from topology.engine.view_parts import ViewParts
from topology.model.counts import saturated
from topology.model.event import Event
from topology.model.partition_table import Row
from topology.sequencer.progress import Progress, last_of, note_failed
from topology.sequencer.sequencer import Step


class FinishedStep:
    """A step of a view: what the sequencer decided, and the handling of it.

    redelivered: the events in it that came again. late: those of its late events of which nothing
    better is to be made than the late topic. rows: what it changes in the view's table, so far.
    """

    __slots__ = (
        "handling", "late", "redelivered", "result", "rows", "state", "task", "unit",
    )  # fmt: skip

    def __init__(
        self,
        task: ViewParts,
        result: Step,
        handling: Handling,
        unit: CommitUnit,
        redelivered: Sequence[Event],
    ) -> None:
        self.task = task
        self.state = task.state
        self.result = result
        self.handling = handling
        self.unit = unit
        self.redelivered = redelivered
        self.late = result.late
        self.rows: list[Row] = self.state.take_stale()


def emit_outputs(step: FinishedStep) -> None:
    """Row changes of the handler go out."""
    step.handling.finish()


def suspend_failed_streams(step: FinishedStep) -> None:
    """Streams go back to before the event that failed; the step is another one then."""
    if step.handling.held:
        suspend_failed(step.task, step.result, step.handling.held, step.unit)


def remember_failed(step: FinishedStep) -> None:
    """A stream that may be rebuilt remembers the events that it goes on without."""
    if step.handling.without:
        note_failed(step.result.changed, step.handling.without)


def request_rebuilds(step: FinishedStep) -> None:
    """Late events are rows until their stream is rebuilt."""
    policy = step.task.view.late
    if step.late and isinstance(policy, RebuildStream):
        between = step.state.ordering.step
        step.late, asked = step.task.late_events.take(step.result, policy, between)
        step.rows += asked


def forget_beginnings(step: FinishedStep) -> None:
    """What was before the beginning of a stream does not matter once nothing of it is missing."""
    for event in step.late:
        progress = step.result.changed.get(event.stream)
        if isinstance(progress, Progress) and not (progress.skipped or progress.rebuild):
            progress.below = ()
            step.result.changed[event.stream] = progress.plain()


def report_decisions(step: FinishedStep) -> None:
    """Late events go to the late topic; gaps given up and conflicts to the log."""
    result = step.result
    if step.late or result.skipped or result.conflicts:
        report_step(step.task.view, result, step.late, step.unit)
    for event, reason in step.handling.too_late:
        send_late(step.task.view, [event], step.unit, reason, in_sequence=True)


def take_progress(step: FinishedStep) -> None:
    """Streams have moved; an event that begins to wait gets a row, one that ends it loses it."""
    state, result = step.state, step.result
    state.unfinished_streams = result.unfinished
    written = len(step.rows)
    for stream, cells in step.handling.cells.items():
        if cells:
            rows, gone = state.cells.take(stream, cells, last_of(result.changed[stream]))
            step.rows += rows
            state.stale += gone
    torn = not state.cells.atomic and len(step.rows) > written
    if torn:
        step.rows.insert(written, (TORN, b"1"))
    step.rows += state.keep(result.changed, step.handling.states)
    if torn:
        step.rows.append((TORN, None))
    # What came again is not in the input.
    step.rows += state.buffer_rows(result, as_rows=bool(step.redelivered))


def forget_closed_streams(step: FinishedStep) -> None:
    """Remember the streams that were closed, and drop those whose time is over."""
    task, closed = step.task, step.task.closed_streams
    over: set[str] = set()
    if task.horizon is not None:
        over, rows = closed.drop(task.horizon, step.state.progress, step.state.ordering.first)
        for stream in over:
            step.state.drop_cached(stream)
            step.rows += step.state.cells.forget(stream) if step.task.view.cells else ()
        step.rows += rows
    step.state.counts.dropped += len(over)
    noted = closed.note(each for each in step.result.changed.items() if each[0] not in over)
    step.rows[:0] = noted


def settle_redeliveries(step: FinishedStep) -> None:
    """Dead events that were put back are taken once. What somebody else wrote to the redelivery
    topic goes to the malformed topic."""
    redriven, foreign = step.task.redriven, step.task.foreign
    if redriven:
        step.rows += redriven.rows()
        redriven.tell(step.task.view, step.unit)
    if foreign:
        send_malformed(step.task.view, foreign, step.unit)
        foreign.clear()


def count(step: FinishedStep) -> None:
    """Every event of the step is in one counted place; one that cannot be, in the dead topic."""
    counts, result, handling = step.state.counts, step.result, step.handling
    counts.processed += handling.processed
    counts.passed += handling.passed
    counts.failed += handling.failed
    counts.written += len(handling.outputs)
    counts.unrouted += len(handling.unrouted)
    counts.duplicate += result.duplicates
    counts.conflicts += len(result.conflicts)
    counts.late += len(result.late)
    counts.reopened += len(result.reopened)
    counts.waiting += len(result.buffered) - len(result.released)
    if result.skipped:
        counts.skipped = saturated(counts.skipped + sum(gap.count for gap in result.skipped))
    if result.impossible:
        counts.dead += len(result.impossible)
        bury_impossible(step.task.view, result.impossible, step.state.ordering.jump, step.unit)


def count_parked_streams(step: FinishedStep) -> None:
    """What waits in parked streams is counted apart, and told of."""
    if step.state.parked or step.handling.held:
        count_parked(step.task, step.result, step.handling.held, step.unit)


def redeliver_overflow(step: FinishedStep) -> None:
    """What the ring has no room for goes to come again."""
    task, overflow = step.task, step.result.redelivered
    counts = step.state.counts
    if overflow:
        again = redeliver(task.view, overflow, step.unit, step.state.progress)
        counts.redelivering += again
        counts.dead += len(overflow) - again
    if counts.redelivering:
        task.moved.update(step.result.changed)


def halt_when_full(step: FinishedStep) -> None:
    """The view halts if that is its policy for what the ring has no room for."""
    if step.result.full:
        step.task.halt(why_full(step.task.view, step.result), step.unit)


def learn_lateness(step: FinishedStep) -> None:
    """An adaptive view notes how late events came, and chooses its time for gaps anew."""
    state, result = step.state, step.result
    sketch, held = state.lateness, state.ordering.skip_after
    if sketch is None or not (result.filled or result.late or result.skipped):
        return
    for gap in result.skipped:
        sketch.gave_up(gap.stream, gap.first, gap.last, gap.since)
    for event in result.late:
        sketch.came_late(event.stream, event.sequence, event.arrived, held or 0)
    # What was away for redelivery came late by our own doing.
    for lateness in result.filled if not step.redelivered else ():
        sketch.add(lateness)
    step.rows.append((LATENESS, sketch.encode()))
    state.choose_timeout()


def request_resends(step: FinishedStep) -> None:
    """A view that asks for what is missing does so in time."""
    task = step.task
    if task.resend_requests is not None:
        task.resend_requests.note(step.result.changed)
        if task.horizon is not None:
            task.resend_requests.request(task.state, task.horizon, step.unit)


def write_rows(step: FinishedStep) -> None:
    """The rows go into the unit, and the counts behind them."""
    step.state.note(step.unit, step.rows)


def bound_memory(step: FinishedStep) -> None:
    """The cache of streams stays bounded; what waits, within the partition's memory: it has its
    rows now."""
    state = step.state
    state.age()
    if state.budget is not None:
        state.budget.look()
        state.budget.keep()


def _rebuilds(task: ViewParts) -> bool:
    return task.view.late.rebuilds


def _begins(task: ViewParts) -> bool:
    return task.state.ordering.open_after is not None or bool(task.state.ordering.opens)


def _closes(task: ViewParts) -> bool:
    return bool(task.state.ordering.closes) or task.closed_streams.due != float("inf")


def _halts(task: ViewParts) -> bool:
    return task.state.ordering.full == "halt"


def _learns(task: ViewParts) -> bool:
    return task.state.lateness is not None


def _asks(task: ViewParts) -> bool:
    return task.resend_requests is not None


Part = Callable[[FinishedStep], None]

PARTS: tuple[tuple[Part, Callable[[ViewParts], bool] | None], ...] = (
    (emit_outputs, None),
    (suspend_failed_streams, None),
    (remember_failed, _rebuilds),
    (request_rebuilds, _rebuilds),
    (forget_beginnings, _begins),
    (report_decisions, None),
    (take_progress, None),
    (forget_closed_streams, _closes),
    (settle_redeliveries, None),
    (count, None),
    (count_parked_streams, None),
    (redeliver_overflow, None),
    (halt_when_full, _halts),
    (learn_lateness, _learns),
    (request_resends, _asks),
    (write_rows, None),
    (bound_memory, None),
)
"""Each part, and which views have it; None for all."""


def parts_of(task: ViewParts) -> tuple[Part, ...]:
    """What ends each step of a view."""
    return tuple(part for part, has in PARTS if has is None or has(task))
