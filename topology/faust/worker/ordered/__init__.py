"""Handlers that work side by side in a partition, and whose effects are committed in order."""

from topology.faust.worker.ordered.ordered_partition import OrderedPartition

__all__ = ["OrderedPartition"]
