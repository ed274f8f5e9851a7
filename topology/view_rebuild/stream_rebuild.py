"""Rebuild a stream in one view: all of its events in sequence again, the late ones in their place.

The stream has waited since its late event came, so that its last processed sequence is where it
was. Its row changes go out in a new epoch, behind deletes of the rows that the epoch before wrote
and the new one does not; they, its state, its progress and the end of the request are one unit.
What the handler emits was emitted before, and is not again, but for the events that are handled now
for the first time: the late ones, and those that had failed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import orjson

from topology.declaration.lanes import split_lane
from topology.declaration.policies import Advance
from topology.declaration.view import View
from topology.engine.commands.stream_commands import moved
from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.output.failure import Failure, FailureAction, log_failure, log_healed
from topology.engine.output.handling import Handling
from topology.engine.output.live_cells import MemoryCells
from topology.engine.output.record_formatter import EPOCH, OUTPUT_LIMIT, RecordFormatter, own_stream
from topology.engine.output.side_outputs import send_late
from topology.engine.view_task import ViewTask
from topology.model.changes import Delete, Emit
from topology.model.errors import HandlerError, described
from topology.model.event import Event
from topology.model.partition_table import Row
from topology.model.printable import printable
from topology.sequencer.progress import FAILED_KEPT, Progress
from topology.sequencer.replay import replayed
from topology.view_rebuild.history import History
from topology.view_rebuild.stream_rows import WrittenRows

CLEARED = "cleared"
"""Header of an epoch's first record: how many of its changes, the first ones, clear the rows of the
epoch before."""
PASSED_OVER = "passed over in a rebuild"
"""What the error log says of an event that failed before, and fails again."""


def rebuild(task: ViewTask, stream: str, history: History, unit: CommitUnit) -> None:
    """Rebuild one of `task.rebuilds` with a plain handler; `StreamTask.finish` closes the unit.

    A stream that cannot be rebuilt stays as it is, and its late events go to the late topic.
    """
    made = _StreamRebuild(task, stream, history, unit)
    for handling, events in made.runs:
        handling.run(events)
    made.finish()


async def arebuild(task: ViewTask, stream: str, history: History, unit: CommitUnit) -> None:
    """The same with a handler that has to be awaited."""
    made = _StreamRebuild(task, stream, history, unit)
    for handling, events in made.runs:
        await handling.arun(events)
    made.finish()


async def rebuild_all(task: ViewTask, histories: Mapping[str, History], unit: CommitUnit) -> None:
    """Rebuild several of `task.rebuilds` into one unit, with either kind of handler."""
    if histories:
        task.state.save(unit)
    for stream, history in histories.items():
        if task.view.is_async:
            await arebuild(task, stream, history, unit)
        else:
            rebuild(task, stream, history, unit)


Told = dict[tuple[str, bytes | None], list[bytes]]
"""(topic to another view, key) → the values of all records that a stream's events come to."""


class _HandlingAgain(Handling):
    """A stream's events handled again; nothing is sent to other views. told: what would be."""

    told: Told
    _of_event: list[tuple[str, Out]]

    def emitted(self, event: Event, item: Emit) -> tuple[dict[str, list[Out]], str, Out]:
        outputs, topic, out = super().emitted(event, item)
        if topic not in self.hops:
            return outputs, topic, out
        self._of_event.append((topic, out))
        return defaultdict(list), topic, out

    def write(self, event: Event, items: Iterable[Any]) -> None:
        self._of_event = []
        super().write(event, items)
        for topic, (key, value, _, _) in self._of_event:
            self.told.setdefault((topic, key), []).append(value or b"")


class _RebuildHandling(_HandlingAgain):
    """A stream's events handled again, in epoch `number`.

    first: the events that were never handled before. failed_before: the sequences that failed
    before, and stay failed if they do again. again: those of them that do.
    """

    def __init__(
        self,
        view: View,
        unit: CommitUnit,
        number: int,
        first: Collection[Event],
        failed_before: Collection[int],
    ) -> None:
        formatter = RecordFormatter(view, lambda _: number)
        super().__init__(view, unit, lambda _: None, formatter=formatter, stored=MemoryCells())
        self.number = number
        self.first = first
        self.failed_before = failed_before
        self.told = {}
        self.again: set[int] = set()

    def emitted(self, event: Event, item: Emit) -> tuple[dict[str, list[Out]], str, Out]:
        outputs, topic, out = super().emitted(event, item)
        return outputs if event in self.first else defaultdict(list), topic, out

    def correct(self, event: Event, before: Told) -> None:
        """Send to other views what differs from before: what it all comes to, in one record a key.

        event: the stream's last. Raises HandlerError for a record that is too large.
        """
        for topic, key in dict.fromkeys((*before, *self.told)):
            was, now = before.get((topic, key), ()), self.told.get((topic, key), ())
            if (value := self.hops[topic](was, now)) is not None:
                outputs, _, out = Handling.emitted(self, event, Emit(topic, key, value))
                outputs[topic].append(out)
                self.sent.append((topic, out, self.view.name, event.stream, event.sequence))

    def fail(self, event: Event, error: BaseException) -> bool:
        if event.sequence in self.failed_before:
            log_failure(self.view, event, error, PASSED_OVER, self.unit)
            self.again.add(event.sequence)
            return False
        if isinstance(self.view.error, Advance):
            return super().fail(event, error)
        # Its stream may not go on without it: then it stays as it was before.
        done = FailureAction("rebuild", held=True)
        self.held[event.stream] = Failure(event, done, described(error))
        return True


class _Earlier(_HandlingAgain):
    """A stream's events as they were handled before, to see what was sent to other views."""

    def __init__(self, view: View) -> None:
        super().__init__(view, CommitUnit("", 0), lambda _: None, stored=MemoryCells())
        self.told = {}

    def fail(self, event: Event, error: BaseException) -> bool:
        return False


class _StreamRebuild:
    """ready: the stream's events in sequence; handling: None if there is nothing to handle. runs:
    the handlings to run, and their events."""

    def __init__(self, task: ViewTask, stream: str, history: History, unit: CommitUnit) -> None:
        self.task = task
        self.stream = stream
        self.history = history
        self.unit = unit
        self.ready: list[Event] = []
        self.earlier = _Earlier(task.view)
        self.handling: _RebuildHandling | None = None
        self.runs: list[tuple[Handling, list[Event]]] = []
        self.own = CommitUnit(*unit.place, now=unit.now)
        """What goes into `unit` only if all of it goes well."""
        self.new: list[Event] = []
        """The late events that are no copies of what was handled in its time."""
        self.before: set[int] = set()
        """Sequences that failed before."""
        self.asked = [
            task.state.revive(stream, sequence, row)
            for sequence, row in task.late_events.rows(stream)
        ]
        progress = task.state.progress(stream)
        self.progress = Progress(progress) if isinstance(progress, int) else progress.copy()
        for event in self.asked:
            history.event(event)
            if self._is_new(event):
                self.new.append(event)
        self.reason = history.unfit(task, self.progress)
        if not self.reason and self.new:
            self._prepare()

    def _is_new(self, event: Event) -> bool:
        """Whether a late event was not handled before. Only an order that does not know what it
        gave up lets a copy come late of what was handled long ago."""
        sequence, history = event.sequence, self.history
        if not self.task.state.ordering.settles or self.progress.has_skipped(sequence):
            return True
        # Where the history is not to be had nobody knows, and it is late.
        first = history.events.get(sequence)
        return history.refused or (first is not None and _position(first) == _position(event))

    def _prepare(self) -> None:
        task, view, progress = self.task, self.task.view, self.progress
        new = {event.sequence for event in self.new}
        handled = [
            event
            for sequence, event in self.history.events.items()
            if sequence in new or not progress.has_skipped(sequence) or self._was_copy(sequence)
        ]
        self.ready = replayed(task.state.ordering, handled)
        self.before = set(progress.failed)
        first = new | self.before.difference(progress.sent)
        if view.hops:
            old = [event for event in handled if event.sequence not in new | self.before]
            self.runs.append((self.earlier, replayed(task.state.ordering, old)))
        self.handling = _RebuildHandling(
            view,
            self.own,
            max(progress.epoch, self.history.written.epoch) + 1,
            frozenset(event for event in self.ready if event.sequence in first),
            self.before,
        )
        self.runs.append((self.handling, self.ready))

    def _was_copy(self, sequence: int) -> bool:
        """Whether what is recorded as passed was a copy of what had been handled."""
        monotonic = self.task.state.ordering.settles
        return monotonic and sequence in self.history.written.sequences

    def finish(self) -> None:
        """Take what came of it over into memory, and its rows and outputs into the unit."""
        handling, counts, progress = self.handling, self.task.state.counts, self.progress
        outputs = self._outputs() if handling is not None and not self.reason else []
        progress.rebuild = ()
        copies = len(self.asked) - len(self.new)
        counts.late -= copies
        counts.duplicate += copies
        if self.reason:
            # Whatever comes of them again has another try.
            progress.restore_skipped((e.sequence for e in self.new), self.task.state.ordering.step)
            send_late(self.task.view, self.new, self.unit, self.reason)
            self._report(f"is not rebuilt: {self.reason}; its late events are in the late topic")
        else:
            counts.late -= len(self.new)
            if handling is not None:
                self._place(handling)
                counts.written += len(outputs)
                progress.epoch = handling.number
                self.task.rebuilt(self.stream, handling.states.get(self.stream))
                self._hand_over(outputs)
        # The counts come first, too: from them it is known that there are epochs.
        self.task.state.note(self.unit, self._cells())
        moved(self.task, self.stream, progress, [], self.unit)
        self.task.state.note(self.unit, self.task.late_events.forget(self.stream))

    def _cells(self) -> list[Row]:
        """The rows of the stream's cells, if it was rebuilt."""
        if self.reason or self.handling is None or not self.task.view.cells:
            return []
        made = self.handling.cells.get(self.stream, {})
        return self.task.state.cells.replace(self.stream, made, self.progress.last)

    def _outputs(self) -> list[Out]:
        """The records of the new epoch; sets the reason if there can be none."""
        handling, history = self.handling, self.history
        assert handling is not None
        if (failure := handling.held.get(self.stream)) is not None:
            self.reason = f"sequence {failure.event.sequence} failed: {failure.error}"
            return []
        failed = len(self.progress.failed) + len(handling.without)
        if failed >= FAILED_KEPT:
            self.reason = f"{failed} of its events would have failed"
            return []
        try:
            handling.correct(self.ready[-1], self.earlier.told)
        except HandlerError as error:
            self.reason = f"what other views were told cannot be corrected: {error}"
            return []
        made, first = WrittenRows(), None
        late = {event.sequence for event in self.new}
        for _, value, _, _ in handling.outputs:
            body = orjson.loads(value or b"{}")
            made.record(body)
            if first is None and body["sequence"] not in late:
                first = body["sequence"]
        began = history.written.first
        if history.unwritten and first is not None and (began is None or began > first):
            self.reason = "its outputs are no longer all there: retention has taken some"
            return []
        stale = history.written.stale(made)
        return self._cleared(handling, stale) if stale else handling.outputs

    def _cleared(self, handling: _RebuildHandling, stale: list[Delete]) -> list[Out]:
        """The records, of which the first deletes what is stale before it does what it has to."""
        body: dict[str, Any]
        if handling.outputs:
            (key, value, now, headers), *rest = handling.outputs
            body = orjson.loads(value or b"{}")
        else:
            # No event writes anything now: the first one says that nothing is left.
            first, rest = self.ready[0], []
            key, now = own_stream(handling.view, first).encode(), self.unit.now
            sequence = first.sequence
            body = {"view": handling.view.name, "stream": first.stream, "sequence": sequence}
            if handling.view.split is not None:
                body["lane"] = split_lane(first.stream)[1]
            body |= {"changes": [], EPOCH: handling.number}
            headers = [handling.formatter.view_header, ("sequence", b"%d" % sequence)]
            headers.append((EPOCH, b"%d" % handling.number))
        body["changes"] = [*stale, *body["changes"]]
        value = orjson.dumps(body)
        if len(value) > OUTPUT_LIMIT:
            self.reason = f"the deletes of the {len(stale)} rows that it leaves are too many"
            return []
        return [(key, value, now, [*headers, (CLEARED, b"%d" % len(stale))]), *rest]

    def _place(self, handling: _RebuildHandling) -> None:
        """Count each event where it is now. Late ones are where they would have been in their time;
        the others stay, but for those that failed and do not any more, and the other way round."""
        progress, counts, accepts = self.progress, self.task.state.counts, self.task.view.accepts
        new = {event.sequence for event in self.new}
        healed = [
            event
            for event in self.ready
            if event.sequence in self.before.difference(handling.again)
            and (accepts is None or event.kind in accepts)
        ]
        passed = sum(accepts is not None and event.kind not in accepts for event in self.new)
        fails = [event.sequence for event in handling.without]
        counts.passed += passed
        counts.failed += len(fails) - len(healed)
        counts.unrouted += sum(event in handling.first for event in handling.unrouted)
        counts.processed += len(new) - passed - len(fails) + len(healed)
        progress.strike_failed({event.sequence for event in healed})
        progress.add_failed(fails)
        # What they emit was sent when they were handled.
        progress.sent = (*progress.sent, *(each for each in fails if each not in new))
        for event in healed:
            log_healed(self.task.view, event, self.own)
        # They were given up one by one, but for those below the event that the stream began with.
        given_up = sum(not any(low <= n <= high for low, high in progress.below) for n in new)
        for sequence in new:
            progress.strike_skipped(sequence, self.task.state.ordering.step)
        if not progress.skipped:
            progress.below = ()
        if self.task.state.ordering.counts:
            # They are in their place now. What rows of before do not tell is not below zero.
            counts.skipped -= min(given_up, counts.skipped)

    def _hand_over(self, outputs: list[Out]) -> None:
        own, unit = self.own, self.unit
        for mine, there in ((own.colocated, unit.colocated), (own.keyed, unit.keyed)):
            for topic, records in mine.items():
                there[topic] += records
        if outputs:
            unit.colocated[self.task.view.output] += outputs
        unit.sent += own.sent
        unit.reports += own.reports
        assert self.handling is not None
        for event, reason in self.handling.too_late:
            # What was late in its own time before is told of again: it may be another by now.
            send_late(self.task.view, [event], unit, reason, in_sequence=True)
        number = self.progress.epoch
        self._report(
            f"is rebuilt with {len(self.new)} late events: {len(self.ready)} handled again, "
            f"{EPOCH} {number}"
        )

    def _report(self, text: str) -> None:
        stream = printable(self.stream)
        self.unit.reports.append(f"view {self.task.view.name}: stream {stream} {text}")


def _position(event: Event) -> tuple[str, int, int]:
    message = event.message
    return message.topic, message.partition, message.offset
