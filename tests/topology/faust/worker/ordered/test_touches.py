"""What events touch, learned from what they yielded or declared, decides who commits first."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import Emit, Event, Record, Topology, Touched, Upsert, wait_and_commit
from topology.engine.staged_effects import touched_keys
from topology.ordered_commit.touched_keys import RUNS


def partition(gate: asyncio.Event, table: str | None, **options: Any) -> Partition:
    """Each event writes a row of its own stream, and with a table one row of all."""

    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Upsert]:
        if event.content == b'"slow"':
            await gate.wait()
        state["seen"] = state.get("seen", 0) + 1
        yield Upsert("rows", key={"id": event.stream}, values={"n": state["seen"]})
        if table is not None:
            yield Upsert(table, key={"id": "all"}, values={"stream": event.stream})

    topology = Topology("t")
    topology.parallel(
        "work", topic="in", handler=handler, workers=8, commit="arrival",
        older=wait_and_commit(wait=0.05), **options,
    )  # fmt: skip
    return Partition(topology)


async def after_runs(held: Partition) -> None:
    """Enough events of the kind are done, then one of s1 is slow, and others come behind it."""
    held.start()
    for number in range(RUNS):
        held.log.append(f"s{number}", "quick")
    await held.until(lambda: held.runner.core.position == RUNS)
    # Until then, what was known of no keys gave way on a slow machine.
    held.runner.core.counts.rolled_back = 0
    for name, value in (("s1", "slow"), ("s1", "quick"), ("s2", "quick"), ("s3", "quick")):
        held.log.append(name, value)


async def test_what_was_learned_of_a_kind_lets_events_of_other_keys_commit_first() -> None:
    gate = asyncio.Event()
    held = partition(gate, None)
    await after_runs(held)
    await held.until(lambda: held.runner.core.counts.ahead == 2)
    assert held.runner.core.position == RUNS
    gate.set()
    await held.until(lambda: held.runner.core.position == RUNS + 4)
    streams = [change["stream"] for change in held.out("t.work")][RUNS:]
    assert streams == ["s2", "s3", "s1", "s1"]
    assert held.runner.core.counts.rolled_back == 0
    await held.runner.stop(1)


@pytest.mark.parametrize("touches", [None, lambda event: Touched.of([("sums", "all")])])
async def test_events_that_write_the_same_row_stay_behind_the_older_one(touches: Any) -> None:
    gate = asyncio.Event()
    held = partition(gate, "sums", touches=touches)
    await after_runs(held)
    await held.until(lambda: held.runner.core.counts.rolled_back >= 2)
    assert held.runner.core.counts.ahead == 0
    gate.set()
    await held.until(lambda: held.runner.core.position == RUNS + 4)
    assert held.runner.core.counts.ahead == 0
    await held.runner.stop(1)


def test_a_key_is_the_same_as_bytes_and_as_text() -> None:
    event = Event("s", 1, None, None, Record("in", 0, 0, b"s", b""))
    keys: tuple[tuple[Any, Any], ...] = (("s", b"s"), ("é", "é".encode()))
    for text, raw in keys:
        as_text, as_bytes = (
            touched_keys(event, [Emit("out", key, 1)], stateful=False) for key in (text, raw)
        )
        assert as_text == as_bytes == Touched.of([("out", text)])
    raws = [
        touched_keys(event, [Emit("out", key, 1)], stateful=False) for key in (b"\xff", b"\xfe")
    ]
    assert raws[0] != raws[1]
