"""Policies under simulated crashes, rebalances and zombies."""

from typing import Any

import pytest

from tests.topology.partition import INSPECTOR
from tests.topology.testing.simulation.simulated import sometimes
from topology import Topology, adaptive, park, rebuild_stream, redeliver, retry, skip, spill
from topology.testing import Delivery, Simulator, numbered
from topology.testing.simulation.world import Guarantee

SEEDS = 60
FEW = 15
"""Where an event goes around some thirty times in each of them."""
POLICIES: list[dict[str, Any]] = [
    {"buffer": 1, "full": redeliver(delay=2, limit=30)},
    {"buffer": 2, "full": redeliver(delay=1, limit=60), "gap": skip(after=4)},
    {"error": retry(times=2, backoff=0.5), "full": spill(), "buffer": 2},
    {"error": retry(times=2, backoff=0.5, then=park()), "gap": skip(after=2)},
    {"error": park(), "full": spill(), "buffer": 2},
    {"gap": skip(after=adaptive(0.3, start=2, at_least=1, at_most=4))},
    {"gap": skip(after=2), "late": rebuild_stream(), "buffer": 2},
]


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("policies", POLICIES, ids=str)
def test_no_schedule_breaks_a_promise(policies: dict[str, Any], guarantee: Guarantee) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    topology.view("board", of=orders, handler=sometimes, **policies)
    delivery = Delivery(late=0.4, twice=0.1, never=0.1)
    messages = numbered(topology, 30, 3)
    simulator = Simulator(topology, messages, guarantee=guarantee, delivery=delivery)
    seeds = FEW if policies.get("buffer") == 1 else SEEDS
    report = simulator.run(range(seeds))
    assert report.crashed.total() > seeds // 2
    assert report.failed > 0
