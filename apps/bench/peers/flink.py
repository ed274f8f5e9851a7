"""Apache Flink, on the JVM: a cluster of one process, with its state on the heap."""

from dataclasses import replace
from pathlib import Path

from bench.peers.java import JavaPeer, PeerBundle

VERSION = "1.20.1"
PEER = JavaPeer(
    "Flink",
    PeerBundle(
        "flink",
        (
            f"org.apache.flink:flink-clients:{VERSION}",
            f"org.apache.flink:flink-connector-base:{VERSION}",
            "org.apache.flink:flink-connector-kafka:3.4.0-1.20",
            "com.fasterxml.jackson.core:jackson-core:2.19.0",
            "org.slf4j:slf4j-simple:1.7.36",
        ),
        transitive=True,
    ),
    Path(__file__).with_name("ResequenceFlink.java"),
    (
        "-Xmx2g",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "--add-opens=java.base/java.util=ALL-UNNAMED",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
    ),
)
FLIGHTS = replace(
    PEER,
    source=Path(__file__).with_name("FlightsFlink.java"),
    shared=(Path(__file__).with_name("FlightRows.java"),),
)
"""The flights' three views."""
