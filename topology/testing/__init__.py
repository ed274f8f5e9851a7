"""The test kit: run a topology in-process, with the engine that runs it in production."""

from topology.testing.driver.read_store import DeadRow
from topology.testing.driver.topology_test_driver import TopologyTestDriver
from topology.testing.driver.unchanged import ChangedContent
from topology.testing.simulation.messages import Delivery, Sent, numbered
from topology.testing.simulation.simulator import Report, SimulationError, Simulator

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
