"""Administration from afar: each member's owner is found by its row, and asked over HTTP."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp

from stores.units.client.owners import OwnerFollower
from stores.units.errors import MemberUnavailable, UnitError
from stores.units.kafka.topics import member_of, members_there, routing_of
from stores.units.wire import bearer
from topology.model.ending import end_tasks

OWNERS = 10.0
"""Seconds within which the owners of all members have to show."""


class UnitAdministration:
    """Looks at the units of a subscriber, and changes what happens to them.

    Args:
        destination: the topic.
        group: the subscriber.
        kafka: arguments of aiokafka's clients.
        token: that the unit servers want to see.
        wait: seconds within which owners have to show.
    """

    def __init__(
        self,
        destination: str,
        group: str,
        kafka: Mapping[str, Any],
        token: str,
        wait: float = OWNERS,
    ) -> None:
        self._destination, self._kafka, self._wait = destination, kafka, wait
        self._headers = {"Authorization": bearer(token)}
        self._follower = OwnerFollower(kafka, destination, group)
        self._members = self._all = 0

    async def __aenter__(self) -> "UnitAdministration":
        self._members, _ = await routing_of(self._kafka, self._destination)
        self._all, _ = await members_there(self._kafka, self._destination)
        self._following = asyncio.create_task(self._follower.follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(self._following)

    def member(self, unit: str) -> int:
        """The member on which a unit lives by hash.

        Args:
            unit: its name.
        """
        return member_of(unit, self._members)

    async def homes(self, unit: str) -> list[int]:
        """The members that have something of a unit: several while it moves, by path.

        All are asked: a unit that servers name (`naming`) lies where its producer has sent it.

        Args:
            unit: its name.

        Raises:
            MemberUnavailable: a member has no owner that answers.
        """
        found = []
        for member in range(self._all):
            if (await self.units(member, unit))[0]["state"] != "empty":
                found.append(member)
        return found

    async def members(self) -> list[dict[str, Any]]:
        """What there is of each member: messages, sessions, counts.

        Raises:
            MemberUnavailable: a member has no owner that answers.
        """
        found: dict[int, dict[str, Any]] = {}
        for member in range(self._all):
            if member not in found:
                answer = await self._ask("GET", member, "/status")
                found |= {each["member"]: each for each in answer}
            if member not in found:
                raise self._unavailable(member)
        return [found[member] for member in sorted(found)]

    async def units(self, member: int, unit: str | None = None) -> list[dict[str, Any]]:
        """The units of a member: who holds them, since when, what waits, what helps.

        Args:
            member: the partition.
            unit: this one alone.
        """
        query = {"member": str(member), **({} if unit is None else {"unit": unit})}
        answer: list[dict[str, Any]] = await self._ask("GET", member, "/status", query)
        return answer

    async def records(self, member: int) -> list[dict[str, Any]]:
        """What was done to a member by administration.

        Args:
            member: the partition.
        """
        answer: list[dict[str, Any]] = await self._ask(
            "GET", member, "/records", {"member": str(member)}
        )
        return answer

    async def act(self, action: str, member: int, *, by: str, **told: Any) -> dict[str, Any]:
        """Carry out an action; it is durable and on record when this returns.

        Args:
            action: park, redrive, pause, resume, move or delete.
            member: the partition.
            by: who does it.
            told: unit or offsets, to, reason.

        Raises:
            UnitError: it was refused; the text says why.
        """
        body = {"action": action, "member": member, "by": by, **told}
        answer: dict[str, Any] = await self._ask("POST", member, "/administration", body=body)
        return answer

    async def _ask(
        self,
        method: str,
        member: int,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        until = asyncio.get_running_loop().time() + self._wait
        while True:
            url = await self._url(member)
            with suppress(aiohttp.ClientError, TimeoutError):
                async with (
                    aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as http,
                    http.request(
                        method, url + path, params=query, json=body, headers=self._headers
                    ) as answer,
                ):
                    if answer.status in (200, 409):
                        found = await answer.json()
                        if answer.status == 409:
                            raise UnitError(str(found["error"]))
                        return found
                    if answer.status == 401:
                        raise UnitError(f"the unit server at {url} does not know this token")
                    if answer.status != 421:  # another server owns the member
                        raise UnitError(f"the unit server at {url} answers {answer.status}")
            if asyncio.get_running_loop().time() > until:
                raise self._unavailable(member)
            await asyncio.sleep(0.2)

    async def _url(self, member: int) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait):
                while member not in self._follower.owners:
                    changed = asyncio.create_task(self._follower.changed())
                    await asyncio.wait([changed, self._following], timeout=0.2,
                                       return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
                    changed.cancel()
                    if self._following.done():
                        self._following.result()
        if member not in self._follower.owners:
            raise self._unavailable(member)
        return self._follower.owners[member].url.rstrip("/")

    def _unavailable(self, member: int) -> MemberUnavailable:
        return MemberUnavailable(
            f"member {member} of {self._destination!r} has no owner that answers; start a unit "
            "server, or wait until one has taken over"
        )
