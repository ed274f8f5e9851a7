"""A view's state for the sequencer alone: what steps decided, kept in dictionaries."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from tests.topology.deliveries import Arrival
from topology import Event, Record
from topology.engine.state.rows import decode_progress, encode_progress
from topology.sequencer.progress import Progress, last_of
from topology.sequencer.ring import RingBuffer
from topology.sequencer.sequencer import Ordering, Step, step
from topology.sequencer.timers import Timers


def event(stream: str, sequence: int, at: int = 0, value: bytes = b"") -> Event:
    record = Record("orders", 0, 0, stream.encode(), value, timestamp=at)
    return Event(stream, sequence, None, None, record, at)


def events(arrivals: list[Arrival]) -> list[Event]:
    """The arrivals as events that count from 1."""
    return [event(stream, nth + 1, at) for stream, nth, at in arrivals]


class Held:
    """The sequencer's State. `rows` holds every event that waits, in the ring or beyond it.

    memory: what each step is told that rings may grow by.
    """

    def __init__(self, ordering: Ordering, memory: int = 0) -> None:
        self.ordering = ordering
        self.memory = memory
        self.known: dict[str, int | Progress] = {}
        self.written: dict[str, bytes] = {}
        self.rows: dict[str, dict[int, Event]] = {}
        self.timers = Timers()
        self.unfinished: list[str] = []
        self.handled: dict[str, list[int]] = {}
        self.steps: list[Step] = []

    def progress(self, stream: str) -> int | Progress:
        return self.known.get(stream, self.ordering.start - self.ordering.step)

    def spilled(self, stream: str, first: int, last: int) -> Iterator[Event]:
        rows = self.rows.get(stream, {})
        return iter([rows[sequence] for sequence in sorted(rows) if first <= sequence <= last])

    def decide(self, batch: list[Event], now: int | None = None) -> Step:
        """A step, of which nothing is kept yet."""
        return step(
            self.ordering, self, self.timers, batch,
            now=now, resume=self.unfinished, memory=self.memory,
        )  # fmt: skip

    def keep(self, result: Step) -> Step:
        """Make a step durable."""
        self.steps.append(result)
        for one in result.buffered:
            self.rows.setdefault(one.stream, {})[one.sequence] = one
        for one in result.released:
            del self.rows[one.stream][one.sequence]
        self._take_over(result.changed)
        self.unfinished = result.unfinished
        for one in result.ready:
            self.handled.setdefault(one.stream, []).append(one.sequence)
        return result

    def _take_over(self, changed: dict[str, int | Progress]) -> None:
        self.known.update(changed)
        rows = {stream: encode_progress(progress, None) for stream, progress in changed.items()}
        self.written.update(rows)

    def take(self, *batch: Event, now: int | None = None) -> Step:
        return self.keep(self.decide(list(batch), now))

    def finish(self, now: int | None = None) -> None:
        """Go on until no drain is unfinished."""
        while self.unfinished:
            self.take(now=now)

    def _watch(self) -> None:
        """The timers, which are only an index, are built anew."""
        self.timers = Timers()
        for stream, progress in self.known.items():
            if isinstance(progress, Progress) and progress.waiting:
                due = self.ordering.deadline(progress)
                if due is not None:
                    self.timers.add(due, stream)

    def rebuild(self) -> None:
        """Lose all but what the rows say: progress as it is written, and the events that wait."""
        self.known, self.unfinished = {}, []
        for stream, row in self.written.items():
            found, _ = decode_progress(row)
            waits = self.rows.get(stream)
            if waits:
                found = found if isinstance(found, Progress) else Progress(found)
                found.ring = self.ordering.ring()
                for sequence in sorted(waits):
                    if found.ring.admits(found.last, sequence):
                        found.ring.put(waits[sequence])
                    else:
                        found.spilled += 1
                found.loaded = found.ring.end(found.last)
                if self.ordering.can_go_on(found):
                    self.unfinished.append(stream)
            self.known[stream] = found
        self._watch()

    def release(self, stream: str, now: int | None = None) -> Step:
        """Say that a stream is held no longer."""
        progress = self.known[stream]
        assert isinstance(progress, Progress)
        self._take_over({stream: replace(progress.copy(), held=False)})
        self.unfinished.append(stream)
        return self.take(now=now)

    def meaning(self) -> Any:
        """Stream → last sequence, what was skipped, what waits: without how it is held."""
        return {
            stream: (
                last_of(progress),
                progress.skipped if isinstance(progress, Progress) else (),
                sorted(self.rows.get(stream, ())),
            )
            for stream, progress in self.known.items()
        }

    def picture(self) -> Any:
        """All that the sequencer could have changed, as plain values."""
        known = {
            stream: progress
            if isinstance(progress, int)
            else {f.name: _plain(getattr(progress, f.name)) for f in fields(Progress)}
            for stream, progress in self.known.items()
        }
        rows = {stream: dict(waiting) for stream, waiting in self.rows.items()}
        return known, rows


def _plain(value: Any) -> Any:
    if isinstance(value, RingBuffer):
        return value.size, value.step, dict(value.slots)
    return value
