"""The path service as those who ask it see it: found by its leader's row, asked over HTTP."""

from collections.abc import Mapping
from typing import Any

import aiohttp
from aiokafka import TopicPartition

from stores.units.errors import MemberUnavailable, UnitError
from stores.units.kafka.path_rows import leader_of
from stores.units.kafka.row_log import read_to, reader
from stores.units.kafka.topics import paths_topic
from stores.units.wire import bearer
from topology.model.ending import wait_for_stop

LAST = 1_000
"""Rows that are read for the leader at first: its own is in each of its transactions."""

PATIENCE = 10.0
"""Seconds for which its row may take to be read."""


class PathService:
    """Who leads a destination's paths.

    Args:
        destination: the topic.
        kafka: arguments of aiokafka's clients.
        token: that it wants to see.
    """

    def __init__(self, destination: str, kafka: Mapping[str, Any], token: str) -> None:
        self._destination, self._kafka = destination, kafka
        self._headers = {"Authorization": bearer(token)}
        self._http: aiohttp.ClientSession | None = None
        self._url = ""

    async def close(self) -> None:
        """Disconnect."""
        if self._http is not None:
            await self._http.close()

    async def ask(
        self, method: str, path: str = "", body: object = None, **query: str
    ) -> dict[str, Any]:
        """Ask the leader.

        Raises:
            MemberUnavailable: it does not answer; the next call looks for it anew.
            UnitError: it refuses.
            KafkaError: its address cannot be read.
        """
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10))
        if not self._url:
            self._url = await self._find()
        url, self._url = self._url, ""
        where = f"{url.rstrip('/')}/paths/{self._destination}{path}"
        try:
            async with self._http.request(
                method, where, json=body, params=query, headers=self._headers
            ) as answer:
                found: dict[str, Any] = (
                    await answer.json() if answer.status in (200, 409) else {"error": ""}
                )
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise MemberUnavailable(
                f"the path service at {url} does not answer ({type(error).__name__})"
            ) from None
        if answer.status == 409:
            raise UnitError(str(found["error"]))
        if answer.status == 401:
            raise MemberUnavailable(f"the path service at {url} does not know this token")
        if answer.status != 200:
            raise MemberUnavailable(f"the path service at {url} answers {answer.status}")
        self._url = url
        return found

    async def _find(self) -> str:
        """The leader's address. Raises MemberUnavailable, KafkaError."""
        consumer, url = reader(self._kafka), ""
        at = TopicPartition(paths_topic(self._destination), 0)
        await consumer.start()
        try:
            consumer.assign([at])
            first = (await consumer.beginning_offsets([at]))[at]
            place = end = (await consumer.end_offsets([at]))[at]
            last = LAST
            while not url and place > first:
                place, last = max(first, end - last), last * 10
                consumer.seek(at, place)
                async for record in read_to(consumer, at, end, PATIENCE):
                    if (leader := leader_of(record)) is not None:
                        url = leader.url
        finally:
            await wait_for_stop(consumer.stop())
        if not url.startswith(("http://", "https://")):
            raise MemberUnavailable(f"no path service leads {self._destination!r}")
        return url
