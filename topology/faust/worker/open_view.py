"""All that a worker has of a view in one partition."""

import time
from typing import Any

from aiokafka import TopicPartition

from topology.engine.partition import Dispatch, PartitionView, SideInputs
from topology.engine.view_task import ViewTask
from topology.faust.kafka.reader import USUAL, AssignedPartition
from topology.faust.worker.context import WorkerContext
from topology.faust.worker.rebuilds import Rebuilds


def open_view(context: WorkerContext, task: ViewTask, table: Any, partition: int) -> PartitionView:
    """Put together what belongs to a view in a partition, from its task and its restored table."""
    view = task.view
    redeliveries = TopicPartition(view.redeliver_topic, partition)
    commands = TopicPartition(view.commands_topic, partition)
    side_inputs = SideInputs(
        task,
        AssignedPartition(context.side_reader, redeliveries),
        AssignedPartition(context.side_reader, commands),
        lambda: context.barriers.end(redeliveries),
        time.monotonic,
    )
    batch = min(USUAL, context.settings.batch)
    rebuilds = Rebuilds(context.app, context.barriers.end, batch, task, partition)
    dispatch: Dispatch = context.views[view.name].do
    if context.timings is not None:
        dispatch = context.timings.timed_steps(view.name, dispatch)
        if view.work is None:  # its workers have the handler
            task.sampled = context.timings.sampled_handlers(view)
    return PartitionView(task, table, dispatch, side_inputs, rebuilds)
