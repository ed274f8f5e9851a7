"""The protocol of an input partition: what is read when, and what has to be durable before that.

A Faust worker and the simulator both drive it, each with readers, clocks and commits of its own. It
does no I/O and knows no event loop: its coroutines wait only for what the runtime gives it.
"""

from topology.engine.partition.alignment import Alignment
from topology.engine.partition.group_alignment import GroupAlignment
from topology.engine.partition.loop import Host, JoiningView, PartitionLoop
from topology.engine.partition.ports import Dispatch, GapWatermark, PartitionReader, RebuildSource
from topology.engine.partition.side_inputs import SideInputs
from topology.engine.partition.steps import RekeyStep, RouteStep, Step
from topology.engine.partition.stream_step import StreamStep
from topology.engine.partition.view import PartitionView

__all__ = [
    "Alignment",
    "Dispatch",
    "GapWatermark",
    "GroupAlignment",
    "Host",
    "JoiningView",
    "PartitionLoop",
    "PartitionReader",
    "PartitionView",
    "RebuildSource",
    "RekeyStep",
    "RouteStep",
    "SideInputs",
    "Step",
    "StreamStep",
]
