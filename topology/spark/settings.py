"""How a topology is run on Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class CannotRun(RuntimeError):
    """A topology cannot be run as things are; the text names the thing and the remedy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """broker: host:port, or several joined by ','. checkpoint: a folder on any file system that
    Spark knows; it has the state of all streams, and is this query's alone. max_records: of one
    batch; their outputs are in the driver's memory together. interval: seconds between the starts
    of two batches; a gap's deadline is looked at that often. topics: whether row changes go to the
    views' output topics; other outputs go to their topics in any case. group: under whose name the
    input offsets are committed, '<topology>.spark' unless given. replication: of topics that are
    made, -1 for the broker's default. kafka: further options of Spark's Kafka source, such as
    kafka.security.protocol; client: the same for the driver's own connection, as arguments of
    aiokafka's clients. Both may hold secrets.
    """

    broker: str
    checkpoint: str
    max_records: int = 50_000
    interval: float = 0.5
    topics: bool = True
    group: str | None = None
    replication: int = -1
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def connection(self) -> dict[str, Any]:
        """Arguments of aiokafka's clients."""
        return {"bootstrap_servers": self.broker, "request_timeout_ms": 40_000, **self.client}
