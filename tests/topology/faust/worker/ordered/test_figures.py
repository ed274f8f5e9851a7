"""What the workers of a view have passed over or set aside is in the figures of the view."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.topology.faust.worker.ordered.in_memory import TOPIC, Partition
from topology import Emit, Event, Inspector, Topology, advance, key, park
from topology.engine.state.rows import BUFFERS
from topology.faust.worker.watch.worker_metrics import _of_inputs, _of_views
from topology.monitoring import Growth, Lags


def figures(held: Partition) -> dict[tuple[str, str, str], float]:
    return {
        (sample.labels["view"], sample.labels["partition"], sample.labels[last]): sample.value
        for family in _of_views([], [held.runner], Growth())
        for sample in family.samples
        for last in ("outcome", "place")
        if last in sample.labels
    }


@pytest.mark.parametrize("error", [advance(), park()])
async def test_events_that_fail_are_counted_and_parked_ones_held(error: Any) -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        if event.stream == "bad":
            raise ValueError("boom")
        yield Emit("out", event.stream, 1)

    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)
    topology.view("work", of=source, workers=2, error=error, handler=handler)
    held = Partition(topology)
    object.__setattr__(held.stage.work.rules, "backoff", 0.001)
    held.new_run()
    for number in (1, 2):
        for stream in ("bad", "good"):
            held.log.append(stream, {"n": number})
    held.start()
    await held.until(lambda: held.runner.core.position == 4)
    await held.runner.stop(1)
    failed, parked = (0, 2) if error == park() else (2, 0)
    assert figures(held)["work", "0", "failed"] == failed
    assert figures(held)["work", "0", "parked"] == parked
    assert len(list(held.table.scan(*BUFFERS))) == parked
    held.new_run()
    assert figures(held)["work", "0", "parked"] == parked


async def test_messages_of_a_parallel_topic_that_are_no_events_are_in_its_figures() -> None:
    async def handler(event: Event) -> None:
        pass

    topology = Topology("t")
    topology.parallel("work", topic="in", workers=2, handler=handler)
    held = Partition(topology)
    for each in range(3):
        held.log.append(f"k{each}", each)
    held.log.records[1].key = b"\xff"
    held.start()
    await held.until(lambda: held.runner.status.status.counts.get("committed") == 3)
    await held.runner.stop(1)
    partition: Any = SimpleNamespace(
        source=TOPIC, is_running=True, runners={"": held.runner}, budget=None
    )
    found = {
        sample.labels["outcome"]: sample.value
        for family in _of_inputs([partition], Lags())
        for sample in family.samples
        if sample.name == "sequitur_messages_total"
    }
    assert found == {"read": 3, "malformed": 1}
