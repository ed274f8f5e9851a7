"""A consumer in a group that recovers from a replay server, exactly once."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Self
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError, OffsetOutOfRangeError, ProducerFenced

from stores import kafka_records as kafka_records  # header names that are not UTF-8 end nobody
from stores.replay.query import Query
from stores.replay.recovering.errors import PrimaryTrimmed, RecoveryEnded, RecoveryRefused
from stores.replay.recovering.group_log import Request
from stores.replay.recovering.group_topic import GroupTopic
from stores.replay.recovering.lookup import Lookup, seen
from stores.replay.recovering.owned import Batch, OwnedPartition
from stores.replay.recovering.replay_server import RecoveryUnknown, ReplayServer, ServerAway
from stores.replay.recovering.switch import Phase, TooManyIds
from topology.model.ending import end_tasks, wait_for_stop

logger = logging.getLogger(__name__)

_GRACE = 10.0
"""Seconds in which a batch may end when its partition goes to another consumer."""
_LOOK = 2.0
"""Seconds between two looks at a recovery that is under way."""
_ASKED = 60.0
"""Seconds after which a recovery that has not begun is given up."""
_PAUSED = 600.0
"""Seconds after which a recovery is ended that is paused at the server."""
_BACK = 10_000
"""Records before the position by which a consumer learns how far other partitions are."""


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
        self._topics, self._name, self._kafka = tuple(topics), group, dict(kafka)
        self._most, self._seconds, self._start = most, batch_seconds, start
        self._accept_loss = accept_loss
        self._group = GroupTopic(group, kafka)
        self._lookup = Lookup(kafka)
        plain = {
            **{"fetch_max_wait_ms": 100, **self._kafka},
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
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._owned: dict[TopicPartition, OwnedPartition] = {}
        self._queue: deque[tuple[OwnedPartition, bool, list[Any], int]] = deque()
        self._batch: Batch | None = None
        self._batch_of: asyncio.Task[Any] | None = None
        self._ended = asyncio.Event()
        self._lock = asyncio.Lock()
        self._looked = 0.0
        self._asked: dict[str, float] = {}
        self._mine: dict[str, ReplayServer] = {}
        self._paused: dict[str, float] = {}
        self._kept: dict[tuple[str, str], float | None] = {}
        self._whole: dict[str, tuple[ReplayServer, str]] = {}
        self._telling: set[asyncio.Task[None]] = set()

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
        if self._telling:
            await asyncio.wait(self._telling, timeout=_LOOK)
            await end_tasks(*self._telling)
        await wait_for_stop(self._primary.stop())
        for each in self._owned.values():
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
                    await self._tick()
                    if (batch := await self._next()) is not None:
                        self._batch, self._batch_of = batch, asyncio.current_task()
                        self._ended.clear()
                        return batch
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
            positions = await self._stopped(id, wanted)
            await self._check_retention(positions, seconds)
            who = {"actor": actor or self._name, "reason": reason}
            how = {"way": way, "rules": rules} if way == "router" else {"way": way}
            status = await http.recover(query or Query(), positions, **who, **how)
            taken = status.id
            if status.gone and not accept_loss:
                raise RecoveryRefused(_gone(status.gone))
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
        self._mine[id] = http
        if not accept_loss:
            self._whole[id] = http, taken
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
        if request in self._whole:
            server, recovery = self._whole[request]
            if gone := (await server.status(recovery)).gone:
                raise RecoveryEnded(f"recovery {request} is read, but {_gone(gone)}")

    async def cancel(self, reason: str = "cancelled") -> None:
        """End the recovery that is under way, if there is one: the primary is read on.

        Args:
            reason: why; the group's consumers log it.
        """
        await self._group.read_to_end()
        if (active := self._group.log.active()) is not None:
            await self._end(active, reason)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Let a batch end; what does not end is aborted, as the next owner fences this one.

        Args:
            revoked: aiokafka's.
        """
        if self._batch is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _GRACE)
        self._assigned = frozenset()
        for each in self._owned.values():
            each.lost = True

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Own partitions; they are read once their former owners are fenced.

        Args:
            assigned: aiokafka's.
        """
        self._assigned = frozenset(assigned)
        self._primary.pause(*self._assigned)

    # One step after the other; only one task does them.

    async def _tick(self) -> None:
        await self._group.read()
        await self._open()
        for owned in list(self._owned.values()):
            if not self._busy(owned) and not owned.lost:
                await self._step(owned)
        if time.monotonic() - self._looked >= _LOOK:
            await self._look_after()
            self._looked = time.monotonic()

    def _busy(self, owned: OwnedPartition) -> bool:
        return self._batch is not None and self._batch._owned is owned

    async def _open(self) -> None:
        for at, owned in list(self._owned.items()):
            if owned.lost and not self._busy(owned):
                del self._owned[at]
                await owned.stop()
                if owned.recovering is not None:
                    self._read_recoveries()
        for at in sorted(self._assigned - self._owned.keys()):
            owned = OwnedPartition(at, self._name, self._group.at, self._kafka, self._seconds)
            self._owned[at] = owned
            try:
                await owned.start()
                await self._group.read_to_end()
                committed = await self._primary.committed(at)
                position = committed
                if position is None:
                    of = self._lookup
                    early = self._start == "earliest"
                    position = await (of.begin_of(at) if early else of.end_of(at))
                found = self._group.log.partitions.get((at.topic, at.partition))
                owned.restore(found, committed, position)
                await self._settle(owned)
            except BaseException:
                owned.lost = True
                raise

    async def _settle(self, owned: OwnedPartition) -> None:
        """Read what the switch says, now that it is committed."""
        switch, at = owned.switch, owned.at
        if owned.reads_primary and not switch.on_primary:
            owned.reads_primary = False
            self._primary.pause(at)
        elif switch.on_primary and not owned.reads_primary:
            if owned.recovering is not None:
                owned.recovering = None
                self._read_recoveries()
            await self._not_trimmed(owned, await self._lookup.begin_of(at))
            self._primary.seek(at, switch.position)
            self._primary.resume(at)
            owned.reads_primary = True
        if not switch.on_primary and switch.phase is not Phase.RECOVERY:
            owned.recovering = None

    async def _not_trimmed(self, owned: OwnedPartition, begin: int) -> None:
        at, position = owned.at, owned.switch.position
        if begin <= position:
            return
        said = f"{at.topic}/{at.partition}: offsets {position} to {begin - 1} were deleted unread"
        if not self._accept_loss:
            raise PrimaryTrimmed(
                f"{said}; recover them from the replay log, and go on with accept_loss=True"
            )
        logger.error("%s", said)
        owned.switch.position = begin

    async def _step(self, owned: OwnedPartition) -> None:
        switch, log = owned.switch, self._group.log
        if switch.phase is Phase.PRIMARY:
            active = log.active()
            if active is None or active.recovery or switch.request == active.id:
                return
            if owned.at.topic in active.topics:
                switch.stop(active.id)
                await self._commit(owned)
            return
        request = log.requests.get(switch.request)
        if request is None or request.ended is not None:
            switch.leave()
            await self._commit(owned)
        elif request.recovery and not switch.on_primary and owned.recovering is None:
            await self._begin(owned, request)

    async def _begin(self, owned: OwnedPartition, request: Request) -> None:
        """Begin a round of a recovery, or go on with it, once it is there."""
        if time.monotonic() < owned.not_before or request.recovery_topics is None:
            return
        owned.not_before = time.monotonic() + 0.5
        at, switch, of = owned.at, owned.switch, self._lookup
        there = TopicPartition(request.recovery_topics[at.topic], at.partition)
        if there.topic not in await of.topics():
            return
        asked = request.id, at.topic
        if asked not in self._kept:
            self._kept = {each: kept for each, kept in self._kept.items() if each[0] == request.id}
            self._kept[asked] = await of.retention(at.topic)
        left = await of.seconds_left(at, switch.position, self._kept[asked])
        owned.give_up = float("inf") if left is None else time.monotonic() + left * 0.9
        if request.through_router:
            if not await of.has_end(there, request.recovery):
                return
            until = switch.begin(await of.end_of(at))
            low = max(await of.begin_of(at), switch.position - _BACK)
            try:
                async for records in of.records(at, low, until):
                    switch.look([seen(each) for each in records])
            except TooManyIds as error:
                await self._end(request, f"{at.topic}/{at.partition}: {error}; recover directly")
                return
        else:
            switch.begin()
        owned.recovering, owned.recovery = there, request.recovery
        self._read_recoveries()

    def _read_recoveries(self) -> None:
        read = [each for each in self._owned.values() if each.recovering is not None]
        self._recovery.assign([each.recovering for each in read])
        for each in read:
            self._recovery.seek(each.recovering, each.switch.reached)

    async def _next(self) -> Batch | None:
        if not self._queue:
            await self._fetch()
        while self._queue:
            owned, of_recovery, records, behind = self._queue.popleft()
            if owned.lost or self._busy(owned):
                continue
            switch, request = owned.switch, owned.switch.request
            if of_recovery and switch.phase is Phase.RECOVERY:
                try:
                    kept = switch.recovered(
                        [seen(each, owned.recovery, request) for each in records]
                    )
                except TooManyIds as error:
                    owned.lost = True  # what it was is read again
                    known = self._group.log.requests[request]
                    await self._end(known, f"{owned.at}: {error}; recover directly")
                    continue
            elif not of_recovery and switch.on_primary:
                if records[0].offset > switch.position:
                    begin = await self._lookup.begin_of(owned.at)
                    if begin > switch.position:
                        await self._not_trimmed(owned, begin)
                kept = switch.read([seen(each) for each in records])
                if switch.phase is Phase.PRIMARY:
                    switch.position = max(switch.position, behind)
            else:
                continue
            if not kept:
                await self._commit(owned)
                continue
            at, name = owned.at, request if of_recovery else None
            handed = [records[index] for index in kept]
            return Batch(at.topic, at.partition, handed, name, owned, self._end_batch)
        return None

    async def _fetch(self) -> None:
        mine = [each for each in self._owned.values() if not each.lost]
        primary = {each.at: each for each in mine if each.reads_primary}
        recovery = {each.recovering: each for each in mine if each.recovering is not None}
        if not primary and not recovery:
            await asyncio.sleep(0.1)
        for wait in (0, 100):
            for reader, of in ((self._recovery, recovery), (self._primary, primary)):
                if not of or self._queue:
                    continue
                try:
                    found = await reader.getmany(*of, timeout_ms=wait, max_records=self._most)
                except OffsetOutOfRangeError as error:
                    if reader is self._primary or (active := self._group.log.active()) is None:
                        raise
                    await self._end(active, f"its topic was deleted in part: {error!r}")
                    return
                for at, records in found.items():
                    if records and at in of:
                        behind = await reader.position(at)
                        self._queue.append((of[at], reader is self._recovery, records, behind))

    async def _end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            try:
                async with self._lock:
                    await self._commit(batch._owned)
            finally:
                self._ended.set()

    async def _commit(self, owned: OwnedPartition) -> None:
        if owned.lost:
            return
        at = f"{owned.at.topic}/{owned.at.partition}"
        try:
            await owned.commit()
        except ProducerFenced:
            owned.lost = True
            logger.warning(
                "%s: another consumer has it, or a batch took more than %.0f s; what was not "
                "committed comes again",
                *(at, self._seconds),
            )
        except KafkaError as error:
            owned.lost = True
            if not error.retriable:
                raise
            logger.warning("%s: %r; what was not committed comes again", at, error)
        else:
            with suppress(IllegalStateError):
                await self._settle(owned)

    async def _look_after(self) -> None:
        """End what cannot go on, and close at the server what is over."""
        log = self._group.log
        self._telling = {each for each in self._telling if not each.done()}
        for id, http in list(self._mine.items()):
            request = log.requests.get(id)
            if request is not None and (request.ended is not None or log.is_over(request)):
                del self._mine[id]
                self._telling.add(asyncio.create_task(self._close(http, request)))
        if (active := log.active()) is None:
            return
        if not active.recovery:
            since = self._asked.setdefault(active.id, time.monotonic())
            if time.monotonic() - since > _ASKED:
                await self._end(active, f"it did not begin within {_ASKED:.0f} s")
            return
        for owned in self._owned.values():
            if owned.lost or owned.switch.phase in (Phase.PRIMARY, Phase.UNREAD):
                continue
            at = f"{owned.at.topic}/{owned.at.partition}"
            begin = await self._lookup.begin_of(owned.at)
            if time.monotonic() > owned.give_up or begin > owned.switch.position:
                await self._end(active, f"{at}: retention takes what is unread; keep it longer")
                return
        if not self._telling:  # the server may be slow, and holds up nothing
            self._telling.add(asyncio.create_task(self._ask(active)))

    async def _ask(self, request: Request) -> None:
        """End a recovery that does not end at the server."""
        server, now = self._mine.get(request.id) or ReplayServer(request.server), time.monotonic()
        try:
            status = await server.status(request.recovery)
            since = self._paused.get(request.id, now)
            self._paused = {request.id: since} if status.paused else {}
            if status.failed:
                await self._end(request, status.failed)
            elif status.paused and now - since > _PAUSED:
                await self._end(request, f"for {_PAUSED:.0f} s it has been {status.paused}")
            elif status.gone and request.id in self._whole:
                await self._end(request, _gone(status.gone))
        except RecoveryUnknown as error:
            await self._end(request, str(error))
        except (RecoveryRefused, ServerAway, KafkaError) as error:
            logger.warning("recovery %s: it is not known how it is: %s", request.id, error)

    async def _close(self, server: ReplayServer, request: Request) -> None:
        with suppress(RecoveryRefused, ServerAway):
            await server.close(request.recovery, request.ended or "the consumers have read it")

    async def _end(self, request: Request, reason: str) -> None:
        """End a recovery early, unless it is over meanwhile, as another one may have closed it."""
        await self._group.read_to_end()
        if self._group.log.outcome(request.id) is not None:
            return
        logger.error("recovery %s is ended: %s", request.id, reason)
        await self._group.say(request.id, "ended", {"reason": reason[:400]})
        await self._group.read_to_end()

    async def _stopped(self, id: str, topics: Sequence[str]) -> dict[str, dict[int, int]]:
        """Where all partitions have stopped."""
        until = time.monotonic() + _ASKED / 2
        while True:
            async with self._lock:
                with suppress(IllegalStateError):
                    await self._tick()
            log = self._group.log
            request = log.requests.get(id)
            if (active := log.active()) is not None and active is not request:
                raise RecoveryRefused(f"recovery {active.id} is under way: another one was faster")
            if request is not None and request.ended is not None:
                raise RecoveryRefused(f"it was ended: {request.ended}")
            positions, missing = dict[str, dict[int, int]](), list[str]()
            for topic in topics:
                for number in sorted(self._primary.partitions_for_topic(topic) or (-1,)):
                    at = None if request is None else log.stopped_at(request, (topic, number))
                    if at is None:
                        missing.append(f"{topic}/{number}")
                    else:
                        positions.setdefault(topic, {})[number] = at
            if not missing:
                return positions
            if time.monotonic() > until:
                raise RecoveryRefused(
                    f"{', '.join(missing[:10])} did not stop within {_ASKED / 2:.0f} s: see that "
                    "their consumers run, are RecoveringConsumers, and their batches end"
                )
            await asyncio.sleep(0.05)

    async def _check_retention(
        self, positions: Mapping[str, Mapping[int, int]], seconds: float
    ) -> None:
        for topic, parts in positions.items():
            kept = await self._lookup.retention(topic)
            for number, position in parts.items():
                at = TopicPartition(topic, number)
                async with self._lock:
                    begin = await self._lookup.begin_of(at)
                    left = await self._lookup.seconds_left(at, position, kept)
                if begin > position or (left is not None and left < seconds):
                    raise RecoveryRefused(
                        f"{topic}/{number} keeps what is unread for {max(left or 0, 0):.0f} s more,"
                        f" and the recovery may take {seconds:.0f} s: raise retention.ms, or read "
                        "the primary first"
                    )


def _gone(gone: Sequence[str]) -> str:
    more = "; …" if len(gone) > 3 else ""
    return (
        f"the log does not have all of it: {'; '.join(gone[:3])}{more}; recover the rest with "
        "accept_loss=True"
    )
