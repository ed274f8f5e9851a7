"""One view's part of a rebuild: how far, by which task, and what its outputs come to."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

import orjson

from topology.declaration.lanes import split_lane
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.output.output_chain import START, OutputChain, chained
from topology.model.changes import Delete, Upsert
from topology.model.event import Event
from topology.sequencer.progress import Progress, last_of
from topology.sequencer.sequencer import LAST
from topology.view_rebuild.folding import MOST_ROWS, Folding
from topology.view_rebuild.limit import Limit
from topology.view_rebuild.sorted_view import SortedView
from topology.view_rebuild.tally import REASONS, Tally

_ORDER = attrgetter("stream", "sequence")
_NEVER = -(1 << 70)
"""Below any sequence."""


class CannotRebuild(RuntimeError):
    """A view cannot be rebuilt as it is; the text says why, and what to do."""


class Rebuilt(NamedTuple):
    """A record for the read store: the row changes of a stream up to a sequence, made one record.

    value: as in the view's output topic. chain: what the handler said for it, event by event; None
    unless asked for, if there is more of the stream, and if the workers made it anew themselves.
    """

    view: str
    stream: str
    sequence: int
    value: bytes
    chain: OutputChain | None = None


class ViewRebuild:
    """Rebuilds one view.

    at: the time of the limits (ms). chains: whether to hash what each stream says. fold: whether a
    stream's row changes are made one record. every: whether a stream that has none has a record
    even so. tally: of what is done. emit: whether to keep what the handler sends to other topics;
    emits: that.
    """

    def __init__(
        self,
        view: View,
        at: int,
        *,
        chains: bool = False,
        fold: bool = True,
        every: bool = False,
        emit: bool = False,
    ) -> None:
        self.view = view
        self.at = at
        self.tally = Tally()
        self.emits: list[tuple[str, Out]] = []
        self._chains = chains
        self._fold = fold
        self._every = every
        self._emit = emit
        self._unfolded: list[Rebuilt] = []
        self._tables: set[str] = set()
        self._chain: dict[str, OutputChain] = {}
        self._task = SortedView(view, self._listen, lambda stream: self._limits[stream].epoch)
        self.dropped: dict[str, int] = {}
        """Stream → the offset that it begins at, as the live view has dropped it there."""
        self._limits: dict[str, Limit] = {}
        self._lasts: dict[str, int] = {}
        self._of: dict[str, list[str]] = {}
        """The source's stream → the view's: itself, or its lanes."""
        self._folds: dict[str, Folding] = {}
        self._said: dict[str, int] = {}
        """Stream → the sequence of its last output."""
        self._closed: dict[str, tuple[int, int]] = {}
        """Stream → (sequence of its closing event, when it is forgotten)."""
        self._forgotten: set[str] = set()
        """Streams that the live view does not know any more."""
        self._unsure: list[Event] = []
        """Events of the stream that goes on, which the live view may have had and forgotten."""
        self._lane: dict[Event, Event] = {}
        """Event → the same as a view with lanes has it; empty where it has none."""
        self._loop: asyncio.AbstractEventLoop | None = None
        own = (view.late_topic, view.errors_topic, view.parked_topic, view.dead_topic)
        self._own = {view.output, view.redeliver_topic, *own}

    def limit(self, stream: str, limit: Limit) -> None:
        """How far the live view is in one of its streams; to be said before the first event."""
        if stream not in self._limits:
            source = stream if self.view.split is None else split_lane(stream)[0]
            self._of.setdefault(source, []).append(stream)
        self._limits[stream] = limit
        self._lasts[stream] = limit.last
        if limit.anew:
            self.dropped[stream] = limit.anew

    def foresee(self, events: list[Event]) -> None:
        """Take the lanes of the events to come, before any view's handler has them."""
        if self.view.split is not None:
            kept = {event: self._lane[event] for event in self._unsure}
            self._lane = kept | dict(zip(events, self.view.split(events), strict=True))

    def take(
        self,
        events: list[Event],
        ended: Collection[str],
        going_on: str | None,
        offsets: Mapping[Event, int],
    ) -> Iterator[Rebuilt]:
        """What can be said after these events, which are sorted by stream and sequence.

        ended: the source's streams of which there are no more. going_on: the one that is not at its
        end yet. offsets: where the events are in the view's input, as far as that is known; needed
        where a stream was dropped. Raises CannotRebuild.
        """
        if self.dropped:
            begin, lane = self.dropped.get, self._lane
            events = [e for e in events if offsets.get(e, -1) >= begin(lane.get(e, e).stream, -1)]
        if self.view.closing is not None:
            self._take_lives(events, going_on)
        elif self.view.split is not None:
            self._run([event for _, event in self._wanted(events)], going_on)
        else:
            last_of_stream = self._lasts.get
            self._run(
                [e for e in events if e.sequence <= last_of_stream(e.stream, _NEVER)], going_on
            )
        yield from self._unfolded
        self._unfolded = []
        for source in ended:
            for stream in self._of.pop(source, ()):
                yield from self._end(stream)
        for stream in self._of.get(going_on, ()) if going_on is not None else ():
            if (fold := self._folds.get(stream)) is not None and len(fold) >= MOST_ROWS:
                yield self._record(stream, self._said[stream], self._limits[stream].epoch)

    # -- which events

    def _wanted(self, events: list[Event]) -> Iterator[tuple[str, Event]]:
        """(the view's stream, event) of the events up to the limits."""
        lasts = self._lasts
        streams = (self._lane.get(each, each).stream for each in events)
        for stream, event in zip(streams, events, strict=True):
            if event.sequence <= lasts.get(stream, _NEVER):
                yield stream, event

    def _take_lives(self, events: list[Event], going_on: str | None) -> None:
        """The same in a view that closes streams: each life of a stream begins without the last."""
        if self._unsure:
            events = sorted([*self._unsure, *events], key=_ORDER)
        self._find_forgotten(events)
        found = sorted(self._wanted(events), key=itemgetter(0))
        for stream, of_stream in groupby(found, itemgetter(0)):
            for life, ended in self._lives(stream, (event for _, event in of_stream)):
                self._run(life, going_on, stream if ended else None)
        self._run([], going_on)
        lane, lasts = self._lane, self._lasts
        self._unsure = [
            event
            for event in events
            if event.stream == going_on
            and not self._knows(of_view := lane.get(event, event).stream)
            and event.sequence > lasts.get(of_view, _NEVER)
        ]

    def _knows(self, stream: str) -> bool:
        """Whether the live view has a stream, and not forgotten it."""
        return stream in self._limits and stream not in self._forgotten

    def _lives(self, stream: str, events: Iterable[Event]) -> Iterator[tuple[list[Event], bool]]:
        """(events of a life, whether it has ended)."""
        closing = self.view.closing
        assert closing is not None
        life: list[Event] = []
        for event in events:
            sequence, due = self._closed.get(stream, (LAST, LAST))
            if event.sequence > sequence and event.arrived > due:
                yield life, True
                self._task.state.forget(stream)
                self._task.drop(stream)
                del self._closed[stream]
                life = []
            life.append(event)
            if event.kind in closing.kinds and event.sequence != sequence:
                due = event.arrived + round(closing.retention * 1000)
                self._closed[stream] = event.sequence, due
        yield life, False

    def _find_forgotten(self, events: list[Event]) -> None:
        """Limit streams that the live view closed and forgot to their last closing event.

        A closing event that is not so old is of a stream that the live view has yet to begin.
        """
        closing = self.view.closing
        assert closing is not None
        streams = (self._lane.get(each, each).stream for each in events)
        for stream, event in zip(streams, events, strict=True):
            old = event.arrived + closing.retention * 1000 <= self.at
            last = self._lasts.get(stream, _NEVER)
            closes = event.kind in closing.kinds and old and event.sequence > last
            if closes and not self._knows(stream):
                self._forgotten.add(stream)
                self.limit(stream, Limit(event.sequence))

    # -- a step

    def _run(self, events: list[Event], going_on: str | None, ended: str | None = None) -> None:
        """Order and handle events, and pass over what is missing in front of them.

        ended: the view's stream whose life has ended, though its source's goes on.
        """
        task, view = self._task, self.view
        if events:
            self._step(events, None)
        # In front of a stream that goes on there may be something yet.
        waits = [] if going_on is None else self._waiting_of(going_on)
        waits = [stream for stream in waits if stream != ended]
        for stream in waits:
            task.state.timers.discard(stream)
        while task.can_fire:
            self._step([], LAST)
        for stream in waits:
            task.state.watch(stream, task.state.waiting[stream])
        if task.halted:
            raise CannotRebuild(
                f"view {view.name} cannot be rebuilt: {task.halted}, and its error policy is halt; "
                f"correct the handler: {' '.join(self.tally.reports[:1])}"
            )
        for gap in task.gaps:
            limit = self._limits[gap.stream]
            if view.of.sequence.counts:
                self.tally.missing += limit.lost(gap.first, gap.last, view.of.sequence.step)
            elif not any(low <= gap.last and gap.first <= high for low, high in limit.skipped):
                self.tally.missing += 1
        task.gaps.clear()

    def _waiting_of(self, source: str) -> list[str]:
        return [stream for stream in self._of.get(source, ()) if stream in self._task.state.waiting]

    def _step(self, events: list[Event], horizon: int | None) -> None:
        task, view = self._task, self.view
        now = max((event.arrived for event in events), default=0)
        unit = CommitUnit(view.of.by_stream, 0, now=now)
        if view.split is not None:
            task.foresee(events, [self._lane[each] for each in events])
        if view.is_async:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
            self._loop.run_until_complete(task.arun(events, unit, horizon))
        else:
            task.run(events, unit, horizon)
        for topics in (unit.colocated, unit.keyed) if self._emit else ():
            for topic, outs in topics.items():
                if topic not in self._own:
                    self.emits += [(topic, out) for out in outs]
        room = REASONS - len(self.tally.reports)
        self.tally.reports += [each for each in unit.reports if " failed; " in each][:room]

    def _listen(self, event: Event, changes: list[Upsert | Delete], value: bytes) -> None:
        stream, sequence = event.stream, event.sequence
        self.tally.outputs += 1
        if self._chains and not self._limits[stream].epoch:
            self._chain[stream] = chained(self._chain.get(stream, START), sequence, value)
        if not self._fold:
            self._unfolded.append(Rebuilt(self.view.name, stream, sequence, value))
            self._tables.update(change.table for change in changes)
            return
        fold = self._folds.get(stream)
        if fold is None:
            fold = self._folds[stream] = Folding()
        if _is_plain(value, changes):
            fold.add_yielded(changes)
        else:
            fold.add(orjson.loads(value)["changes"])
        self._said[stream] = sequence

    # -- the end of a stream

    def _end(self, stream: str) -> Iterator[Rebuilt]:
        task, tally, order = self._task, self.tally, self.view.of.sequence
        limit = self._limits.pop(stream)
        self.dropped.pop(stream, None)
        del self._lasts[stream]
        self._forgotten.discard(stream)
        self._closed.pop(stream, None)
        progress = task.state.progress(stream)
        last = last_of(progress)
        first = task.state.ordering.first
        parked = isinstance(progress, Progress) and progress.held
        if limit.last > first:
            tally.streams += 1
            if parked:
                tally.parked += 1
            elif last == first and limit.anew and not self.view.of.keyed:
                tally.unplaced += 1
            elif last == first:
                tally.absent += 1
            elif last < limit.last:
                counts = order.counts
                tally.missing += (
                    limit.lost(last + order.step, limit.last, order.step) if counts else 1
                )
        if isinstance(progress, Progress) and progress.waiting:
            task.state.forget(stream)
        task.drop(stream)
        chain = self._chain.pop(stream, None)
        if stream in self._folds or (self._every and last > first and not parked):
            # What the live view says of it from now on is beyond its limit.
            sequence = self._said[stream] if parked else limit.last
            yield self._record(stream, sequence, limit.epoch)._replace(chain=chain)
        self._said.pop(stream, None)

    def _record(self, stream: str, sequence: int, epoch: int) -> Rebuilt:
        self.tally.records += 1
        fold = self._folds.pop(stream, None) or Folding()
        self._tables |= fold.tables
        value = fold.record(self.view.name, stream, sequence, epoch)
        return Rebuilt(self.view.name, stream, sequence, value)

    def finish(self) -> Tally:
        """The numbers, all streams being done."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None
        counts, tally = self._task.state.counts, self.tally
        tally.processed, tally.passed, tally.failed = counts.processed, counts.passed, counts.failed
        tally.duplicate, tally.skipped, tally.late = counts.duplicate, counts.skipped, counts.late
        tally.tables = sorted(self._tables)
        return tally


def _is_plain(value: bytes, changes: list[Upsert | Delete]) -> bool:
    """Whether all that changes hold are single values, which nobody can change afterwards.

    value: the JSON of the output. A brace more than the changes themselves have, which may also be
    in a text, says that there may be more.
    """
    braces = 1
    for change in changes:
        braces += 3 if change.__class__ is Upsert else 2
    return value.count(b"{") == braces and value.count(b"[") == 1
