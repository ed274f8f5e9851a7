"""Rebuild a stream in one view: all of its events in sequence again, the late ones in their place.

The stream has waited since its late event came, so that its last processed sequence is where it
was. Its row changes go out in a new epoch, behind deletes of the rows that the epoch before wrote
and the new one does not; they, its state, its progress and the end of the request are one unit.
What the handler emits was emitted before, and is not again, but for the late events.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import orjson

from topology.changes import Delete, Emit
from topology.errors import described
from topology.event import Event
from topology.failure import Failure, Outcome, log_failure
from topology.handling import OUTPUT_LIMIT
from topology.handling_epochs import EPOCH, EpochHandling, EpochLaneHandling
from topology.handling_lanes import own_stream
from topology.history import History
from topology.lanes import split_lane
from topology.on_error import Advance
from topology.printable import printable
from topology.progress import Progress
from topology.sequencer_replay import replayed
from topology.stream_commands import moved
from topology.unit import CommitUnit, Out
from topology.view_task import ViewTask
from topology.view_tells import tell_late
from topology.written import Written

CLEARED = "cleared"
"""Header of an epoch's first record: how many of its changes, the first ones, clear the rows of the
epoch before."""
PASSED_OVER = "passed over in a rebuild"
"""What the error log says of an event that failed before, and fails again."""


def rebuild(task: ViewTask, stream: str, history: History, unit: CommitUnit) -> None:
    """Rebuild one of `task.rebuilds` with a plain handler; `StreamTask.finish` closes the unit.

    A stream that cannot be rebuilt stays as it is, and its late events go to the late topic.
    """
    made = _Rebuild(task, stream, history, unit)
    if made.handling is not None:
        made.handling.run(made.ready)
    made.finish()


async def arebuild(task: ViewTask, stream: str, history: History, unit: CommitUnit) -> None:
    """The same with a handler that has to be awaited."""
    made = _Rebuild(task, stream, history, unit)
    if made.handling is not None:
        await made.handling.arun(made.ready)
    made.finish()


class _Again(EpochHandling):
    """late: the events that were not handled before. wrote: the sequences of those that were, and
    whose handler did not fail, as far as it is known."""

    late: Collection[Event] = ()
    wrote: Collection[int] = ()
    number = 0

    def epoch(self, stream: str) -> int:
        return self.number

    def emitted(self, event: Event, item: Emit) -> tuple[dict[str, list[Out]], str, Out]:
        outputs, topic, out = super().emitted(event, item)
        return (outputs if event in self.late else defaultdict(list)), topic, out

    def fail(self, event: Event, error: BaseException) -> bool:
        if not isinstance(self.view.error, Advance):
            # Its stream may not go on without it: then it stays as it was before.
            done = Outcome("rebuild", held=True)
            self.held[event.stream] = Failure(event, done, described(error))
            return True
        if event in self.late:
            return super().fail(event, error)
        if event.sequence in self.wrote:
            return super().fail(event, error)
        log_failure(self.view, event, error, PASSED_OVER, self.unit)
        return False


class _AgainLanes(_Again, EpochLaneHandling):
    """The same in a view with lanes."""


class _Rebuild:
    """ready: the stream's events in sequence; handling: None if there is nothing to handle."""

    def __init__(self, task: ViewTask, stream: str, history: History, unit: CommitUnit) -> None:
        self.task = task
        self.stream = stream
        self.history = history
        self.unit = unit
        self.ready: list[Event] = []
        self.handling: _Again | None = None
        self.own = CommitUnit(*unit.place, now=unit.now)
        """What goes into `unit` only if all of it goes well."""
        self.new: list[Event] = []
        self.copies = 0
        self.asked = [
            task.revive(stream, sequence, row) for sequence, row in task.late_events.rows(stream)
        ]
        progress = task.progress(stream)
        self.progress = Progress(progress) if isinstance(progress, int) else progress.copy()
        for event in self.asked:
            history.event(event)
        self.reason = history.unfit(task.ordering, progress)
        if not self.reason:
            self._prepare()

    def _prepare(self) -> None:
        task, view = self.task, self.task.view
        self.ready = replayed(task.ordering, list(self.history.events.values()))
        asked = {_position(event) for event in self.asked}
        self.new = [event for event in self.ready if _position(event) in asked]
        self.copies = len(self.asked) - len(self.new)
        if self.copies and task.ordering.kind != "monotonic":
            # An order that knows what it gave up says that no copy was handled in its time.
            place = {_position(event) for event in self.new}
            copy = next(event for event in self.asked if _position(event) not in place)
            self.reason = (
                f"sequence {copy.sequence} was given up, and yet has come before: the stream was "
                "dropped since, or that copy was away"
            )
            return
        # Another copy was handled in its time: the order does not remember for so long.
        if self.new:
            again = _Again if view.split is None else _AgainLanes
            self.handling = again(view, self.own, lambda _: None)
            self.handling.late = frozenset(self.new)
            self.handling.wrote = self.history.written.sequences - set(self.progress.failed)
            self.handling.number = max(self.progress.epoch, self.history.written.epoch) + 1

    def finish(self) -> None:
        """Take what came of it over into memory, and its rows and outputs into the unit."""
        handling, counts = self.handling, self.task.counts
        outputs = self._outputs() if handling is not None else []
        self.progress.rebuild = ()
        if self.reason:
            tell_late(self.task.view, self.asked, self.unit, self.reason)
            self._report(f"is not rebuilt: {self.reason}; its late events are in the late topic")
        else:
            counts.late -= len(self.asked)
            counts.duplicate += self.copies
            if handling is not None:
                self._count(handling)
                counts.written += len(outputs)
                self.progress.epoch = handling.number
                self.progress.add_failed(event.sequence for event in handling.without)
                self.task.rebuilt(self.stream, handling.states.get(self.stream))
                self._hand_over(outputs)
        # The counts come first, too: from them it is known that there are epochs.
        self.task.note(self.unit, [])
        moved(self.task, self.stream, self.progress, [], self.unit)
        self.task.note(self.unit, self.task.late_events.forget(self.stream))

    def _outputs(self) -> list[Out]:
        """The records of the new epoch; sets the reason if there can be none."""
        handling, history = self.handling, self.history
        assert handling is not None
        if (failure := handling.held.get(self.stream)) is not None:
            self.reason = f"sequence {failure.event.sequence} failed: {failure.error}"
            return []
        made, first = Written(), None
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

    def _cleared(self, handling: _Again, stale: list[Delete]) -> list[Out]:
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
            headers = [handling.view_header, ("sequence", b"%d" % sequence)]
            headers.append((EPOCH, b"%d" % handling.number))
        body["changes"] = [*stale, *body["changes"]]
        value = orjson.dumps(body)
        if len(value) > OUTPUT_LIMIT:
            self.reason = f"the deletes of the {len(stale)} rows that it leaves are too many"
            return []
        return [(key, value, now, [*headers, (CLEARED, b"%d" % len(stale))]), *rest]

    def _count(self, handling: _Again) -> None:
        """The late events are where they would have been in their time; the others stay, but for
        those that were processed and fail now."""
        accepts, counts = self.task.view.accepts, self.task.counts
        passed = sum(accepts is not None and event.kind not in accepts for event in self.new)
        counts.passed += passed
        counts.failed += handling.failed
        counts.processed += len(self.new) - passed - handling.failed
        if self.task.ordering.kind == "contiguous" and self.task.ordering.open_after is None:
            # They were given up one by one, and are in their place now.
            counts.skipped -= len(self.new)

    def _hand_over(self, outputs: list[Out]) -> None:
        own, unit = self.own, self.unit
        for mine, there in ((own.colocated, unit.colocated), (own.keyed, unit.keyed)):
            for topic, records in mine.items():
                there[topic] += records
        if outputs:
            unit.colocated[self.task.view.output] += outputs
        unit.sent += own.sent
        unit.reports += own.reports
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
