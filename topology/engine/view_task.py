"""One view in one partition, one step of it at a time."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.finishing import FinishedStep, parts_of
from topology.engine.output.handling import NEVER, Handling
from topology.engine.output.record_formatter import RecordFormatter
from topology.engine.output.step_handling import StepHandling
from topology.engine.redelivery.records import ForeignRecords, revive
from topology.engine.redelivery.redriven_events import RedrivenEvents
from topology.engine.resend_requests import requests_of
from topology.engine.state.closed_streams import ClosedStreams
from topology.engine.state.late_events import LateEvents
from topology.engine.state.plausible import ALWAYS
from topology.engine.state.short_waits import WaitLimits
from topology.engine.state.view_state import ViewState
from topology.engine.view_parts import ViewParts
from topology.model.counted import counted
from topology.model.event import Event, Message
from topology.model.partition_table import PartitionTable
from topology.model.printable import printable
from topology.sequencer.memory_budget import Budget
from topology.sequencer.progress import Progress
from topology.sequencer.sequencer import Step, step

_NOTHING: tuple[list[Event] | None, list[Event]] = (None, [])
"""No events, as a view with lanes has them."""


def _as_they_are(events: Iterable[Event]) -> Iterable[Event]:
    return events


class ViewTask(ViewParts):
    """Runs a view over the events of one partition.

    A step changes memory at once and leaves the rows to the commit unit: when a unit cannot be
    committed, drop the task and build another one. A halted view takes no steps until it is
    resumed: who runs it keeps its input for it.

    Attributes:
        sampled: the events of a step as its handler is to get them; who runs the task may so take
            the time of some of them.
    """

    def __init__(
        self,
        view: View,
        table: PartitionTable,
        now: int = ALWAYS,
        budget: Budget | None = None,
        limits: WaitLimits | None = None,
        atomic: bool = False,
    ) -> None:
        self.view = view
        state = self.state = ViewState(view, table, now, budget, limits, atomic)
        self.late_events = LateEvents(table)
        self.closed_streams = ClosedStreams(table)
        self.redriven = RedrivenEvents(view.name, table)
        self.resend_requests = requests_of(state)
        self.moved: set[str] = set()
        self.foreign: ForeignRecords = []
        self.horizon: int | None = None
        self._formatter = RecordFormatter(view)
        self._retried: Mapping[Event, int] = NEVER
        self._split = _NOTHING
        self.sampled: Callable[[Iterable[Event]], Iterable[Event]] = _as_they_are
        self._finish = parts_of(self)
        for stream in list(self.late_events.streams):
            progress = state.progress(stream)
            # At least once, only the first rows of a unit may have been written; and a table that
            # was away for long may miss deletions that compaction has removed since.
            asked = progress.rebuild if isinstance(progress, Progress) else ()
            state.stale += self.late_events.forget(stream, asked)

    @property
    def halted(self) -> str | None:
        """Why the view is halted, None if it is not."""
        return self.state.positions.halted

    @property
    def unfinished(self) -> list[str]:
        """Streams whose drain goes on in the next step, which needs no events."""
        return [] if self.halted else self.state.unfinished_streams

    @property
    def rebuilds(self) -> list[str]:
        """Streams that wait until they are rebuilt; see `rebuild`."""
        return [] if self.halted else list(self.late_events.streams)

    @property
    def due(self) -> float:
        """The earliest deadline of a gap, a retry or a closed stream (ms), infinite if none is."""
        if self.halted:
            return float("inf")
        due = min(self.state.timers.next, self.state.retries.next, self.closed_streams.due)
        return due if self.resend_requests is None else min(due, self.resend_requests.due)

    @property
    def retry_due(self) -> float:
        """The earliest deadline of a retry, or of rows to write (ms): it takes a step, and no
        horizon."""
        if self.halted:
            return float("inf")
        short, due = self.state.short, self.state.retries.next
        return min(due, short.due) if short else due

    def take_redeliveries(self, records: Sequence[Message], now: int) -> list[Event]:
        """Return the events of redelivery records, for the step that follows.

        records: what `RedeliveryQueue.take` returned. now: the wall clock (ms).
        """
        back = revive(self.view, records, now, self.foreign)
        return [event for event in back if not event.was_dead or self.redriven.take(event)]

    def lose_redeliveries(self, lost: int, unit: CommitUnit) -> None:
        """So many events that went away will not come again: they are dead, and nobody has them."""
        counts, topic = self.state.counts, self.view.redeliver_topic
        counts.redelivering -= lost
        counts.dead += lost
        self.state.note(unit, [])
        unit.reports.append(
            f"view {self.view.name}: {counted(lost, 'event')} of {topic}/{unit.partition} will not "
            "come again: retention has deleted the records, or the topic was made anew; they count "
            "as dead; an audit names them: send them again"
        )

    def foresee(self, events: list[Event], split: list[Event] | None = None) -> None:
        """Take the lanes of the events of the next step, before any view's handler has them.

        It may change their content, which all views of a source share. split: the same events with
        their lanes, where they are known already.
        """
        if self.view.split is not None:
            self._split = events, self.view.split(events) if split is None else split

    def run(
        self,
        events: list[Event],
        unit: CommitUnit,
        horizon: int | None,
        back: Sequence[Event] = (),
    ) -> None:
        """One step with a plain handler; its outputs and rows go into `unit`.

        events: that arrived. horizon: a time by which all that had arrived has been read, and come
        again, if gaps may be given up. back: what `take_redeliveries` returned. Retries go by
        `unit.now`.
        """
        result = self.order(events, unit, horizon, back)
        handling = self.new_handling(unit)
        handling.run(self.sampled(result.ready))
        self.finish(result, handling, unit, back)

    async def arun(
        self,
        events: list[Event],
        unit: CommitUnit,
        horizon: int | None,
        back: Sequence[Event] = (),
    ) -> None:
        """One step with a handler that has to be awaited."""
        result = self.order(events, unit, horizon, back)
        handling = self.new_handling(unit)
        await handling.arun(self.sampled(result.ready))
        self.finish(result, handling, unit, back)

    def order(
        self,
        events: list[Event],
        unit: CommitUnit,
        horizon: int | None,
        back: Sequence[Event] = (),
    ) -> Step:
        """Order a batch, go on with retries that are due, and give up gaps that are."""
        state = self.state
        state.in_unit = False
        resume, state.unfinished_streams = state.unfinished_streams, []
        now = max(unit.now, horizon or 0)
        if state.clock < now < ALWAYS:
            state.clock = now
        while (stream := state.retries.pop(now)) is not None:
            if state.release(stream):
                resume.append(stream)
        attempts = self._attempts(resume) if resume else {}
        counts = state.counts
        counts.received += len(events)
        if self.view.split is not None:
            seen, split = self._split
            events = split if seen is events else self.view.split(events)
            self._split = _NOTHING
        self.horizon = horizon
        if back:
            events = [*back, *events]
            again = len(back) - self.redriven.count(counts)
            # At least once, a crash may let an event come again more often than it went.
            counts.received += max(0, again - counts.redelivering)
            counts.redelivering = max(0, counts.redelivering - again)
        result = step(
            state.ordering, state, state.timers, events,
            now=horizon, resume=resume, memory=state.memory_left,
        )  # fmt: skip
        self._retried = _heads(result.ready, attempts) if attempts else NEVER
        if result.retried:
            self._retried = {**self._retried, **result.retried}
        return result

    def new_handling(self, unit: CommitUnit) -> Handling:
        """What calls the handler for the events of one step."""
        state = self.state
        if state.epochs and self._formatter.epoch_of is None:
            self._formatter = RecordFormatter(self.view, state.epoch)
        handling = StepHandling if self.view.plain_state else Handling
        return handling(
            self.view, unit, state.stream_state, self._retried, self._formatter, state.cells
        )

    def _attempts(self, resume: Iterable[str]) -> dict[str, int]:
        """Stream → how often its next event was retried, this time included."""
        found: dict[str, int] = {}
        for stream in resume:
            progress = self.state.progress(stream)
            if isinstance(progress, Progress) and progress.retry is not None:
                found[stream] = progress.retry.attempts
        return found

    def finish(
        self,
        result: Step,
        handling: Handling,
        unit: CommitUnit,
        back: Sequence[Event] = (),
    ) -> None:
        """Take a step's outcome over, into memory and into the unit; see `finishing.PARTS`."""
        step = FinishedStep(self, result, handling, unit, back)
        for part in self._finish:
            part(step)

    def rebuilt(self, stream: str, state: bytes | None) -> None:
        """A stream was rebuilt, and its own dictionary is another one now."""
        self.state.counts.rebuilt += 1
        self.state.epochs = True
        self.state.set_stream_state(stream, state)

    def halt(self, reason: str, unit: CommitUnit) -> None:
        """Take no more steps; `reason` is what the first halt said."""
        positions = self.state.positions
        positions.halted = positions.halted or reason
        why = printable(reason, 1000)
        unit.reports.append(f"view {self.view.name} is halted: {why}; fix that, and resume it")


def _heads(ready: Iterable[Event], attempts: dict[str, int]) -> dict[Event, int]:
    """The event that is retried, of each stream that was held → how often."""
    found: dict[Event, int] = {}
    for event in ready:
        if (number := attempts.pop(event.stream, None)) is not None:
            found[event] = number
    return found
