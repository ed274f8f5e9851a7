"""Handle a step with each stream's state read once and written once: for handlers of verbs."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from topology.engine.commit_unit import CommitUnit
from topology.engine.output.handling import Handling, encoded_state
from topology.engine.output.live_cells import Cells, Kept
from topology.model.event import Event


class StepHandling(Handling):
    """The handling of a view with `plain_state`, which is given plain data only by its handler.

    All events of a step are tried at once, on states that stay in memory between them. If one of
    them fails, nothing of the trial is kept, and they are handled one by one. So what comes of it
    is the same, and only failures cost more.
    """

    def run(self, ready: Iterable[Event]) -> None:
        done: list[Event] = []
        events = iter(ready)
        # A record that the broker has refused is an event that fails.
        if self.refused or not self._tried(events, done):
            super().run(chain(done, events))

    def _tried(self, events: Iterator[Event], done: list[Event]) -> bool:
        """Whether a trial has handled the events; `done` gets those that it took."""
        unit = self.unit
        trial = _Trial(
            self.view, CommitUnit(*unit.place, now=unit.now), self.state_of, self.retried,
            self.formatter, self.stored,
        )  # fmt: skip
        try:
            trial.take(events, done)
        except BaseException:
            # Whatever it is, the events are handled anew, and then it counts.
            return False
        self.states, self.cells, self.topics = trial.states, trial.cells, trial.topics
        self.processed, self.passed = trial.processed, trial.passed
        self.outputs, self.unrouted, self.too_late = trial.outputs, trial.unrouted, trial.too_late
        for of_trial, to in (
            (trial.unit.colocated, unit.colocated), (trial.unit.keyed, unit.keyed),
        ):  # fmt: skip
            for topic, records in of_trial.items():
                to[topic] += records
        unit.sent += trial.sent
        unit.traced += trial.unit.traced
        return True


class _Trial(Handling):
    """The handling of events none of which fails: the first that does ends it."""

    def take(self, events: Iterable[Event], done: list[Event]) -> None:
        """Handle events. Raises what a handler raises, and HandlerError."""
        view = self.view
        write = self.write if view.paths or view.hops else self.writes_one()
        handler, accepts = view.handler, view.accepts
        live: dict[str, dict[str, Any]] = {}
        cells: dict[str, Cells] = {}
        arguments = 1 + view.stateful + view.cells
        self.stateful = False  # nothing is written before the last event
        for event in events:
            done.append(event)
            if accepts is not None and event.kind not in accepts:
                self.passed += 1
                continue
            if arguments == 1:
                items = handler(event)
            else:
                stream = event.stream
                if (state := live.get(stream)) is None:
                    state = live[stream] = self.state(stream)
                if arguments == 2:
                    items = handler(event, state)
                else:
                    if (own := cells.get(stream)) is None:
                        assert self.stored is not None
                        own = cells[stream] = Cells(self.stored, stream, _NONE)
                    items = handler(event, state, own)
            # Verbs return lists, most of which are empty.
            if items or event.message.headers:
                write(event, items or ())
            self.processed += 1
        self.states = {stream: encoded_state(state) for stream, state in live.items()}
        self.cells = {stream: own.changed() for stream, own in cells.items()}


_NONE: Kept = {}
"""What earlier events of the step have left of a stream's cells: all of it is in memory."""
