"""Where an input partition starts: at the group's offset, or at what is left behind it."""

from aiokafka import TopicPartition
from mode import get_logger

from topology.engine.intake import IntakeCounts
from topology.faust.worker.context import WorkerContext

logger = get_logger(__name__)


async def committed_start(
    context: WorkerContext, partition: TopicPartition
) -> tuple[int, int, IntakeCounts]:
    """(first offset there is, offset to start at, what became of the messages before it)."""
    found = (await context.offsets.committed([partition])).get(partition)
    first = await context.shared_reader.first(partition)
    if found is None:
        return first, first, IntakeCounts()
    return first, clamp_to_log_start(partition, found.offset, first), found.taken


def clamp_to_log_start(partition: TopicPartition, offset: int, first: int) -> int:
    """`offset`, or the first one there is if that is higher: then messages were lost."""
    if offset < first:
        logger.error(
            "%s: messages %d to %d were deleted by retention before they were read",
            partition, offset, first - 1,
        )  # fmt: skip
    return max(offset, first)
