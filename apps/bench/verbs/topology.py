"""The flights' tables by Sequitur's verbs."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from topology import Inspector, Topology, monotonic, rebuild_stream, skip
from topology.verbs import ViewOptions, as_of_time, count, events, mean, tumbling

HOUR, DAY = 3600, 24 * 3600
SETTLE = 5
"""Seconds after which a report is known to be an airport's next."""


@dataclass(frozen=True)
class Move:
    """What the verbs read of a movement."""

    kind: str
    time: datetime
    origin: str
    dep_delay: int


@dataclass(frozen=True)
class Report:
    """What the verbs read of a report."""

    time: datetime
    wind_speed: float | None


def reported(move: Move, report: Report | None) -> str | None:
    """The time of the report that was found."""
    return None if report is None else f"{report.time:%Y-%m-%dT%H:%M:%SZ}"


def declared(
    name: str,
    moves: str,
    weather: str,
    tables: Collection[str],
    partitions: int = 1,
    given_up: float | None = None,
) -> Topology:
    """Declare the views that make some of the tables.

    Args:
        name: of the topology.
        moves: the topic of the movements.
        weather: the topic of the reports.
        tables: names of tables.
        partitions: of each topic.
        given_up: seconds after which a gap is given up; None for never.
    """
    options: ViewOptions = {}
    if given_up is not None:
        options = {"gap": skip(after=given_up), "late": rebuild_stream()}
    topology = Topology(name)
    source = topology.source(
        moves, inspector=Inspector("tail", "number", "kind"), keyed=True, partitions=partitions
    )
    out = events(topology, source, of=Move, time=lambda move: move.time).filter(
        lambda move: move.kind == "OUT"
    )
    if "aircraft_day" in tables:
        days = out.each().window(tumbling(DAY)).fold(count(), name="aircraft_day", **options)
        days.to_rows("aircraft_day")
    if "airport_hour" in tables:
        hours = out.by(lambda move: move.origin).window(tumbling(HOUR))
        delays = hours.fold(mean(lambda move: move.dep_delay), name="airport_hour", **options)
        delays.to_rows("airport_hour")
    if "flown" in tables:
        reports = topology.source(
            weather,
            inspector=Inspector("origin", "time"),
            sequence=monotonic(settle=SETTLE),
            keyed=True,
            partitions=partitions,
        )
        timed = events(topology, reports, of=Report, time=lambda report: report.time)
        flown = out.lookup(
            timed.latest(name="weather", late=rebuild_stream()),
            key=lambda move: move.origin,
            at=as_of_time(wait=2 * HOUR, keep=24 * HOUR),
            merge=reported,
            name="flown",
            **options,
        )
        flown.to_rows("flown", {"value": lambda time: time})
    return topology
