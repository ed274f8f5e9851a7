"""Back-test how long gaps should be held, on what is recorded of a source."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.diagnostics.lateness_bars import lateness_bars
from topology.diagnostics.suggest import RATES, Suggested, Suggestion, suggested
from topology.diagnostics.trial_limits import untried
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.named import named
from topology.faust.inspection.recorded import Reading
from topology.faust.inspection.ticker import Ticker
from topology.model.counted import counted

LIMIT = 400_000
"""Recorded messages that are looked at unless told otherwise."""


@dataclass(frozen=True, slots=True)
class SuggestedTimeouts:
    """What is suggested for the views of a source.

    Attributes:
        source: its name.
        looked: how many recorded events it was tried on.
        lasted: over how many milliseconds these arrived.
        whole: whether these are all that ever came.
        suggestions: for the first view, shortest time first.
        adaptive: the most seconds that `skip(after=adaptive())` would have learned in a partition,
            for the first view.
        views: view → its suggestions, as it orders.
        notes: view → what of it was not tried.
        times: whose times of arrival these are.
        late: (lateness, how many events came so late), for the first view.
    """

    source: str
    looked: int
    lasted: int
    whole: bool
    suggestions: list[Suggestion]
    adaptive: float
    views: dict[str, list[Suggestion]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    times: str = ""
    late: list[tuple[str, float]] = field(default_factory=list)

    def __str__(self) -> str:
        seconds = self.lasted / 1000
        first = f"source {self.source}: {counted(self.looked, 'event')} in {seconds:.0f} s"
        if not self.whole:
            first += ", the last that are recorded: streams begin with what is known of them"
        lines = [first]
        if not self.suggestions:
            lines[0] += "; they do not show what to suggest"
        for view, suggestions in self.views.items():
            lines += [f"view {view}:", *(f"  {each}" for each in suggestions)]
            lines += [f"  not as the view does: {note}" for note in self.notes[view]]
        if self.suggestions:
            lines.append(f"skip(after=adaptive()) would have learned {self.adaptive:g} s at most")
        return "\n".join([*lines, self.times])


async def suggest_timeouts(
    app: Any,
    source: str = "",
    *,
    limit: int = LIMIT,
    rates: Sequence[float] = RATES,
    candidates: Sequence[float] = (),
) -> SuggestedTimeouts:
    """Try times to hold gaps for on the last recorded messages of a source.

    How far it is goes to standard error.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        source: its name; may be left out where there is only one.
        limit: recorded messages to try at most, the last ones.
        rates: shares of wrong skips; for each, the shortest time that keeps to it is tried.
        candidates: seconds to try, besides.

    Raises:
        KeyError: there is no such source.
        ValueError: its sequences do not count.
        TopicMissing: no worker of the topology has run yet.
    """
    declared = source_of(app, source)
    sequence = declared.sequence
    if not sequence.counts:
        raise ValueError(
            f"source {declared.name!r} is not in contiguous order: what was recorded does "
            "not show what is missing in it"
        )
    topology: Topology = app.engine.topology
    reading = Reading(declared, topology.views_of(declared))
    async with DurableState(app) as durable:
        await reading.read(durable, limit)
        times = await reading.stamped(app)
    parts, whole = reading.parts, reading.whole
    looked = sum(map(len, parts))
    runs: dict[str, Suggested] = {}
    alike = {view.name: reading.ordering(view) for view in reading.views}
    number = (1 + len(rates) + len(candidates)) * len({*map(str, alike.values())})
    ticker = Ticker("suggest-timeouts", looked * number, unit="events")
    for name, (ordering, column, begin) in alike.items():
        # Views that order alike are tried once.
        if (key := str(alike[name])) not in runs:
            runs[key] = suggested(
                [partial(part.events, column, begin) for part in parts],
                ordering,
                rates=rates,
                candidates=candidates,
                progress=ticker.add,
            )
    ticker.end()
    found = {name: runs[str(each)] for name, each in alike.items()}
    first = next(iter(found.values()), Suggested([], (0.0, 0.0)))
    spans = [part.span for part in parts if part.span is not None]
    return SuggestedTimeouts(
        declared.name,
        looked,
        max(last for _, last in spans) - min(begun for begun, _ in spans) if spans else 0,
        whole,
        first.suggestions,
        first.learned[1],
        {name: each.suggestions for name, each in found.items()},
        {view.name: untried(view, whole) for view in reading.views},
        times,
        lateness_bars(first.late.items()),
    )


def source_of(app: Any, name: str) -> Source:
    """The source of that name; the only one if the name is empty. Raises KeyError."""
    topology: Topology = app.engine.topology
    return named("source", name, topology.sources, topology.name)
