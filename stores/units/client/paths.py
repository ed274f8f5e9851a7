"""Administration of paths: where units live, and moving them."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka.errors import KafkaError

from stores.units.errors import MemberUnavailable, RouteMoving, UnitError
from stores.units.kafka.path_service import PathService
from topology.model.printable import printable

AGAIN = 0.2
"""Seconds between looks whether a unit has moved."""


class PathAdministration:
    """Looks at the paths of a destination, and moves units.

    Args:
        destination: the topic.
        kafka: arguments of aiokafka's clients.
        token: that the path service wants to see.
        wait: seconds within which it has to answer, and a move to end.
    """

    def __init__(
        self, destination: str, kafka: Mapping[str, Any], token: str, wait: float = 30.0
    ) -> None:
        self._service, self._wait = PathService(destination, kafka, token), wait

    async def __aenter__(self) -> "PathAdministration":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._service.close()

    async def paths(self) -> dict[str, dict[str, Any]]:
        """Unit → member, epoch, producers, target if it moves; at most 1,000.

        Raises:
            MemberUnavailable: no path service answers.
        """
        return await self._ask("GET")

    async def path(self, unit: str) -> dict[str, Any]:
        """The path of a unit.

        Args:
            unit: its name.

        Raises:
            UnitError: it has none: nobody sends to it, and nothing of it is left.
        """
        found = await self._ask("GET", unit=unit)
        if unit not in found:
            raise UnitError(f"unit {printable(unit)} has no path: it gets one at its first use")
        path: dict[str, Any] = found[unit]
        return path

    async def move(self, unit: str, to: int, *, by: str, reason: str = "") -> None:
        """Move a unit; what is sent from now on waits until what was sent before is done.

        Args:
            unit: its name.
            to: the member.
            by: who does it.
            reason: why.

        Raises:
            UnitError: it has no path, or is there.
            RouteMoving: a producer has not given the old route back yet; the move goes on.
        """
        told = {"unit": unit, "to": to, "by": by, "reason": reason}
        await self._ask("POST", "/move", told)
        end = asyncio.get_running_loop().time() + self._wait
        while (await self._ask("GET", unit=unit)).get(unit, {}).get("target") is not None:
            if asyncio.get_running_loop().time() > end:
                raise RouteMoving(
                    f"unit {printable(unit)} has not moved within {self._wait:g} s: a producer"
                    " still sends, or a member is down; the move goes on, look at the path later"
                )
            await asyncio.sleep(AGAIN)

    async def _ask(
        self, method: str, path: str = "", body: object = None, **query: str
    ) -> dict[str, Any]:
        end = asyncio.get_running_loop().time() + self._wait
        while True:
            try:
                return await self._service.ask(method, path, body, **query)
            except (MemberUnavailable, KafkaError) as error:
                if asyncio.get_running_loop().time() > end:
                    raise MemberUnavailable(
                        f"{error}; start `sequitur units paths`, or wait until one leads"
                    ) from error
                await asyncio.sleep(AGAIN)
