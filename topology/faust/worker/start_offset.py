"""Where an input partition starts: at the group's offset, or at what is left behind it."""

from typing import NamedTuple

from aiokafka import TopicPartition
from mode import get_logger

from topology.engine.intake import IntakeCounts
from topology.faust.worker.context import WorkerContext

logger = get_logger(__name__)


class CommittedStart(NamedTuple):
    """Where a partition starts.

    first: the first offset that is there. offset: to start at. committed: what the group has
    committed, 0 where nothing; it is less where what lay between was deleted. taken: what became of
    the messages before.
    """

    first: int
    offset: int
    committed: int
    taken: IntakeCounts


async def committed_start(context: WorkerContext, partition: TopicPartition) -> CommittedStart:
    """Look where a partition starts. Raises KafkaError."""
    found = (await context.offsets.committed([partition], stable=True)).get(partition)
    first = await context.shared_reader.first(partition)
    if found is None:
        return CommittedStart(first, first, 0, IntakeCounts())
    start = clamp_to_log_start(partition, found.offset, first)
    return CommittedStart(first, start, found.offset, found.taken)


def clamp_to_log_start(partition: TopicPartition, offset: int, first: int) -> int:
    """`offset`, or the first one there is if that is higher: then messages were lost."""
    if offset < first:
        logger.error(
            "%s: messages %d to %d were deleted by retention before they were read",
            partition, offset, first - 1,
        )  # fmt: skip
    return max(offset, first)
