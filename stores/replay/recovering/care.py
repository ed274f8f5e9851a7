"""Looks after the recovery that is under way in a group, until it is over."""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from aiokafka.errors import KafkaError

from stores.replay.recovering.errors import RecoveryRefused
from stores.replay.recovering.group_log import Request
from stores.replay.recovering.group_topic import GroupTopic
from stores.replay.recovering.lookup import Lookup
from stores.replay.recovering.owned import OwnedPartition
from stores.replay.recovering.replay_server import RecoveryUnknown, ReplayServer, ServerAway
from stores.replay.recovering.switch import Phase
from topology.model.ending import end_tasks

logger = logging.getLogger(__name__)

ASKED = 60.0
"""Seconds after which a recovery that has not begun is given up."""
_LOOK = 2.0
"""Seconds between two looks at a recovery that is under way."""
_PAUSED = 600.0
"""Seconds after which a recovery is ended that is paused at the server."""


class RecoveryCare:
    """What a consumer does about its group's recovery, beside reading it.

    Args:
        group: what the consumers of the group tell each other.
        lookup: looks into topics.

    Attributes:
        mine: request → the server of those that this consumer asked for.
        whole: request → server and the server's id, of those of which nothing may be missing.
    """

    def __init__(self, group: GroupTopic, lookup: Lookup) -> None:
        self._group, self._lookup = group, lookup
        self.mine: dict[str, ReplayServer] = {}
        self.whole: dict[str, tuple[ReplayServer, str]] = {}
        self._looked = 0.0
        self._asked: dict[str, float] = {}
        self._paused: dict[str, float] = {}
        self._telling: set[asyncio.Task[None]] = set()

    async def look(self, owned_partitions: Collection[OwnedPartition]) -> None:
        """End what cannot go on, and close at the server what is over, now and then.

        Args:
            owned_partitions: the consumer's.
        """
        if time.monotonic() - self._looked < _LOOK:
            return
        await self._look(owned_partitions)
        self._looked = time.monotonic()

    async def stop(self) -> None:
        """Let what the server is told be told, but not for long."""
        if self._telling:
            await asyncio.wait(self._telling, timeout=_LOOK)
            await end_tasks(*self._telling)

    async def _look(self, owned_partitions: Collection[OwnedPartition]) -> None:
        log = self._group.log
        self._telling = {each for each in self._telling if not each.done()}
        for id, http in list(self.mine.items()):
            request = log.requests.get(id)
            if request is not None and (request.ended is not None or log.is_over(request)):
                del self.mine[id]
                self._telling.add(asyncio.create_task(self._close(http, request)))
        if (active := log.active()) is None:
            return
        if not active.recovery:
            since = self._asked.setdefault(active.id, time.monotonic())
            if time.monotonic() - since > ASKED:
                await self.end(active, f"it did not begin within {ASKED:.0f} s")
            return
        for owned in owned_partitions:
            if owned.lost or owned.switch.phase in (Phase.PRIMARY, Phase.UNREAD):
                continue
            at = f"{owned.at.topic}/{owned.at.partition}"
            begin = await self._lookup.begin_of(owned.at)
            if time.monotonic() > owned.give_up or begin > owned.switch.position:
                await self.end(active, f"{at}: retention takes what is unread; keep it longer")
                return
        if not self._telling:  # the server may be slow, and holds up nothing
            self._telling.add(asyncio.create_task(self.ask(active)))

    async def ask(self, request: Request) -> None:
        """End a recovery that does not end at the server."""
        server, now = self.mine.get(request.id) or ReplayServer(request.server), time.monotonic()
        try:
            status = await server.status(request.recovery)
            since = self._paused.get(request.id, now)
            self._paused = {request.id: since} if status.paused else {}
            if status.failed:
                await self.end(request, status.failed)
            elif status.paused and now - since > _PAUSED:
                await self.end(request, f"for {_PAUSED:.0f} s it has been {status.paused}")
            elif status.gone and request.id in self.whole:
                await self.end(request, what_is_gone(status.gone))
        except RecoveryUnknown as error:
            await self.end(request, str(error))
        except (RecoveryRefused, ServerAway, KafkaError) as error:
            logger.warning("recovery %s: it is not known how it is: %s", request.id, error)

    async def _close(self, server: ReplayServer, request: Request) -> None:
        with suppress(RecoveryRefused, ServerAway):
            await server.close(request.recovery, request.ended or "the consumers have read it")

    async def end(self, request: Request, reason: str) -> None:
        """End a recovery early, unless it is over meanwhile, as another one may have closed it."""
        await self._group.read_to_end()
        if self._group.log.outcome(request.id) is not None:
            return
        logger.error("recovery %s is ended: %s", request.id, reason)
        await self._group.say(request.id, "ended", {"reason": reason[:400]})
        await self._group.read_to_end()


def what_is_gone(gone: Sequence[str]) -> str:
    """What the log does not have of a recovery, in words."""
    more = "; …" if len(gone) > 3 else ""
    return (
        f"the log does not have all of it: {'; '.join(gone[:3])}{more}; recover the rest with "
        "accept_loss=True"
    )
