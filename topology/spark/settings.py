"""How a topology is run on Spark."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topology.model.printable import printable
from topology.model.topic_retention import SIDE_DAYS, SIDE_VARIABLE


class CannotRun(RuntimeError):
    """A topology cannot be run as things are; the text names the thing and the remedy."""


def side_retention_days(settings: Mapping[str, str] = os.environ) -> float:
    """For how long side topics that are made keep their records, as the environment says.

    Raises:
        CannotRun: it says neither a number of days above zero nor -1, which is for ever.
    """
    given = settings.get(SIDE_VARIABLE) or str(SIDE_DAYS)
    try:
        days = float(given)
        if days != -1 and not 0 < days <= 1e6:
            raise ValueError
    except ValueError:
        raise CannotRun(
            f"{SIDE_VARIABLE}={printable(given)!r}: give a number of days above 0, or -1 for ever"
        ) from None
    return days


@dataclass(frozen=True, slots=True)
class Settings:
    """How a query runs. `kafka` and `client` may hold secrets.

    Attributes:
        broker: host:port, or several joined by ','.
        checkpoint: a folder on any file system that Spark knows. It has the state of all streams,
            and is this query's alone.
        max_records: of one batch, whose outputs are in the driver's memory together.
        interval: seconds between the starts of two batches; a gap's deadline is looked at that
            often.
        topics: whether row changes go to the views' output topics. Other outputs go to their topics
            in any case.
        group: the name under which the input offsets are committed; '<topology>.spark' unless
            given.
        replication: of topics that are made; -1 for the broker's default.
        side_retention_days: for how long side topics that are made keep their records, -1 for ever;
            as SEQUITUR_SIDE_RETENTION_DAYS says unless given, else 90.
        kafka: further options of Spark's Kafka source, such as kafka.security.protocol.
        client: the same for the driver's own connection, as arguments of aiokafka's clients.
    """

    broker: str
    checkpoint: str
    max_records: int = 50_000
    interval: float = 0.5
    topics: bool = True
    group: str | None = None
    replication: int = -1
    side_retention_days: float = field(default_factory=side_retention_days)
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def connection(self) -> dict[str, Any]:
        """Arguments of aiokafka's clients."""
        return {"bootstrap_servers": self.broker, "request_timeout_ms": 40_000, **self.client}
