"""The flights' tables by Sequitur's verbs. From the environment, besides: TABLES, by commas."""

import os
from dataclasses import dataclass
from datetime import datetime

from bench.job import job
from bench.topologies.measured import app_of
from topology import Inspector, Topology
from topology.verbs import count, events, mean, tumbling

HOUR, DAY = 3600, 24 * 3600


@dataclass
class Move:
    """What the verbs read of a movement."""

    kind: str
    time: datetime
    origin: str
    dep_delay: int


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

app = app_of(topology)
