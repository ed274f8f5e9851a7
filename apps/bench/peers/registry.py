"""All contestants, in the order in which they are named."""

import sys
from importlib.metadata import version
from typing import Protocol

from bench.job import GUARANTEES, Guarantee
from bench.peers import flink, kafka_streams, quix
from bench.peers.peer import Peer
from bench.programs import worker


class Apart(Protocol):
    """What knows a contestant that is installed apart from us; see `Peer`."""

    def command(self) -> list[str]: ...
    def missing(self) -> str | None: ...
    def install(self) -> None: ...


def apart(
    name: str, title: str, its: Apart, guarantees: tuple[Guarantee, ...] = GUARANTEES
) -> Peer:
    """Such a contestant."""
    return Peer(
        name, lambda: title, its.command, guarantees, missing=its.missing, install=its.install
    )


SEQUITUR = Peer("sequitur", lambda: "Sequitur", lambda: worker("passthrough"))
LIMIT = Peer(
    "limit",
    lambda: "a bare loop on aiokafka and rocksdict",
    lambda: [sys.executable, "-m", "bench.peers.limit"],
)
KAFKA_STREAMS = apart(
    "kafka-streams", f"Kafka Streams {kafka_streams.VERSION}, JVM, one thread", kafka_streams.PEER
)
FLINK = apart(
    "flink",
    f"Flink {flink.VERSION}, JVM, one slot, state on the heap",
    flink.PEER,
    ("exactly_once",),
)
QUIX = apart("quix", f"Quix Streams {quix.VERSION}", quix)
FAUST = Peer(
    "faust",
    lambda: f"stock faust-streaming {version('faust-streaming')}, one event at a time",
    lambda: worker("bench.peers.faust_peer"),
    guarantees=("at_least_once",),
    # Made by Faust itself, they are sometimes not known in time; it then skips the first events.
    topics=("-progress-changelog", "-waiting-changelog"),
    fraction=10,
)
PEERS = {peer.name: peer for peer in (SEQUITUR, LIMIT, KAFKA_STREAMS, FLINK, QUIX, FAUST)}
