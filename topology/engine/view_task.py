"""One view in one partition, one step of it at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from topology.declaration.policies.late import RebuildStream
from topology.declaration.view import View
from topology.engine.closed_streams import ClosedStreams
from topology.engine.commit_unit import CommitUnit
from topology.engine.failure import Failure
from topology.engine.handling import NEVER, Handling
from topology.engine.late_events import LateEvents
from topology.engine.plausible import ALWAYS
from topology.engine.record_formatter import RecordFormatter
from topology.engine.redelivery import Foreign, redeliver, revive, set_aside
from topology.engine.redriven_events import Redriven
from topology.engine.resend_requests import asking_of
from topology.engine.rows import COUNTS, LATENESS
from topology.engine.side_outputs import tell, tell_parked, why_full
from topology.engine.view_state import ViewState, is_parked
from topology.model.counts import encode_counts, saturated
from topology.model.event import Event, Message
from topology.model.origin import ORIGIN, REASON, origin
from topology.model.partition_table import PartitionTable, Row
from topology.model.printable import printable
from topology.sequencer.memory_budget import Budget
from topology.sequencer.progress import Progress, Retry, note_failed
from topology.sequencer.sequencer import LAST, Step, hold_all, step

_NOTHING: tuple[list[Event] | None, list[Event]] = (None, [])
"""No events, as a view with lanes has them."""


class ViewTask(ViewState):
    """Runs a view over the events of one partition.

    A step changes memory at once and leaves the rows to the commit unit: when a unit cannot be
    committed, drop the task and build another one. A halted view takes no steps until it is
    resumed: who runs it keeps its input for it.
    """

    def __init__(
        self, view: View, table: PartitionTable, now: int = ALWAYS, budget: Budget | None = None
    ) -> None:
        super().__init__(view, table, now, budget)
        self._retried: Mapping[Event, int] = NEVER
        self.moved: set[str] = set()
        """Streams that moved while events of the view are away; see `Away`."""
        self._foreign: Foreign = []
        self._redriven = Redriven(view.name, table)
        self.late_events = LateEvents(table)
        self._formatter = RecordFormatter(view, self.epoch if self.counts.rebuilt else None)
        self._horizon: int | None = None
        self._split = _NOTHING
        self.closed = ClosedStreams(table)
        self._asking = asking_of(self)
        self._learned()
        for stream in list(self.late_events.streams):
            progress = self.progress(stream)
            # At least once, only the first rows of a unit may have been written; and a table that
            # was away for long may miss deletions that compaction has removed since.
            asked = progress.rebuild if isinstance(progress, Progress) else ()
            self._stale += self.late_events.forget(stream, asked)

    @property
    def halted(self) -> str | None:
        """Why the view is halted, None if it is not."""
        return self.positions.halted

    @property
    def unfinished(self) -> list[str]:
        """Streams whose drain goes on in the next step, which needs no events."""
        return [] if self.halted else self.drains

    @property
    def rebuilds(self) -> list[str]:
        """Streams that wait until they are rebuilt; see `rebuild`."""
        return [] if self.halted else list(self.late_events.streams)

    @property
    def due(self) -> float:
        """The earliest deadline of a gap, a retry or a closed stream (ms), infinite if none is."""
        if self.halted:
            return float("inf")
        due = min(self.timers.next, self.retries.next, self.closed.due)
        return due if self._asking is None else min(due, self._asking.due)

    @property
    def retry_due(self) -> float:
        """The earliest deadline of a retry (ms): it takes a step, and no horizon."""
        return float("inf") if self.halted else self.retries.next

    def take_back(self, records: Sequence[Message], now: int) -> list[Event]:
        """The events of records of the redelivery topic that `Away.take` said, for the step that
        follows."""
        back = revive(self.view, records, now, self._foreign)
        return [event for event in back if not event.was_dead or self._redriven.take(event)]

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
        again, if gaps may be given up. back: what `take_back` said. Retries go by `unit.now`.
        """
        result = self.order(events, unit, horizon, back)
        handling = self.new_handling(unit)
        handling.run(result.ready)
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
        await handling.arun(result.ready)
        self.finish(result, handling, unit, back)

    def order(
        self,
        events: list[Event],
        unit: CommitUnit,
        horizon: int | None,
        back: Sequence[Event] = (),
    ) -> Step:
        """Order a batch, go on with retries that are due, and give up gaps that are."""
        resume, self.drains = self.drains, []
        now = max(unit.now, horizon or 0)
        if self.clock < now < ALWAYS:
            self.clock = now
        while (stream := self.retries.pop(now)) is not None:
            if self.release(stream):
                resume.append(stream)
        attempts = self._attempts(resume) if resume else {}
        counts = self.counts
        counts.received += len(events)
        if self.view.split is not None:
            seen, split = self._split
            events = split if seen is events else self.view.split(events)
            self._split = _NOTHING
        self._horizon = horizon
        if back:
            events = [*back, *events]
            again = len(back) - self._redriven.count(counts)
            # At least once, a crash may let an event come again more often than it went.
            counts.received += max(0, again - counts.redelivering)
            counts.redelivering = max(0, counts.redelivering - again)
        result = step(self.ordering, self, self.timers, events, now=horizon, resume=resume)
        self._retried = _heads(result.ready, attempts) if attempts else NEVER
        return result

    def new_handling(self, unit: CommitUnit) -> Handling:
        """What calls the handler for the events of one step."""
        return Handling(self.view, unit, self.state, self._retried, self._formatter)

    def release(self, stream: str, *, anew: bool = False) -> bool:
        """Let a stream that is set aside go on in the next step. Returns whether it was.

        anew: its retries count from the start.
        """
        progress = self.progress(stream)
        if not isinstance(progress, Progress) or not progress.held:
            return False
        progress = self._young[stream] = self.waiting[stream] = progress.copy()
        progress.held = False
        if anew:
            progress.retry = None
        return True

    def _attempts(self, resume: Iterable[str]) -> dict[str, int]:
        """Stream → how often its next event was retried, this time included."""
        found: dict[str, int] = {}
        for stream in resume:
            progress = self.progress(stream)
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
        """Take the step's outcome over into memory, and its rows and outputs into the unit."""
        handling.finish()
        counts = self.counts
        if handling.held:
            self._hold(result, handling.held, unit)
        asked: list[Row] = []
        late = result.late
        if handling.without and isinstance(self.view.late, RebuildStream):
            note_failed(result.changed, handling.without)
        if late and isinstance(self.view.late, RebuildStream):
            late, asked = self.late_events.take(result, self.view.late, self.ordering.step)
        tell(self.view, result, late, unit)
        self.drains = result.unfinished
        # Progress comes before what it lets go: where a unit is not one transaction and only its
        # first rows are written, a waiting event is there twice rather than not at all.
        # And a late event comes before what says that its stream waits for a rebuild.
        rows = self._stale + asked + self.keep(result.changed, handling.states)
        rows += self._buffer_rows(result)
        if self.ordering.closes or self.closed.due != float("inf"):
            rows += self._closed_rows(result)
        self._stale = []
        if self._redriven:
            rows += self._redriven.rows()
            self._redriven.tell(self.view, unit)
        self._age()
        counts.processed += handling.processed
        counts.passed += handling.passed
        counts.failed += handling.failed
        counts.written += len(handling.outputs)
        counts.duplicate += result.duplicates
        counts.conflicts += len(result.conflicts)
        counts.late += len(result.late)
        counts.reopened += len(result.reopened)
        counts.waiting += len(result.buffered) - len(result.released)
        if result.skipped:
            counts.skipped = saturated(counts.skipped + sum(gap.count for gap in result.skipped))
        if result.impossible:
            counts.dead += len(result.impossible)
            set_aside(self.view, result.impossible, self.ordering.jump, unit)
        if self.parked or handling.held:
            self._park(result, handling.held, unit)
        if result.redelivered:
            again = redeliver(self.view, result.redelivered, unit, self.progress)
            counts.redelivering += again
            counts.dead += len(result.redelivered) - again
        if counts.redelivering:
            self.moved.update(result.changed)
        if self._foreign:
            self._set_aside(unit)
        if result.full:
            self.halt(why_full(self.view, result), unit)
        if self.lateness is not None:
            self._learn(result, rows, learn=not back)
        if self._asking is not None:
            self._asking.note(result.changed)
            if self._horizon is not None:
                self._asking.ask(self, self._horizon, unit)
        self.note(unit, rows)
        if self.budget is not None:
            self.budget.keep()

    def rebuilt(self, stream: str, state: bytes | None) -> None:
        """A stream was rebuilt, and its own dictionary is another one now."""
        self.counts.rebuilt += 1
        self._formatter = RecordFormatter(self.view, self.epoch)
        self._states[stream] = state

    def _closed_rows(self, result: Step) -> list[Row]:
        """Remember what was closed, and forget the streams whose time is over."""
        over: set[str] = set()
        rows: list[Row] = []
        if self._horizon is not None:
            over, rows = self.closed.drop(self._horizon, self.progress)
        for stream in over:
            self.drop_cached(stream)
        self.counts.dropped += len(over)
        left = (each for each in result.changed.items() if each[0] not in over)
        return rows + self.closed.note(left)

    def note(self, unit: CommitUnit, rows: list[Row]) -> None:
        """Add rows to the unit, and the counts."""
        rows.append((COUNTS, encode_counts(self.counts, self.position)))
        self.noted = self.position
        name = self.view.name
        unit.rows[name] = unit.rows[name] + rows if name in unit.rows else rows

    def halt(self, reason: str, unit: CommitUnit) -> None:
        """Take no more steps; `reason` is what the first halt said."""
        self.positions.halted = self.positions.halted or reason
        why = printable(reason, 1000)
        unit.reports.append(
            f"view {self.view.name} is halted: {why}; resume it when that is mended"
        )

    def _set_aside(self, unit: CommitUnit) -> None:
        """What somebody wrote to the redelivery topic that is no event."""
        for record, reason in self._foreign:
            why = reason.encode("utf-8", "backslashreplace")[:4000]
            headers = [*record.headers, (REASON, why), (ORIGIN, origin(record))]
            out = (record.key, record.value, unit.now, headers)
            unit.keyed[self.view.malformed_topic].append(out)
            unit.reports.append(
                f"view {self.view.name}: {record.topic}/{record.partition} offset {record.offset} "
                f"goes to {self.view.malformed_topic}: {printable(reason)}"
            )
        self._foreign.clear()

    def _hold(self, result: Step, held: Mapping[str, Failure], unit: CommitUnit) -> None:
        """Set the streams of failed events aside; halt the view if that is its policy."""
        failed: dict[str, tuple[Event, Retry | None]] = {}
        for stream, failure in held.items():
            what = failure.outcome
            retry = None
            if what.retry:
                retry = Retry(what.retry, unit.now + max(1, round(what.delay * 1000)))
                self.retries.add(retry.due, stream)
            failed[stream] = (failure.event, retry)
            if what.halts:
                self.halt(
                    f"stream {printable(stream)} sequence {failure.event.sequence} failed", unit
                )
        hold_all(self.ordering, self, self.timers, result, failed)

    def _park(self, result: Step, held: Mapping[str, Failure], unit: CommitUnit) -> None:
        """Count what waits in parked streams apart, and tell of each event that is parked now."""
        changed, counts = result.changed, self.counts
        for stream in [*held, *sorted(self.parked.keys() & changed.keys() - held.keys())]:
            progress, before = changed[stream], self.parked.pop(stream, 0)
            if isinstance(progress, Progress) and is_parked(progress):
                self.parked[stream] = progress.waiting
                # What came too early and was handled in this very step does not wait.
                done = {e.sequence for e in result.released if e.stream == stream}
                new = {
                    e.sequence: e
                    for e in result.buffered
                    if e.stream == stream and e.sequence not in done
                }
                if not before:
                    rows = self.spilled(stream, progress.last + 1, LAST) if progress.spilled else ()
                    first = islice(rows, self.ordering.drain)
                    new = {e.sequence: e for e in (*first, *new.values(), *(progress.ring or ()))}
                events = [new[at] for at in sorted(new)]
                tell_parked(self.view, progress, events, held.get(stream), unit)
            moved = self.parked.get(stream, 0) - before
            counts.parked += moved
            counts.waiting -= moved

    def _learn(self, result: Step, rows: list[Row], *, learn: bool) -> None:
        """Note how late events came, and choose the time for gaps anew."""
        sketch, held = self.lateness, self.ordering.skip_after
        if sketch is None or not (result.filled or result.late or result.skipped):
            return
        for gap in result.skipped:
            sketch.gave_up(gap.stream, gap.first, gap.last, gap.since)
        for event in result.late:
            sketch.came_late(event.stream, event.sequence, event.arrived, held or 0)
        # What was away for redelivery came late by our own doing.
        for lateness in result.filled if learn else ():
            sketch.add(lateness)
        rows.append((LATENESS, sketch.encode()))
        self._learned()

    def _learned(self) -> None:
        """Hold gaps for as long as the sketch says."""
        if self.lateness is None or self.view.adaptive is None:
            return
        after, before = self.lateness.after(self.view.adaptive), self.ordering.skip_after
        if after == before:
            return
        self.ordering = replace(self.ordering, skip_after=after)
        # A deadline that comes earlier now has to be set anew; of a later one it is seen in time.
        if before is None or after < before:
            for stream, progress in self.waiting.items():
                self.watch(stream, progress)


def _heads(ready: Iterable[Event], attempts: dict[str, int]) -> dict[Event, int]:
    """The event that is retried, of each stream that was held → how often."""
    found: dict[Event, int] = {}
    for event in ready:
        if (number := attempts.pop(event.stream, None)) is not None:
            found[event] = number
    return found
