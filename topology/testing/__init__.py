"""The test kit: run a topology in-process, with the engine that runs it in production."""

from topology.testing.driver import TopologyTestDriver
from topology.testing.messages import Delivery, Sent, numbered
from topology.testing.read_store import DeadRow
from topology.testing.simulator import Report, SimulationError, Simulator
from topology.testing.unchanged import ChangedContent

__all__ = [
    "ChangedContent",
    "DeadRow",
    "Delivery",
    "Report",
    "Sent",
    "SimulationError",
    "Simulator",
    "TopologyTestDriver",
    "numbered",
]
