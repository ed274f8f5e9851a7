"""Policies where a crash may leave the first rows of a unit only, as Kafka may at least once."""

from typing import Any

import pytest

from tests.topology.engine.policies.test_simulated import POLICIES
from tests.topology.partition import INSPECTOR
from tests.topology.testing.simulation.simulated import sometimes
from tests.topology.torn_units import TornUnits, but_counts
from topology import Topology
from topology.testing import Delivery, Simulator, numbered

SEEDS = 40


@pytest.mark.parametrize("policies", POLICIES[1:], ids=str)
def test_no_part_of_a_unit_breaks_a_promise(policies: dict[str, Any]) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    topology.view("board", of=orders, handler=sometimes, **policies)
    delivery = Delivery(late=0.4, twice=0.1, never=0.1)
    simulator = Simulator(
        topology, numbered(topology, 30, 3), guarantee="at_least_once", delivery=delivery,
        runner=TornUnits,
    )  # fmt: skip
    audit = simulator._audit.errors
    simulator._audit.errors = lambda run: but_counts(audit(run))  # type: ignore[method-assign]
    assert simulator.run(range(SEEDS)).crashed.total() > SEEDS // 2
