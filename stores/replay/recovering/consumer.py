"""A consumer in a group that recovers from a replay server, exactly once."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Self
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from stores import kafka_records as kafka_records  # header names that are not UTF-8 end nobody
from stores.replay.query import Query
from stores.replay.recovering.beginning import Beginning
from stores.replay.recovering.care import RecoveryCare, what_is_gone
from stores.replay.recovering.errors import RecoveryEnded, RecoveryRefused
from stores.replay.recovering.group_topic import GroupTopic
from stores.replay.recovering.lookup import Lookup
from stores.replay.recovering.owned import Batch, OwnedPartition
from stores.replay.recovering.reading import Handed, Reading
from stores.replay.recovering.replay_server import ReplayServer, ServerAway
from topology.model.ending import wait_for_stop

logger = logging.getLogger(__name__)

_GRACE = 10.0
"""Seconds in which a batch may end when its partition goes to another consumer."""


class RecoveringConsumer(ConsumerRebalanceListener):  # type: ignore[misc]
    """Reads topics in batches of a partition each, and recoveries of them in their place.

    Each batch is a Kafka transaction: what it sends, its position, and where its partition is read
    are committed together, when the loop asks for the next batch. What is not, comes again.

        async with RecoveringConsumer(["orders"], "billing", kafka) as consumer:
            async for batch in consumer:
                for record in batch.records:
                    await batch.send("bills", bill_of(record.value), record.key)

    Args:
        topics: what is read.
        group: with whom partitions are shared; all members are RecoveringConsumers.
        kafka: arguments of aiokafka's clients, `bootstrap_servers` among them.
        most: records of a batch.
        batch_seconds: how long a batch may take before it is aborted.
        start: where a group begins that has read nothing yet.
        instance: this member's name, so that a restart is no rebalance; "": it has none.
        accept_loss: whether to go on where messages were deleted before they were read.
    """

    def __init__(
        self,
        topics: Sequence[str],
        group: str,
        kafka: Mapping[str, Any],
        *,
        most: int = 500,
        batch_seconds: float = 60.0,
        start: Literal["earliest", "latest"] = "earliest",
        instance: str = "",
        accept_loss: bool = False,
    ) -> None:
        self._topics, self._name = tuple(topics), group
        self._group = GroupTopic(group, kafka)
        self._lookup = Lookup(kafka)
        plain = {
            **{"fetch_max_wait_ms": 100, **kafka},
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
        }
        self._primary = AIOKafkaConsumer(
            **plain,
            group_id=group,
            group_instance_id=instance or None,
            auto_offset_reset=start,
        )
        self._recovery = AIOKafkaConsumer(**plain, auto_offset_reset="none")
        self._care = RecoveryCare(self._group, self._lookup)
        self._reading = Reading(
            *(self._group, self._lookup, self._primary, self._recovery),
            lambda at: OwnedPartition(at, group, self._group.at, kafka, batch_seconds),
            self._care.end,
            most=most,
            early=start == "earliest",
            accept_loss=accept_loss,
        )
        self._batch: Batch | None = None
        self._batch_of: asyncio.Task[Any] | None = None
        self._ended = asyncio.Event()
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        try:
            await self._group.start()
            await self._lookup.start()
            await self._recovery.start()
            self._primary.subscribe(self._topics, listener=self)
            await self._primary.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._batch = None
        self._ended.set()
        await self._care.stop()
        await wait_for_stop(self._primary.stop())
        for each in self._reading.owned.values():
            await each.stop()
        for client in (self._recovery, self._lookup, self._group):
            await wait_for_stop(client.stop())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        await self._end_batch()
        while True:
            async with self._lock:
                with suppress(IllegalStateError):  # a partition that is no longer its own
                    await self._reading.tick()
                    await self._care.look(self._reading.owned.values())
                    if (found := await self._reading.next()) is not None:
                        return self._handed(found)
            await asyncio.sleep(0)

    @property
    def recovering(self) -> str | None:
        """The recovery that is under way in the group, as this consumer knows it."""
        active = self._group.log.active()
        return None if active is None else active.id

    async def recover(
        self,
        query: Query | None = None,
        *,
        server: str,
        token: str,
        topics: Iterable[str] | None = None,
        way: Literal["direct", "router"] = "direct",
        rules: Literal["now", "then"] = "then",
        seconds: float = 600.0,
        actor: str = "",
        reason: str = "the consumer asks for it",
        accept_loss: bool = False,
    ) -> str:
        """Begin a recovery: all of the group stop where they are, and read it first.

        Args:
            query: which messages; all that were captured unless given.
            server: the replay server's URL.
            token: that it wants to see.
            topics: which of the consumer's; all unless given.
            way: direct, or through the router.
            rules: through the router: those of now, or what those of then had published.
            seconds: it may take; a primary that keeps what is unread for less is refused.
            actor: who asks; the group unless given.
            reason: why; it is recorded.
            accept_loss: whether to recover what is left where the log does not have all of it. It
                may turn out later that it has not, which ends the recovery.

        Returns:
            The request, as in `recovering`; batches say it, too. `recovered` tells its outcome.

        Raises:
            RecoveryRefused: it cannot be; the consumer goes on where it is.
            ServerAway: the server does not answer; the same.
            KafkaError: the same.
        """
        if self._batch is not None and self._batch_of is asyncio.current_task():
            raise RecoveryRefused("a batch is open: `await batch.commit()` before recover()")
        wanted, id = tuple(topics or self._topics), uuid4().hex[:12]
        if strange := set(wanted) - set(self._topics):
            raise RecoveryRefused(f"topic {min(strange)!r} is none of this consumer's")
        http = ReplayServer(server, token)
        await self._group.read_to_end()
        if (active := self._group.log.active()) is not None:
            raise RecoveryRefused(f"recovery {active.id} is under way: wait for it, or cancel it")
        for each in list(self._group.log.requests.values()):
            await self._group.forget(each)
        await self._group.say(id, "asked", {"topics": wanted})
        taken = ""
        try:
            of = (self._group, self._lookup, self._primary, self._reading, self._lock)
            positions = await (beginning := Beginning(*of)).stopped(id, wanted)
            await beginning.check_retention(positions, seconds)
            who = {"actor": actor or self._name, "reason": reason}
            how = {"way": way, "rules": rules} if way == "router" else {"way": way}
            status = await http.recover(query or Query(), positions, **who, **how)
            taken = status.id
            if status.gone and not accept_loss:
                raise RecoveryRefused(what_is_gone(status.gone))
            said: dict[str, Any] = {"recovery": taken, "server": http.url, "topics": status.topics}
            said |= {"positions": positions, "through_router": status.through_router}
            await self._group.say(id, "running", said)
            await self._group.read_to_end()
            if why := self._group.log.outcome(id):
                raise RecoveryRefused(f"it was ended before it began: {why}")
        except BaseException as error:
            with suppress(KafkaError):
                await self._group.say(id, "ended", {"reason": repr(error)[:400]})
            if taken:
                with suppress(RecoveryRefused, ServerAway):
                    await http.close(taken, "the consumer could not begin")
            raise
        self._care.mine[id] = http
        if not accept_loss:
            self._care.whole[id] = http, taken
        return id

    async def recovered(self, request: str) -> None:
        """Wait until all of the group have read a recovery, and are back on their primary.

        While it goes on, another task has to take the batches.

        Args:
            request: what `recover` returned, to this consumer or another one of the group.

        Raises:
            RecoveryEnded: it ended early, and says why; some of it may not have been read. Or what
                the log does not have became known too late to end it; only who asked for it knows.
            ServerAway, RecoveryRefused, KafkaError: it is not known.
        """
        await self._group.read_to_end()
        while (why := self._group.log.outcome(request)) is None:
            await asyncio.sleep(0.1)
            await self._group.read()
        if why:
            raise RecoveryEnded(f"recovery {request} ended before all of it was read: {why}")
        if request in self._care.whole:
            server, recovery = self._care.whole[request]
            if gone := (await server.status(recovery)).gone:
                raise RecoveryEnded(f"recovery {request} is read, but {what_is_gone(gone)}")

    async def cancel(self, reason: str = "cancelled") -> None:
        """End the recovery that is under way, if there is one: the primary is read on.

        Args:
            reason: why; the group's consumers log it.
        """
        await self._group.read_to_end()
        if (active := self._group.log.active()) is not None:
            await self._care.end(active, reason)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Let a batch end; what does not end is aborted, as the next owner fences this one.

        Args:
            revoked: aiokafka's.
        """
        if self._batch is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _GRACE)
        self._reading.assigned = frozenset()
        for each in self._reading.owned.values():
            each.lost = True

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Own partitions; they are read once their former owners are fenced.

        Args:
            assigned: aiokafka's.
        """
        self._reading.assigned = frozenset(assigned)
        self._primary.pause(*self._reading.assigned)

    def _handed(self, found: Handed) -> Batch:
        at, owned = found.owned.at, found.owned
        self._reading.at_work, self._batch_of = owned, asyncio.current_task()
        self._ended.clear()
        self._batch = Batch(
            at.topic, at.partition, found.records, found.recovery, owned, self._end_batch
        )
        return self._batch

    async def _end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._reading.at_work = None
            try:
                async with self._lock:
                    await self._reading.commit(batch._owned)
            finally:
                self._ended.set()
