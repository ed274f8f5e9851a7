"""A rebuild of views of one source, stream by stream, each history being read and inspected once.

What is known of a stream comes together: first how far the live views are in it, then its messages
in the order in which they came. Streams may come in any order.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.stream_task import StreamTask
from topology.model.event import Event, Message
from topology.view_rebuild.limit import limit_of
from topology.view_rebuild.tally import Tally
from topology.view_rebuild.view_rebuild import CannotRebuild, Rebuilt, ViewRebuild


class HistoryPart(NamedTuple):
    """What comes of a stream together. A stream may have several parts, one behind the other.

    stream: the source's. limits: (view, the view's stream, its progress row), all in the stream's
    first part. messages: the stream's next ones.
    """

    stream: str
    limits: Sequence[tuple[str, str, bytes]]
    messages: Sequence[Message]


BATCH = 2_000
"""Messages after which a batch ends with the stream in hand …"""
MOST = 50_000
"""… and after which it ends even so."""

_ORDER = attrgetter("stream", "sequence")


class Rebuild:
    """Rebuilds the named views of a source.

    at: the time at which the live views were so far (ms). chains: whether to hash what streams say.
    fold: whether a stream's row changes are made one record. every: whether a stream that has none
    has a record even so. emit: whether what handlers send is kept until it is asked for. malformed,
    unknown: messages that are no events. messages: all of them.
    """

    def __init__(
        self,
        topology: Topology,
        source: Source,
        views: Collection[str],
        at: int,
        *,
        chains: bool = False,
        fold: bool = True,
        every: bool = False,
        emit: bool = False,
        most: int = MOST,
        batch: int = BATCH,
    ) -> None:
        self.views = {
            view.name: ViewRebuild(view, at, chains=chains, fold=fold, every=every, emit=emit)
            for view in topology.views_of(source)
            if view.name in views
        }
        self.messages = self.malformed = self.unknown = 0
        self._task = StreamTask(topology, source, 0, {})
        self._most, self._batch = most, batch

    def run(self, parts: Iterable[HistoryPart]) -> Iterator[Rebuilt]:
        """The records for the read store, each stream's in sequence. Raises CannotRebuild."""
        return chain.from_iterable(self.turns(parts))

    def turns(self, parts: Iterable[HistoryPart]) -> Iterator[Iterator[Rebuilt]]:
        """The same batch by batch, each to be read to its end: then its `emits` are there."""
        messages: list[Message] = []
        ended: list[str] = []
        current: str | None = None
        for stream, limits, found in parts:
            if stream != current:
                if current is not None:
                    ended.append(current)
                current = stream
                # Streams without a message to handle are streams nevertheless.
                if len(messages) + len(ended) >= self._batch:
                    yield self._take(messages, ended, None)
                    messages, ended = [], []
            for view, of_view, row in limits:
                self.views[view].limit(of_view, limit_of(row))
            while len(messages) + len(found) >= self._most:
                room = self._most - len(messages)
                messages += found[:room]
                found = found[room:]
                yield self._take(messages, ended, current)
                messages, ended = [], []
            messages += found
        if current is not None:
            yield self._take(messages, [*ended, current], None)

    def finish(self) -> dict[str, Tally]:
        """View → its numbers, when all is done."""
        found = {name: view.finish() for name, view in self.views.items()}
        for tally in found.values():
            tally.malformed, tally.unknown = self.malformed, self.unknown
        return found

    def emits(self) -> list[tuple[str, Out]]:
        """(topic, record) of what handlers sent since this was last asked."""
        found: list[tuple[str, Out]] = []
        for view in self.views.values():
            found += view.emits
            view.emits.clear()
        return found

    def _take(
        self, messages: list[Message], ended: Collection[str], going_on: str | None
    ) -> Iterator[Rebuilt]:
        unit = CommitUnit(self._task.source.by_stream, 0)
        events = self._task.inspect(messages, unit, 0)
        for event in events:
            # Nobody else has seen it yet.
            object.__setattr__(event, "arrived", event.message.timestamp)
        strays = {event.stream for event in events}.difference(ended, (going_on,))
        if strays:
            raise CannotRebuild(
                f"source {self._task.source.name}: a message is kept under another stream than "
                f"{min(strays)!r}, which the inspector finds in it now; rebuild from its own "
                "topics: --history sources"
            )
        offsets: dict[Event, int] = {}
        if any(view.dropped for view in self.views.values()):
            topic = self._task.source.by_stream
            found = zip(events, self._task.inputs(events), strict=True)
            offsets = {event: record.offset for event, record in found if record.topic == topic}
        # Stable: of two with the same sequence the one that came first is handled.
        events.sort(key=_ORDER)
        self.messages += len(messages)
        self.malformed += unit.malformed
        self.unknown += unit.unknown
        for view in self.views.values():
            view.foresee(events)
        for view in self.views.values():
            yield from view.take(events, ended, going_on, offsets)
