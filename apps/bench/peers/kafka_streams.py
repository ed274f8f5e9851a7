"""Kafka Streams, on the JVM."""

from dataclasses import replace
from pathlib import Path

from bench.peers.java import JavaPeer, PeerBundle

VERSION = "4.1.0"
PEER = JavaPeer(
    "Kafka Streams",
    PeerBundle(
        "kafka-streams",
        (
            f"org.apache.kafka:kafka-streams:{VERSION}",
            "com.fasterxml.jackson.core:jackson-databind:2.19.0",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        transitive=True,
    ),
    Path(__file__).with_name("Resequence.java"),
    ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",),
)
VERBS = replace(PEER, source=Path(__file__).with_name("Verbs.java"))
FLIGHTS = replace(
    PEER,
    source=Path(__file__).with_name("Flights.java"),
    shared=(Path(__file__).with_name("FlightRows.java"),),
)
"""The same, of the flights."""
