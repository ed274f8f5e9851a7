"""What the topologies for measuring share: a source that is keyed by stream, and the app.

From the environment, besides what every program is told: TOPOLOGY, the topology's name.
"""

import os

from bench.job import job
from topology import Inspector, Source, Topology, key
from topology.faust import App, compile


def declared() -> tuple[Topology, Source]:
    """The topology without its views, and its source: the job's input."""
    work = job()
    topology = Topology(os.environ["TOPOLOGY"])
    source = topology.source(
        work.input,
        inspector=Inspector(stream=key(), sequence="seq"),
        keyed=True,
        partitions=work.partitions,
    )
    return topology, source


def app_of(topology: Topology) -> App:
    """The topology's app, as the job says."""
    work = job()
    return compile(
        topology,
        broker=work.broker,
        group=work.group,
        datadir=str(work.datadir),
        guarantee=work.guarantee,
    )
