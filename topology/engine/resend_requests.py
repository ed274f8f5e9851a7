"""Asking for what is missing: requests to the relay that fills a topic, written with a step."""

from collections.abc import Iterable, Mapping
from itertools import islice

import orjson

from topology.declaration.policies import Ask
from topology.declaration.view import View
from topology.engine.commit_unit import NO_HEADERS, CommitUnit
from topology.engine.state.view_state import ViewState
from topology.model.event import Event
from topology.sequencer.progress import Progress
from topology.sequencer.timers import Timers

LOOKED_AT = 1_000
"""Waiting events of a stream that are looked at for gaps between them."""
RANGES = 20
"""Of a stream that are asked for at a time, the lowest first."""


class ResendRequests:
    """What a view that asks has to ask for, and when; kept in memory: who restarts asks again."""

    def __init__(self, view: View, policy: Ask, waiting: Mapping[str, Progress]) -> None:
        self._view, self._policy = view, policy
        self._after, self._every = round(policy.after * 1000), round(policy.every * 1000)
        self._timers = Timers()
        self.note(waiting)

    @property
    def due(self) -> float:
        """When something is to be asked for (ms), infinite if nothing is."""
        return self._timers.next

    def note(self, changed: Mapping[str, int | Progress]) -> None:
        """Streams have moved: those that wait now are asked for in time."""
        for stream, progress in changed.items():
            if _waits(progress) and stream not in self._timers:
                assert isinstance(progress, Progress)
                self._timers.add(progress.since + self._after, stream)

    def request(self, state: ViewState, horizon: int, unit: CommitUnit) -> None:
        """Ask for what has been missing for long enough.

        horizon: a time by which all that had arrived is read (ms): what is merely unread is not
        missing.
        """
        while (stream := self._timers.pop(horizon)) is not None:
            progress = state.progress(stream)
            if not _waits(progress):
                continue
            assert isinstance(progress, Progress)
            due = progress.since + self._after
            if due > horizon:
                self._timers.add(due, stream)
                continue
            waits = islice(state.waits(stream), LOOKED_AT)
            for first, last in islice(missing(progress.last, waits), RANGES):
                self._write(stream, first, last, unit)
            self._timers.add(horizon + self._every, stream)

    def _write(self, stream: str, first: int, last: int, unit: CommitUnit) -> None:
        body = {
            "stream": stream,
            "first": first,
            "last": last,
            "view": self._view.name,
            "commands": self._view.commands_topic,
            "partition": unit.partition,
        }
        record = (stream.encode(), orjson.dumps(body), unit.now, NO_HEADERS)
        unit.keyed[self._policy.topic].append(record)


def requests_of(state: ViewState) -> ResendRequests | None:
    """For a view whose gap policy is to ask."""
    gap = state.view.gap
    return ResendRequests(state.view, gap, state.waiting) if isinstance(gap, Ask) else None


def missing(last: int, waiting: Iterable[Event]) -> Iterable[tuple[int, int]]:
    """The ranges that lie between the last processed sequence and events that wait, in sequence."""
    at = last + 1
    for event in waiting:
        if event.sequence > at:
            yield at, event.sequence - 1
        at = event.sequence + 1


def _waits(progress: int | Progress) -> bool:
    return isinstance(progress, Progress) and progress.waiting > 0 and not progress.held
