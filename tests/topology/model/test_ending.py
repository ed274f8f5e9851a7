"""Ending a task or a Kafka client works whatever the client does with a cancellation."""

import asyncio

import pytest
from aiokafka.errors import KafkaConnectionError

from topology.model import ending
from topology.model.ending import end_tasks, wait_for_stop


async def test_a_client_that_ends_as_cancelled_does_not_cancel_who_waits() -> None:
    """A killed broker: the worker's own stop was cancelled half-way, and it ended with status 1."""

    async def stop() -> None:
        raise asyncio.CancelledError

    await wait_for_stop(stop())


async def test_a_client_that_fails_to_stop_is_only_told_of() -> None:
    async def stop() -> None:
        raise KafkaConnectionError("gone")

    await wait_for_stop(stop())


async def test_a_client_that_never_stops_is_left() -> None:
    """A fetcher that awaits its own cancelled fetches swallows the cancellation of its stop."""
    never = asyncio.Event()
    await wait_for_stop(never.wait(), 0.01)  # type: ignore[arg-type]


async def test_a_client_that_stops_does_not_swallow_the_cancellation_of_who_waits() -> None:
    """A consumer of units that was closed while it stopped looking for owners never closed."""
    stopping = asyncio.Event()

    async def swallows() -> None:
        try:
            stopping.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

    task = asyncio.create_task(wait_for_stop(swallows()))
    await stopping.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_swallows_a_cancellation_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "AGAIN", 0.01)
    cancelled = 0

    async def swallows() -> None:
        nonlocal cancelled
        while cancelled < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled += 1

    task = asyncio.create_task(swallows())
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await end_tasks(task)
    assert task.done()


async def test_a_task_that_failed_does_not_keep_the_others_from_ending() -> None:
    async def fails() -> None:
        raise KafkaConnectionError("gone")

    tasks = [asyncio.create_task(fails()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.sleep(0)
    await end_tasks(*tasks)
    assert all(task.done() for task in tasks)
