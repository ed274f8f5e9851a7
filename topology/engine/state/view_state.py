"""A view's state in one partition: rows of a table, and what is held of them in memory."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from heapq import merge
from itertools import islice
from operator import attrgetter
from weakref import ref

from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.state.cells import StoredCells
from topology.engine.state.lateness import decode_lateness
from topology.engine.state.plausible import ALWAYS, bound
from topology.engine.state.positions import decode_positions
from topology.engine.state.rows import (
    BUFFERS,
    COUNTS,
    LATENESS,
    NOTES,
    POSITIONS,
    buffer_key,
    decode_message,
    decode_progress,
    encode_progress,
    progress_key,
    split_buffer_key,
)
from topology.engine.state.short_waits import (
    ShortWaits,
    WaitLimits,
    may_wait_in_memory,
    rows_of,
)
from topology.model.counts import decode_counts, encode_counts
from topology.model.errors import Malformed
from topology.model.event import Event, event_of
from topology.model.partition_table import PartitionTable, Row
from topology.sequencer.memory_budget import Budget, Unloads
from topology.sequencer.progress import Progress, last_of
from topology.sequencer.ring import RingBuffer
from topology.sequencer.sequencer import LAST, Step
from topology.sequencer.timers import Timers

CACHED = 50_000
"""Streams in order kept in memory per view and partition; others are read when they move."""


class ViewState(Unloads):
    """The sequencer's State of a view.

    The rows of `table` are the truth at the last commit. Streams that wait are held in memory,
    others in a bounded cache; events that wait are, as long as the budget lasts, if there is one.
    parked: stream that is set aside until somebody says so → how many of its events wait. retries:
    the deadlines of those that go on by themselves; `timers` has theirs and those of gaps.
    positions: where the view reads; a change of them goes with the unit that `StreamTask.finish`
    closes. now: the clock (ms), which stored times are held against. short: the events that have no
    row, where the view's input can be read again; `limits` says how much of it. atomic: whether a
    unit is one transaction.
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
        self.table = table
        self.clock = now
        self.budget = budget
        in_memory = limits is not None and may_wait_in_memory(view)
        self.short = ShortWaits(limits) if in_memory and limits else None
        self.ordering = view.ordering
        self.timers = Timers()
        self.retries = Timers()
        self.unfinished_streams: list[str] = []
        self.waiting: dict[str, Progress] = {}
        self.parked: dict[str, int] = {}
        self.epochs = False
        """Whether a stream that was looked at was ever made anew."""
        self.in_unit = False
        """Whether rows of what waits are in a unit that is not closed, and so not in the table yet:
        what else is in the unit looks for them."""
        self.stale: list[Row] = []
        """Rows to delete or to correct, which the next unit does."""
        # Two generations: what is used moves to the recent one; the previous one is dropped
        # as a whole.
        self._recent: dict[str, int | Progress] = {}
        self._previous: dict[str, int | Progress] = {}
        self._recent_states: dict[str, bytes | None] = {}
        self._previous_states: dict[str, bytes | None] = {}
        self.cells = StoredCells(table, _last_of(ref(self)), atomic)
        self.counts = decode_counts(table.get(COUNTS))
        self.position = 0
        # Up to where the row of the counts says that they count; None where there is none. What a
        # row says that was there before is not looked at: it is written anew.
        self.noted = None if table.get(COUNTS) is None else -1
        self.positions_row = table.get(POSITIONS)
        self.positions = decode_positions(self.positions_row)
        self.lateness = None if view.gap.adaptive is None else decode_lateness(table.get(LATENESS))
        self._load()
        self._corrections = (
            self.cells.mend(lambda s: last_of(self._find(s)[0])) if view.cells else []
        )
        """Rows of cells that go before whatever is written first."""
        self.choose_timeout()

    def _load(self) -> None:
        """Build the rings and deadlines of the streams that wait."""
        ordering, budget = self.ordering, self.budget
        # What they were of has its row by now, or waits no longer.
        self.stale += [(key, None) for key, _ in self.table.scan(*NOTES)]
        first: dict[str, int] = {}
        for key, row in self.table.scan(*BUFFERS):
            stream, sequence = split_buffer_key(key)
            progress = self.waiting.get(stream)
            if progress is None:
                found, _ = self._find(stream)
                progress = found if isinstance(found, Progress) else Progress(found)
                self.waiting[stream] = progress
                progress.loaded = progress.last
            if sequence <= progress.last:
                self.stale.append((key, None))
            elif not progress.spilled and not (budget is not None and budget.spent):
                progress.ring = progress.ring or ordering.ring()
                if progress.ring.admits(progress.last, sequence):
                    progress.ring.put(self.revive(stream, sequence, row))
                    progress.loaded = sequence
                    self._note(stream, progress)
                else:
                    progress.loaded = progress.ring.end(progress.last)
                    progress.spilled += 1
            else:
                progress.spilled += 1
                if not progress.ring:
                    first.setdefault(stream, sequence)
        for stream, progress in list(self.waiting.items()):
            if not progress.waiting:
                del self.waiting[stream]
                continue
            if not progress.spilled and progress.ring is not None:
                progress.loaded = progress.ring.end(progress.last)
            if bound(progress, self.clock, self.view.error):
                row = encode_progress(
                    progress, self.stream_state(stream) if self.view.stateful else None
                )
                self.stale.append((progress_key(stream), row))
            counted = ordering.counts and stream in first
            if counted and first[stream] != progress.last + ordering.step:
                pass
            elif self.can_go_on(stream, progress):
                self.unfinished_streams.append(stream)
            self.watch(stream, progress)
            if is_parked(progress):
                self.parked[stream] = progress.waiting

    def can_go_on(self, stream: str, progress: Progress) -> bool:
        """Whether the first of the events that wait, in memory or as rows, is the next one."""
        if self.ordering.can_go_on(progress):
            return True
        if progress.spilled:
            progress = progress.copy()
            progress.ring = self.ordering.ring()
            for event in islice(self.spilled(stream, progress.last + 1, LAST), 1):
                if progress.ring.admits(progress.last, event.sequence):
                    progress.ring.put(event)
        return self.ordering.can_go_on(progress)

    def watch(self, stream: str, progress: Progress) -> None:
        """Set the deadlines of a stream that waits."""
        if (due := self.ordering.deadline(progress)) is not None:
            self.timers.add(due, stream)
        if progress.held and progress.retry is not None:
            self.retries.add(progress.retry.due, stream)

    def progress(self, stream: str) -> int | Progress:
        """The stream's progress."""
        found = self._recent.get(stream)
        return self._fetch(stream) if found is None else found

    def stream_state(self, stream: str) -> bytes | None:
        """The stream's own dictionary as JSON, or None."""
        if stream not in self._recent_states:
            if stream in self._previous_states:
                self._recent_states[stream] = self._previous_states[stream]
            else:
                self._recent_states[stream] = self._find(stream)[1]
        return self._recent_states[stream]

    def epoch(self, stream: str) -> int:
        """How often the stream was rebuilt or dropped."""
        progress = self.progress(stream)
        return progress.epoch if isinstance(progress, Progress) else 0

    @property
    def memory_left(self) -> int:
        """The bytes that events beyond their rings may take before they are rows."""
        if self.short is None:
            return 0
        return LAST if self.budget is None else self.budget.left

    def choose_timeout(self) -> None:
        """Hold gaps for as long as the lateness that was learned says."""
        if self.lateness is None or self.view.gap.adaptive is None:
            return
        after, before = self.lateness.after(self.view.gap.adaptive), self.ordering.skip_after
        if after == before:
            return
        self.ordering = replace(self.ordering, skip_after=after)
        # A deadline that comes earlier now has to be set anew; of a later one it is seen in time.
        if before is None or after < before:
            for stream, progress in self.waiting.items():
                self.watch(stream, progress)

    def known(self, stream: str) -> bool:
        """Whether the view has seen the stream."""
        return stream in self.waiting or self.table.get(progress_key(stream)) is not None

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        """The stream's events that wait, as their rows have them."""
        first, last = min(first, LAST), min(last, LAST)
        low = buffer_key(stream, first)
        if first == last:
            # Most often there is none, which a table knows without looking for the next one.
            if (row := self.table.get(low)) is not None:
                yield self.revive(stream, first, row)
            return
        high = buffer_key(stream, last) + b"\0"
        for key, row in self.table.scan(low, high):
            if len(key) == len(low):
                yield self.revive(stream, split_buffer_key(key)[1], row)

    def revive(self, stream: str, sequence: int, row: bytes) -> Event:
        message, arrived = decode_message(row)
        kind = content = None
        # A message whose format the inspector no longer knows comes without kind and content.
        with suppress(Malformed):
            if (found := self.view.of.inspect(message)) is not None:
                _, _, kind, content = found
        return event_of(stream, sequence, kind, content, message, min(arrived, self.clock))

    def _fetch(self, stream: str) -> int | Progress:
        found = self.waiting.get(stream) or self._previous.get(stream)
        if found is None:
            found, state = self._find(stream)
            if self.view.stateful:
                self._recent_states[stream] = state
            if isinstance(found, Progress) and found.held:
                # At least once, a crash may leave a stream set aside of which nothing waits yet.
                if found.retry is None:
                    self.parked.setdefault(stream, 0)
                else:
                    self.retries.add(found.retry.due, stream)
        self._recent[stream] = found
        return found

    def _find(self, stream: str) -> tuple[int | Progress, bytes | None]:
        row = self.table.get(progress_key(stream))
        if row is None:
            return self.ordering.first, None
        found = decode_progress(row)
        self.epochs |= isinstance(found[0], Progress) and found[0].epoch > 0
        return found

    def age(self) -> None:
        """Keep the cache bounded; called between steps only."""
        if len(self._recent) >= CACHED:
            self._previous, self._recent = self._recent, {}
            self._previous_states, self._recent_states = self._recent_states, {}
        self.cells.age()

    def keep(self, changed: dict[str, int | Progress], states: dict[str, bytes]) -> list[Row]:
        """Take progress and states over into memory. Returns the rows of the streams that moved.

        Most are in order and have no state: that costs least.
        """
        waiting, stateful, budget = self.waiting, self.view.stateful, self.budget
        self._recent_states.update(states)
        self._recent.update(changed)
        rows: list[Row] = []
        sizes: dict[str, int] = {}
        for stream, progress in changed.items():
            if isinstance(progress, int):
                if stream in waiting:
                    del waiting[stream]
                    sizes[stream] = 0
                row = b"%d" % progress
            else:
                row, ring = encode_progress(progress, None), progress.ring
                if progress.spilled or (ring is not None and ring.slots):
                    waiting[stream] = progress
                    sizes[stream] = 0 if ring is None else ring.bytes
                    # That more of its events wait is not in its row.
                    before, progress.row = progress.row, row
                    if before == row and stream not in states:
                        continue
                elif stream in waiting:
                    del waiting[stream]
                    sizes[stream] = 0
            if stateful:
                row = encode_progress(progress, self.stream_state(stream))
            rows.append((b"p" + stream.encode(), row))
        if budget is not None:
            budget.note(self, sizes)
        return rows

    def buffer_rows(self, result: Step, *, as_rows: bool = False) -> list[Row]:
        """The rows of events that wait from now on, and of those that wait no longer.

        as_rows: whether none may wait in memory only.
        """
        short, gone = self.short, result.released
        new: Collection[Event] = result.buffered
        if gone:
            waits = dict.fromkeys(new, True)
            gone = [event for event in gone if waits.pop(event, None) is None]
            new = waits
        if short is not None:
            gone = short.release(gone)
            if not as_rows:
                new = self._wait_in_memory(new, result.changed, short)
            # Of what is impossible, `last` does not tell that it is gone.
            short.end_now |= bool(result.impossible)
        return delete_rows(gone) + rows_of(new)

    def _wait_in_memory(
        self, new: Collection[Event], changed: dict[str, int | Progress], short: ShortWaits
    ) -> list[Event]:
        """Let events that begin to wait do so without a row; returns those that are to have one."""
        # What is beyond its ring has a row in any case.
        rows = [
            event
            for event in new
            if changed[event.stream].spilled and not _in_ring(changed[event.stream], event)  # type: ignore[union-attr,arg-type]
        ]
        if rows:
            beyond = dict.fromkeys(rows)
            new = [event for event in new if event not in beyond]
        return rows + short.add(new)

    def save(self, unit: CommitUnit) -> None:
        """Have a unit write what is not written yet, before what follows in it: the rows of all
        that waits in memory only, and those to delete or to correct."""
        stale, waits = self.take_stale(), self.short is not None and self.short.noted
        if self.short is not None and waits:
            self.short.end_now = self.in_unit = True
        if stale or waits:
            self.note(unit, stale)

    def _note(self, stream: str, progress: Progress) -> None:
        if self.budget is not None:
            size = 0 if progress.ring is None else progress.ring.bytes
            self.budget.note(self, {stream: size})

    def release(self, stream: str, *, anew: bool = False) -> bool:
        """Let a suspended stream go on in the next step. Returns whether it was suspended.

        anew: its retries count from the start.
        """
        progress = self.progress(stream)
        if not isinstance(progress, Progress) or not progress.held:
            return False
        progress = self._recent[stream] = self.waiting[stream] = progress.copy()
        progress.held = False
        if anew:
            progress.retry = None
        return True

    def set_stream_state(self, stream: str, state: bytes | None) -> None:
        """The stream was rebuilt, and its own dictionary is another one now."""
        self._recent_states[stream] = state

    def take_stale(self) -> list[Row]:
        """The rows to delete or to correct, which the unit in hand does now."""
        stale, self.stale = self.stale, []
        return stale

    def note(self, unit: CommitUnit, rows: list[Row]) -> None:
        """Add rows to the unit, and the counts."""
        if self.short is not None and self.short.noted:
            if self.budget is not None:
                self.budget.keep()
            rows += self.short.rows(everything=self.positions.halted is not None)
        if self._corrections:
            rows, self._corrections = [*self._corrections, *rows], []
        rows.append((COUNTS, encode_counts(self.counts, self.position)))
        self.noted = self.position
        name = self.view.name
        unit.rows[name] = unit.rows[name] + rows if name in unit.rows else rows

    def unload(self, stream: str) -> bool:
        """Leave a stream's waiting events to their rows. Returns whether all have one; if not, the
        unit that is closed next writes them, and it is to be asked again."""
        if self.in_unit:
            return False
        progress = self.waiting.get(stream)
        if progress is not None and progress.ring:
            if self.short and self.short.end(progress.ring.slots.values()):
                return False
            progress.spilled += len(progress.ring)
            progress.loaded, progress.ring = progress.last, None
        return True

    def ring(self, stream: str) -> RingBuffer | None:
        """The ring of a stream that waits."""
        progress = self.waiting.get(stream)
        return None if progress is None else progress.ring

    def forget(self, stream: str) -> None:
        """Hold a stream for one that was never seen; its rows go with the unit."""
        self._recent[stream] = self.ordering.first
        self._recent_states[stream] = None
        self.waiting.pop(stream, None)
        if self.budget is not None:
            self.budget.note(self, {stream: 0})
        self.timers.discard(stream)
        self.retries.discard(stream)
        self.parked.pop(stream, None)
        self.unfinished_streams = [other for other in self.unfinished_streams if other != stream]

    def drop_cached(self, stream: str) -> None:
        """Take a stream in which nothing waits out of memory: its rows go with the unit."""
        for known in (self._recent, self._previous, self._recent_states, self._previous_states):
            known.pop(stream, None)

    def waits(self, stream: str) -> Iterator[Event]:
        """All events of a stream that wait, in sequence."""
        progress = self.progress(stream)
        if not isinstance(progress, Progress):
            return
        ring = progress.ring
        here = {event.sequence: event for event in ring or ()}
        rows: Iterable[Event] = ()
        if progress.spilled:
            beyond = self.spilled(stream, progress.last + 1, LAST)
            rows = (event for event in beyond if event.sequence not in here)
        yield from merge(here.values(), rows, key=attrgetter("sequence"))


def _last_of(state: "ref[ViewState]") -> Callable[[str], int]:
    """Its streams' last sequences; a state is freed as soon as nobody needs it."""

    def last(stream: str) -> int:
        found = state()
        assert found is not None
        return last_of(found.progress(stream))

    return last


def _in_ring(progress: Progress, event: Event) -> bool:
    """Whether an event that waits does so in its stream's ring."""
    ring = progress.ring
    return ring is not None and ring.find(progress.last, event.sequence) is event


def is_parked(progress: int | Progress) -> bool:
    """Whether a stream is set aside until somebody says so."""
    return isinstance(progress, Progress) and progress.held and progress.retry is None


def delete_rows(events: Iterable[Event]) -> list[Row]:
    """The rows that delete waiting events."""
    return [(buffer_key(event.stream, event.sequence), None) for event in events]
