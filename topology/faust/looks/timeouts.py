"""Back-test how long gaps should be held, on what is recorded of a source."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiokafka import TopicPartition

from topology.errors import Malformed
from topology.explain.rebased import rebased
from topology.faust.looks.durable import Durable
from topology.faust.looks.ticker import Ticker
from topology.faust.operate import named
from topology.on_gap import Adaptive
from topology.origin import original
from topology.sequences import Contiguous
from topology.source import Source
from topology.suggest import RATES, Arrived, Suggestion, learned, suggest_timeouts
from topology.topology import Topology

LIMIT = 400_000
"""Recorded messages that are looked at unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """What is suggested for the views of a source.

    looked: how many recorded events it was tried on, over how many milliseconds. whole: whether
    that is all there ever was. suggestions: for the first view, shortest time first. views: the
    same for each view, as its ring and the start of its streams have it. adaptive: seconds that
    `skip(after=adaptive())` would have learned.
    """

    source: str
    looked: int
    lasted: int
    whole: bool
    suggestions: list[Suggestion]
    adaptive: float
    views: dict[str, list[Suggestion]] = field(default_factory=dict)

    def __str__(self) -> str:
        seconds = self.lasted / 1000
        first = f"source {self.source}: {self.looked} events in {seconds:.0f} s"
        if not self.whole:
            first += ", the last that are recorded: streams begin with what is known of them"
        if not self.suggestions:
            return f"{first}; none of them tells what to suggest"
        last = f"skip(after=adaptive()) would have learned {self.adaptive:g} s"
        lines = [first]
        for view, suggestions in self.views.items():
            lines += [f"view {view}:", *(f"  {each}" for each in suggestions)]
        return "\n".join([*lines, last])


async def timeouts(
    app: Any,
    source: str = "",
    *,
    limit: int = LIMIT,
    rates: Sequence[float] = RATES,
    candidates: Sequence[float] = (),
) -> Timeouts:
    """Try times to hold gaps for on the last `limit` recorded messages of a source.

    source: its name; may be left out where there is only one. rates, candidates: as those of
    `suggest_timeouts`. Raises KeyError for a source that is not there, ValueError for one whose
    sequences do not count, NotThere where no worker has run yet.
    """
    declared = source_of(app, source)
    sequence = declared.sequence
    if not isinstance(sequence, Contiguous):
        raise ValueError(
            f"source {declared.name!r} is not ordered by counting numbers: what is missing in it "
            "cannot be told from what was recorded"
        )
    arrivals: list[Arrived] = []
    whole = True
    async with Durable(app) as durable:
        each = max(1, limit // declared.partitions)
        for number in range(declared.partitions):
            partition = TopicPartition(declared.by_stream, number)
            span = (await durable.span([partition]))[partition]
            whole = whole and span.end <= each and span.first == 0
            latest = 0
            async for record in durable.tail(partition, each):
                # Of a keyed source the producers may set the time; it is the log that orders.
                latest = max(latest, record.timestamp)
                try:
                    found = declared.inspect(record if declared.keyed else original(record))
                except Malformed:
                    continue
                if found is not None and found[1] >= sequence.start:
                    arrivals.append((found[0], found[1], latest))
    arrivals.sort(key=lambda arrival: arrival[2])
    recorded = arrivals
    if not whole:
        arrivals = rebased(arrivals, sequence.start)
    lasted = arrivals[-1][2] - arrivals[0][2] if arrivals else 0
    start, add = sequence.start, sequence.step
    topology: Topology = app.engine.topology
    orderings = {
        view.name: replace(view.ordering, skip_after=None, learn=False)
        for view in topology.views_of(declared)
    }
    runs = (1 + len(rates) + len(candidates)) * len({*map(str, orderings.values())})
    ticker = Ticker("suggest-timeouts", len(arrivals) * runs)
    tried: dict[str, list[Suggestion]] = {}
    views: dict[str, list[Suggestion]] = {}
    for name, ordering in orderings.items():
        # Views that order alike are tried once. One that begins anywhere needs no other beginning.
        alike = str(ordering)
        if alike not in tried:
            tried[alike] = suggest_timeouts(
                arrivals if ordering.open_after is None else recorded,
                rates=rates,
                candidates=candidates,
                ordering=ordering,
                progress=ticker.add,
            )
        views[name] = tried[alike]
    ticker.end()
    return Timeouts(
        declared.name,
        len(arrivals),
        lasted,
        whole,
        next(iter(views.values()), []),
        learned(arrivals, Adaptive(), start=start, add=add),
        views,
    )


def source_of(app: Any, name: str) -> Source:
    """The source of that name; the only one if the name is empty. Raises KeyError."""
    topology: Topology = app.engine.topology
    return named("source", name, topology.sources, topology.name)
