"""A view in one partition: all that belongs to it there, also when it leaves the other views."""

from dataclasses import dataclass
from typing import Any

from topology.engine.partition.ports import Dispatch, RebuildSource
from topology.engine.partition.side_inputs import SideInputs
from topology.engine.view_task import ViewTask


@dataclass(frozen=True, slots=True)
class PartitionView:
    """What a partition has of a view.

    Attributes:
        task: The engine's task: progress, buffers, handler.
        table: Where the rows of the task are kept.
        dispatch: Has the view's agent do some work.
        side_inputs: Its redeliveries and its operators' commands.
        rebuilds: Histories of its streams that are rebuilt.
    """

    task: ViewTask
    table: Any
    dispatch: Dispatch
    side_inputs: SideInputs
    rebuilds: RebuildSource

    @property
    def name(self) -> str:
        return self.task.view.name
