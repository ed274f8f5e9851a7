"""One view in one partition: its state in memory, and one step of it at a time."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from topology.counts import decode_counts, encode_counts
from topology.errors import Malformed
from topology.event import Event
from topology.handling import Handling
from topology.positions import decode_positions
from topology.progress import Progress
from topology.rows import (
    BUFFERS,
    COUNTS,
    POSITIONS,
    buffer_key,
    decode_message,
    decode_progress,
    encode_message,
    encode_progress,
    progress_key,
    split_buffer_key,
)
from topology.sequencer import LAST, Step, can_go_on, deadline, ring_of, step
from topology.store import PartitionTable, Row
from topology.timers import Timers
from topology.unit import CommitUnit
from topology.view import View

CACHED = 50_000
"""Streams in order kept in memory per view and partition; others are read when they move."""


class ViewTask:
    """Runs a view over the events of one partition.

    The rows of `table` are the truth at the last commit. Streams that wait are held in memory,
    others in a bounded cache. A step changes memory at once and leaves the rows to the commit unit:
    when a unit cannot be committed, drop the task and build another one.
    """

    def __init__(self, view: View, table: PartitionTable, *, late_topic: str, errors_topic: str):
        self.view = view
        self.table = table
        self.late_topic = late_topic
        self.errors_topic = errors_topic
        self.ordering = view.ordering
        self.timers = Timers()
        self.unfinished: list[str] = []
        self._stale: list[Row] = []
        self.waiting: dict[str, Progress] = {}
        self._first = self.ordering.first
        # Two generations: what is used moves to the young one; the old one is dropped as a whole.
        self._young: dict[str, int | Progress] = {}
        self._old: dict[str, int | Progress] = {}
        self._states: dict[str, bytes | None] = {}
        self._old_states: dict[str, bytes | None] = {}
        self.counts = decode_counts(table.get(COUNTS))
        self.positions_row = table.get(POSITIONS)
        self.positions = decode_positions(self.positions_row)
        self._load()

    def _load(self) -> None:
        """Build the rings and deadlines of the streams that wait."""
        ordering = self.ordering
        for key, _ in self.table.scan(*BUFFERS):
            stream, sequence = split_buffer_key(key)
            progress = self.waiting.get(stream)
            if progress is None:
                found, _ = self._find(stream)
                progress = found if isinstance(found, Progress) else Progress(found)
                progress.ring = ring_of(ordering)
                self.waiting[stream] = progress
            assert progress.ring is not None
            if sequence <= progress.last:
                self._stale.append((key, None))
            elif progress.ring.admits(progress.last, sequence):
                progress.ring.put(next(iter(self.spilled(stream, sequence, sequence))))
            else:
                progress.spilled += 1
        for stream, progress in list(self.waiting.items()):
            assert progress.ring is not None
            if not progress.waiting:
                del self.waiting[stream]
                continue
            progress.loaded = progress.ring.end(progress.last)
            if can_go_on(ordering, progress):
                self.unfinished.append(stream)
            if (due := deadline(ordering, progress)) is not None:
                self.timers.add(due, stream)

    def progress(self, stream: str) -> int | Progress:
        """The stream's progress."""
        found = self._young.get(stream)
        return self._fetch(stream) if found is None else found

    def state(self, stream: str) -> bytes | None:
        """The stream's own dictionary as JSON, or None."""
        if stream not in self._states:
            if stream in self._old_states:
                self._states[stream] = self._old_states[stream]
            else:
                self._states[stream] = self._find(stream)[1]
        return self._states[stream]

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        """The stream's events that wait, as their rows have them."""
        low = buffer_key(stream, min(first, LAST))
        high = buffer_key(stream, min(last, LAST)) + b"\0"
        for key, row in self.table.scan(low, high):
            if len(key) == len(low):
                yield self._revive(stream, split_buffer_key(key)[1], row)

    def _revive(self, stream: str, sequence: int, row: bytes) -> Event:
        message, arrived = decode_message(row)
        event = Event(stream, sequence, None, None, message, arrived)
        # A message whose format the inspector no longer knows comes without kind and content.
        with suppress(Malformed):
            if (found := self.view.of.inspect(message)) is not None:
                _, _, event.kind, event.content = found
        return event

    def _fetch(self, stream: str) -> int | Progress:
        found = self.waiting.get(stream) or self._old.get(stream)
        if found is None:
            found, state = self._find(stream)
            if self.view.stateful:
                self._states[stream] = state
        self._young[stream] = found
        return found

    def _find(self, stream: str) -> tuple[int | Progress, bytes | None]:
        row = self.table.get(progress_key(stream))
        return (self._first, None) if row is None else decode_progress(row)

    def _age(self) -> None:
        """Keep the cache bounded; called between steps only."""
        if len(self._young) >= CACHED:
            self._old, self._young = self._young, {}
            self._old_states, self._states = self._states, {}

    @property
    def due(self) -> float:
        """The earliest deadline of a gap (ms), infinite if there is none."""
        return self.timers.next

    def order(self, events: Iterable[Event], received: int, horizon: int | None) -> Step:
        """Order a batch of `received` events, and give up gaps that are due by `horizon` (ms)."""
        resume, self.unfinished = self.unfinished, []
        result = step(self.ordering, self, self.timers, events, now=horizon, resume=resume)
        self.counts.received += received
        return result

    def run(self, events: list[Event], unit: CommitUnit, horizon: int | None) -> None:
        """One step with a plain handler; its outputs and rows go into `unit`."""
        result = self.order(events, len(events), horizon)
        handling = Handling(self.view, self.errors_topic, unit, self.state)
        handling.run(result.ready)
        self.finish(result, handling, unit)

    async def arun(self, events: list[Event], unit: CommitUnit, horizon: int | None) -> None:
        """One step with a handler that has to be awaited."""
        result = self.order(events, len(events), horizon)
        handling = Handling(self.view, self.errors_topic, unit, self.state)
        await handling.arun(result.ready)
        self.finish(result, handling, unit)

    def finish(self, result: Step, handling: Handling, unit: CommitUnit) -> None:
        """Take the step's outcome over into memory, and its rows and outputs into the unit."""
        handling.finish()
        self._tell(result, unit)
        self.unfinished = result.unfinished
        self._states.update(handling.states)
        self._young.update(result.changed)
        # Progress comes before what it lets go: where a unit is not one transaction and only its
        # first rows are written, a waiting event is there twice rather than not at all.
        rows = self._progress_rows(result.changed) + self._stale
        rows += self._buffer_rows(result)
        self._stale = []
        self._age()
        counts = self.counts
        counts.processed += handling.processed
        counts.passed += handling.passed
        counts.failed += handling.failed
        counts.duplicate += result.duplicates
        counts.conflicts += len(result.conflicts)
        counts.late += len(result.late)
        counts.waiting += len(result.buffered) - len(result.released)
        counts.skipped += sum(gap.count for gap in result.skipped)
        rows.append((COUNTS, encode_counts(counts)))
        unit.rows[self.view.name] = rows

    def _progress_rows(self, changed: dict[str, int | Progress]) -> list[Row]:
        """The rows of streams that moved; most are in order and have no state: that costs least."""
        waiting = self.waiting
        for stream, progress in changed.items():
            if progress.__class__ is not int and progress.waiting:  # type: ignore[union-attr]
                waiting[stream] = progress  # type: ignore[assignment]
            elif stream in waiting:
                del waiting[stream]
        if self.view.stateful:
            state = self.state
            return [
                (progress_key(stream), encode_progress(progress, state(stream)))
                for stream, progress in changed.items()
            ]
        return [
            (
                b"p" + stream.encode(),
                b"%d" % progress if progress.__class__ is int else encode_progress(progress, None),
            )
            for stream, progress in changed.items()
        ]

    def _buffer_rows(self, result: Step) -> list[Row]:
        new = {(event.stream, event.sequence): event for event in result.buffered}
        gone: list[Row] = [
            (buffer_key(event.stream, event.sequence), None)
            for event in result.released
            if new.pop((event.stream, event.sequence), None) is None
        ]
        return gone + [
            (buffer_key(stream, sequence), encode_message(event.message, event.arrived))
            for (stream, sequence), event in new.items()
        ]

    def _tell(self, result: Step, unit: CommitUnit) -> None:
        name = self.view.name
        header = ("view", name.encode())
        for event in result.late:
            message = event.message
            headers = [*message.headers, header, ("sequence", b"%d" % event.sequence)]
            late = (event.stream.encode(), message.value, event.arrived, headers)
            unit.keyed[self.late_topic].append(late)
        for gap in result.skipped:
            unit.reports.append(
                f"view {name}: stream {gap.stream} skipped {gap.count} missing "
                f"({gap.first} to {gap.last})"
            )
        for event in result.conflicts:
            unit.reports.append(
                f"view {name}: stream {event.stream} sequence {event.sequence} came twice with "
                f"different bodies; the later one, {event.message.topic}/{event.message.partition} "
                f"offset {event.message.offset}, is discarded: look at its producer"
            )
