"""Stopping a Kafka client ends whatever the client does."""

import asyncio

from aiokafka.errors import KafkaConnectionError

from topology.faust.worker.runner import stopped


async def test_a_client_that_ends_as_cancelled_does_not_cancel_who_waits() -> None:
    """A killed broker: the worker's own stop was cancelled half-way, and it ended with status 1."""

    async def stop() -> None:
        raise asyncio.CancelledError

    await stopped(stop())


async def test_a_client_that_fails_to_stop_is_only_told_of() -> None:
    async def stop() -> None:
        raise KafkaConnectionError("gone")

    await stopped(stop())
