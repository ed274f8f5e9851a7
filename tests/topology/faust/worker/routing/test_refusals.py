"""What Kafka refuses fails its own message, and no other one that comes to have its offset."""

from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import InvalidTimestampError

from topology import Record, Topology
from topology.engine.route_task import RouteTask
from topology.faust.worker.routing.refusals import RouteRefusals
from topology.routing import RoutedSource, Rule, RuleSet

RULES = RuleSet(
    1,
    sources=[RoutedSource("in", ("all",))],
    rules=[Rule("all", to=("out",))],
    destinations={"out": None},
)


async def test_a_message_of_a_topic_that_was_made_anew_does_not_fail_for_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(sent: list[Any]) -> tuple[list[Any], list[Any]]:
        return [(each, InvalidTimestampError()) for each in sent], []

    topology = Topology("t")
    partitions: Any = None
    task = RouteTask(topology, topology.route("r", rules=RULES))
    refusals = RouteRefusals({}, "group", TopicPartition("in", 0), partitions, ("out",))
    monkeypatch.setattr(refusals, "_refused", refused)
    task.refused = refusals.found
    first = Record("in", 0, 3, b"k", b"x", (), 1_000)
    await refusals.note(task.process([first], 0), InvalidTimestampError())
    assert task.process([first], 0).malformed == 1
    anew = Record("in", 0, 3, b"k", b"x", (), 2_000)
    assert task.process([anew], 0).malformed == 0
