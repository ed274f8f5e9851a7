"""Several views over one source, each of which writes every event unchanged to a topic of its own.

From the environment: OUTPUTS, the topics, one per view, joined by commas.
"""

import os
from collections.abc import Callable, Iterator

from bench.topologies.measured import app_of, declared
from topology import Emit, Event

topology, source = declared()


def identity(output: str) -> Callable[[Event], Iterator[Emit]]:
    """A handler that passes events on to `output`."""

    def same(event: Event) -> Iterator[Emit]:
        yield Emit(output, event.message.key, event.message.value)

    return same


for number, output in enumerate(os.environ["OUTPUTS"].split(",")):
    topology.view(f"same{number}", of=source)(identity(output))

app = app_of(topology)
