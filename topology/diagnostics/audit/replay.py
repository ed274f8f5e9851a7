"""Handlers run again over what a view has handled, in sequence, by the engine's own handling."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from topology.declaration.view import View
from topology.diagnostics.audit.sequences import Sequences
from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.output.handling import Handling
from topology.engine.output.live_cells import MemoryCells
from topology.model.changes import Delete, Emit, Upsert
from topology.model.event import Event


class ReplayHandling(Handling):
    """said: events with the value of their output record. messages: events with those that they
    yield, by topic. broken: events whose handler fails, with the error."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.said: list[tuple[Event, bytes]] = []
        self.messages: list[tuple[Event, dict[str, list[Out]]]] = []
        self.broken: list[tuple[Event, BaseException]] = []

    def emit_changes(self, event: Event, changes: list[Upsert | Delete]) -> None:
        super().emit_changes(event, changes)
        self.said.append((event, self.outputs[-1][1] or b""))

    def emitted(self, event: Event, item: Emit) -> tuple[dict[str, list[Out]], str, Out]:
        _, topic, out = super().emitted(event, item)
        own: dict[str, list[Out]] = defaultdict(list)
        self.messages.append((event, own))
        return own, topic, out

    def fail(self, event: Event, error: BaseException) -> bool:
        self.broken.append((event, error))
        self.end_state(event)
        return False


class HandlerReplay:
    """One view in one partition.

    streams: stream → the numbers, from 0 on, of the events that the view has handled. What comes
    before its turn is held in memory, and so are the streams' own dictionaries.
    """

    def __init__(self, view: View, streams: Mapping[str, Sequences]) -> None:
        self.view = replace(view, emitting=view.emitting.anew())
        self.streams = streams
        self._next: dict[str, int | None] = {}
        self._waits: dict[str, dict[int, Event]] = {}
        self._states: dict[str, bytes] = {}
        self._cells = MemoryCells()
        self._ready: list[Event] = []

    def event(self, event: Event, number: int) -> None:
        """An event that came, the first copy before others."""
        stream = event.stream
        numbers = self.streams.get(stream)
        if numbers is None:
            return
        expected = self._next.get(stream, -1)
        if expected == -1:
            expected = numbers.first if numbers else None
        if expected is None or number < expected:
            self._next[stream] = expected
            return
        if number != expected:
            if number in numbers:
                self._waits.setdefault(stream, {}).setdefault(number, event)
            return
        waits = self._waits.get(stream)
        while True:
            self._ready.append(event)
            expected = _following(numbers, number)
            if waits is None or expected is None or expected not in waits:
                break
            number, event = expected, waits.pop(expected)
        self._next[stream] = expected
        if waits is not None and not waits:
            del self._waits[stream]

    async def run(self) -> ReplayHandling:
        """Handle what is ready."""
        unit, cells = CommitUnit("", 0), self._cells
        handling = ReplayHandling(self.view, unit, self._states.get, stored=cells)
        ready, self._ready = self._ready, []
        if self.view.is_async:
            await handling.arun(ready)
        else:
            handling.run(ready)
        self._states.update(handling.states)
        cells.take(handling.cells)
        return handling

    def passed(self, stream: str, number: int) -> bool:
        """Whether an event's handler has run by now."""
        expected = self._next.get(stream, -1)
        return stream in self._next and (expected is None or number < expected)

    def unhandled(self) -> Iterable[tuple[str, int]]:
        """(stream, number) of what came before its turn and never had it: an event before it was
        not there to be read again."""
        for stream, waits in self._waits.items():
            yield stream, min(waits)


def _following(numbers: Sequences, number: int) -> int | None:
    """The lowest of the numbers above one of them."""
    bounds = numbers.bounds
    at = bisect_right(bounds, number + 1)
    if at % 2:
        return number + 1
    return bounds[at] if at < len(bounds) else None
