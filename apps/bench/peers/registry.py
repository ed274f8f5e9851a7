"""All contestants, in the order in which they are named."""

import sys
from importlib.metadata import version

from apps.bench.peers import kafka_streams, quix
from apps.bench.peers.peer import Peer
from apps.bench.programs import worker

SEQUITUR = Peer("sequitur", lambda: "Sequitur", lambda: worker("apps.passthrough"))
LIMIT = Peer(
    "limit",
    lambda: "plain aiokafka + rocksdict loop (the practical limit)",
    lambda: [sys.executable, "-m", "apps.bench.peers.limit"],
)
KAFKA_STREAMS = Peer(
    "kafka-streams",
    lambda: f"Kafka Streams {kafka_streams.VERSION}, JVM, one thread",
    kafka_streams.command,
    missing=kafka_streams.missing,
    install=kafka_streams.install,
)
QUIX = Peer(
    "quix",
    lambda: f"Quix Streams {quix.VERSION}",
    quix.command,
    missing=quix.missing,
    install=quix.install,
)
FAUST = Peer(
    "faust",
    lambda: f"stock faust-streaming {version('faust-streaming')}, one event at a time",
    lambda: worker("apps.bench.peers.faust_peer"),
    guarantees=("at_least_once",),
    # Made by Faust itself, they are sometimes not known in time; it then skips the first events.
    topics=("-progress-changelog", "-waiting-changelog"),
)
PEERS = {peer.name: peer for peer in (SEQUITUR, LIMIT, KAFKA_STREAMS, QUIX, FAUST)}
