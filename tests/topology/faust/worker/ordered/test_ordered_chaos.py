"""Chaos in memory: failures, roll backs, revoked partitions, commits that break; nothing is lost,
done twice, or overtakes."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any, Literal

import orjson
import pytest

from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import Emit, Event, Topology, wait_and_commit, wait_and_roll_back
from topology.engine.commit_unit import CommitUnit

EVENTS = 80


@pytest.mark.parametrize("commit", ["arrival", "stream"])
@pytest.mark.parametrize("seed", range(8))
async def test_every_event_is_committed_once_and_in_order_whatever_happens(
    seed: int, commit: Literal["arrival", "stream"]
) -> None:
    chance = random.Random(seed)
    at_work: set[str] = set()

    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Emit]:
        assert event.stream not in at_work, "two attempts at a stream at once"
        at_work.add(event.stream)
        try:
            await asyncio.sleep(chance.choice((0, 0, 0.001, 0.004, 0.02)))
            if chance.random() < 0.1:
                raise TimeoutError("a lock")
        finally:
            at_work.discard(event.stream)
        state["seen"] = [*state.get("seen", ()), orjson.loads(event.content)]
        yield Emit("out", event.stream, [event.stream, state["seen"]])

    older: Any = chance.choice((wait_and_roll_back(0.01), wait_and_commit(0.01)))
    topology = Topology("t")
    topology.parallel(
        "work", topic="in", workers=chance.choice((2, 8)), commit=commit, handler=handler,
        older=older, time_limit=chance.choice((None, 0.01)),
    )  # fmt: skip
    held = Partition(topology)
    object.__setattr__(held.stage.work.rules, "backoff", 0.001)
    object.__setattr__(held.stage.work.rules, "retries", 1_000)
    object.__setattr__(held.stage.work.rules, "rollbacks", 1_000)

    def breaks(_: CommitUnit) -> None:
        if chance.random() < 0.05:
            raise ConnectionError("the broker is gone")

    held.on_commit = breaks
    held.new_run()
    for number in range(EVENTS):
        held.log.append(f"s{chance.randrange(6)}", number)
    for _ in range(chance.randrange(3, 8)):
        held.start()
        await asyncio.sleep(chance.random() * 0.08)
        await held.runner.stop(chance.choice((0, 1)))
        held.new_run()
    held.on_commit = lambda unit: None
    held.start()
    await held.until(lambda: held.runner.core.position == EVENTS)
    await held.runner.stop(1)

    by_stream: dict[str, list[list[int]]] = defaultdict(list)
    for stream, seen in held.out("out"):
        by_stream[stream].append(seen)
    expected: dict[str, list[int]] = defaultdict(list)
    for number, record in enumerate(held.log.records):
        expected[(record.key or b"").decode()].append(number)
    # Each output shows all of its stream up to there: nothing lost, twice, or out of order.
    for stream, numbers in expected.items():
        assert by_stream[stream] == [numbers[: at + 1] for at in range(len(numbers))], stream
    if commit == "arrival" and older == wait_and_roll_back(0.01):
        assert [seen[-1] for _, seen in held.out("out")] == list(range(EVENTS))
