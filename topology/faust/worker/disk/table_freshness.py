"""When a table was last in step with its changelog: too long ago, and deletions may be missing.

Compaction removes a deleted key's last record too, some time after it was written
(`delete.retention.ms`). A table that was away for longer would keep the row for ever. So it notes
the time with its offset, and is rebuilt where that is too long ago, or not plausible.
"""

import math
from typing import Any

from aiokafka.errors import KafkaError
from mode import get_logger

from topology.faust.kafka.broker.shapes import configs
from topology.model.partition_table import PartitionTable, Row

logger = get_logger(__name__)

KEY = b"!in-step"
"""A row of the table that the changelog does not have; it sorts before all that it has."""
DEFAULT = 86_400_000
"""Kafka's own delete.retention.ms, for a broker that does not tell."""
MARGIN = 0.8
"""Of the time that deletions are kept: clocks differ."""
SLACK = 60_000
"""Milliseconds that a time may lie in the future."""


def in_step_row(now: int) -> Row:
    """The row that notes that a table is in step (ms)."""
    return KEY, b"%d" % now


def in_step_of(table: PartitionTable) -> int | None:
    """When a table was in step last (ms), None if it does not say so."""
    row = table.get(KEY)
    return int(row) if row is not None and row.isdigit() else None


def too_long(noted: int | None, now: int, kept: float) -> bool:
    """Whether deletions may be gone that a table has not heard of, which others wrote meanwhile.

    noted: when it was in step last. now: the clock. kept: how long deletions stay (ms).
    """
    return noted is None or now < noted - SLACK or written_too_late(noted, now, kept)


def written_too_late(noted: int | None, written: int, kept: float) -> bool:
    """The same by the time of a record behind its offset, which is another worker's clock."""
    return noted is not None and written - noted > kept * MARGIN


async def deletions_kept(app: Any, topic: str) -> float:
    """How long a topic keeps deletions after they are written (ms), as its settings say."""
    try:
        found = (await configs(app, [topic])).get(topic, {})
    except KafkaError as error:
        if error.retriable:
            raise
        logger.info(
            "%s does not say how long it keeps deletions; a day is assumed: %r", topic, error
        )
        return DEFAULT
    if "compact" not in found.get("cleanup.policy", "compact"):
        return math.inf
    return int(found.get("delete.retention.ms", DEFAULT))
