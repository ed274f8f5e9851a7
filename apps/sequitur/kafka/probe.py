"""Asks whether Kafka answers, by a connection of its own: a client that hangs does not tell."""

from collections.abc import Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError

import stores.kafka_topics  # noqa: F401  # no topic is made by asking for it
from topology.model.ending import wait_for_stop


class BrokerProbe:
    """settings: of aiokafka's clients."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._client: AIOKafkaClient | None = None

    async def __call__(self) -> None:
        """Return if a broker answers; raises KafkaError or OSError."""
        if self._client is None:
            client = AIOKafkaClient(**self._settings)
            try:
                await client.bootstrap()
            except BaseException:
                await wait_for_stop(client.close())
                raise
            self._client = client
        elif not await self._client.force_metadata_update():
            raise KafkaConnectionError("no broker answers")

    async def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await wait_for_stop(client.close())
