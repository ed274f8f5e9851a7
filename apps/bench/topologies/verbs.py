"""The flights' tables by Sequitur's verbs. From the environment, besides: TABLES, by commas, and
WEATHER, the topic of the reports."""

import os
from dataclasses import dataclass
from datetime import datetime

from bench.job import job
from bench.topologies.measured import app_of
from topology import Inspector, Topology, monotonic, rebuild_stream
from topology.verbs import as_of_time, count, events, mean, tumbling

HOUR, DAY = 3600, 24 * 3600


@dataclass
class Move:
    """What the verbs read of a movement."""

    kind: str
    time: datetime
    origin: str
    dep_delay: int


@dataclass
class Report:
    """What the verbs read of a report."""

    time: datetime
    wind_speed: float | None


def reported(move: Move, report: Report | None) -> str | None:
    """The time of the report that was found."""
    return None if report is None else f"{report.time:%Y-%m-%dT%H:%M:%SZ}"


work, tables = job(), os.environ["TABLES"].split(",")
topology = Topology(os.environ["TOPOLOGY"])
source = topology.source(
    work.input,
    inspector=Inspector("tail", "number", "kind"),
    keyed=True,
    partitions=work.partitions,
)
out = events(topology, source, of=Move, time=lambda move: move.time).filter(
    lambda move: move.kind == "OUT"
)
if "aircraft_day" in tables:
    days = out.each().window(tumbling(DAY)).fold(count(), name="aircraft_day")
    days.to_rows("aircraft_day")
if "airport_hour" in tables:
    hours = out.by(lambda move: move.origin).window(tumbling(HOUR))
    hours.fold(mean(lambda move: move.dep_delay), name="airport_hour").to_rows("airport_hour")
if "flown" in tables:
    weather = topology.source(
        os.environ["WEATHER"],
        inspector=Inspector("origin", "time"),
        sequence=monotonic(settle=5),
        keyed=True,
        partitions=work.partitions,
    )
    reports = events(topology, weather, of=Report, time=lambda report: report.time)
    # All input is there beforehand, so the reports are read long before the last departure.
    flown = out.lookup(
        reports.latest(name="weather", late=rebuild_stream()),
        key=lambda move: move.origin,
        at=as_of_time(wait=2 * HOUR, keep=400 * DAY),
        merge=reported,
        name="flown",
    )
    flown.to_rows("flown", {"value": lambda time: time})

app = app_of(topology)
