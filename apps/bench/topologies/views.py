"""Several views over one source, each of which writes every event unchanged to a topic of its own.

From the environment, besides what every program is told: TOPOLOGY, its name; OUTPUTS, the topics,
one per view, joined by commas.
"""

import os
from collections.abc import Callable, Iterator

from apps.bench.job import job
from topology import Emit, Event, Inspector, Topology, key
from topology.faust import compile

work = job()
topology = Topology(os.environ["TOPOLOGY"])
source = topology.source(
    work.input,
    inspector=Inspector(stream=key(), sequence="seq"),
    keyed=True,
    partitions=work.partitions,
)


def identity(output: str) -> Callable[[Event], Iterator[Emit]]:
    """A handler that passes events on to `output`."""

    def same(event: Event) -> Iterator[Emit]:
        yield Emit(output, event.message.key, event.message.value)

    return same


for number, output in enumerate(os.environ["OUTPUTS"].split(",")):
    topology.view(f"same{number}", of=source)(identity(output))

app = compile(
    topology,
    broker=work.broker,
    group=work.group,
    datadir=str(work.datadir),
    guarantee=work.guarantee,
)
