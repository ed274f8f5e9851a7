"""The identity topology for measuring: each event's bytes, in order and once, to OUTPUT.

Everything comes from the environment: BROKER (host:port), INPUT and OUTPUT (topic names), GROUP,
DATADIR, GUARANTEE (`at_least_once` or `exactly_once`), PARTITIONS of INPUT (4). INPUT is keyed by
stream; the sequence is the body's field `seq`.
"""

import os
from collections.abc import Iterator
from typing import cast

from topology import Emit, Event, Inspector, Topology, key
from topology.faust import Guarantee, compile

OUTPUT = os.environ.get("OUTPUT", "passthrough.out")

topology = Topology("passthrough")
source = topology.source(
    os.environ.get("INPUT", "passthrough.in"),
    inspector=Inspector(stream=key(), sequence="seq"),
    keyed=True,
    partitions=int(os.environ.get("PARTITIONS", "4")),
)


@topology.view("same", of=source)
def same(event: Event) -> Iterator[Emit]:
    """The event as it came."""
    yield Emit(OUTPUT, event.message.key, event.message.value)


app = compile(
    topology,
    broker=os.environ.get("BROKER", "127.0.0.1:9092"),
    group=os.environ.get("GROUP", "passthrough"),
    datadir=os.environ.get("DATADIR", ".sequitur/passthrough"),
    guarantee=cast(Guarantee, os.environ.get("GUARANTEE", "exactly_once")),
)
