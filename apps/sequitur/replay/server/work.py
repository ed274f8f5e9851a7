"""What the server does by itself: it runs replays, and looks after recoveries."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from aiokafka.errors import KafkaError
from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.replay.errors import Busy, ReplayError, UnknownReplay
from stores.replay.recoveries import Recoveries, Recovery
from stores.replay.recovery_topics import RecoveryTopics
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replaying import Replaying
from stores.replay.replays import SERVER
from stores.replay.republish import Way
from stores.segments import Outbound
from topology.model.ending import end_tasks
from topology.model.printable import printable

logger = logging.getLogger(__name__)
MOST = 8
"""Replays that one server runs at a time; others wait."""
_COUNTS = 4
"""Recoveries that the database counts at a time; others wait."""
_REASON = 400
"""Characters of a reason that is kept."""
_FAULT, _FAULTS, _LONGEST = 15.0, 3, 60.0
_PATIENCE = 2.0
"""Seconds between two looks at a recovery that waits, or could not be looked after."""


class ReplayWork:
    """Runs what is to run, beside any number of other servers.

    Args:
        recoveries: of the log.
        topics: Kafka's.
        outbound: makes the side that publishes, one for each replay.
        ways: name → what it makes of a message.
        holder: who, for whoever asks.
        look: seconds between two looks.
        lease: seconds after which a dead server's replay goes to another.
    """

    def __init__(
        self,
        recoveries: Recoveries,
        topics: RecoveryTopics,
        outbound: Callable[[], Outbound],
        ways: Mapping[str, Way],
        holder: str,
        look: float = 0.25,
        lease: float = 10.0,
    ) -> None:
        self._recoveries, self._topics, self._look = recoveries, topics, look
        self._outbound, self._ways, self._holder = outbound, ways, holder
        self._lease = lease
        self._replays: dict[str, Replaying] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._faults: dict[str, int] = {}
        self._caring: dict[str, asyncio.Task[None]] = {}
        # A count ends when the database is done with it, whoever waits for it.
        self._counts = ThreadPoolExecutor(_COUNTS, "recoveries")
        self._counting: dict[str, Future[None]] = {}
        self._at_once = asyncio.Semaphore(MOST)
        self._not_before: dict[str, float] = {}

    async def run(self, stopped: asyncio.Event) -> None:
        """Work until told to stop; what is away is tried again."""
        caring = asyncio.create_task(self._care())
        try:
            while not stopped.is_set():
                try:
                    self._begin(await asyncio.to_thread(self._recoveries.replays.running))
                except SQLAlchemyError as error:
                    logger.warning("replays: %s", said(error))
                except Exception:
                    logger.exception("replays: a fault of Sequitur's")
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), self._look)
        finally:
            await end_tasks(caring, *self._running.values())
            self._counts.shutdown(wait=False, cancel_futures=True)

    def _begin(self, ids: Mapping[str, bool]) -> None:
        """Begin what has no run: of replays up to MOST, and each recovery, which is waited for."""
        self._running = {id: task for id, task in self._running.items() if not task.done()}
        for gone in {*self._replays} - {*ids, *self._running}:
            del self._replays[gone]
            self._not_before.pop(gone, None)
        many = sum(not ids.get(id, False) for id in self._running)
        for id, recovers in ids.items():
            if not recovers and many >= MOST:
                continue
            if id not in self._running and time.monotonic() >= self._not_before.get(id, 0.0):
                self._running[id] = asyncio.create_task(self._replay(id))
                many += not recovers

    async def _replay(self, id: str) -> None:
        if id not in self._replays:
            self._replays[id] = Replaying(
                *(self._recoveries.replays, id, self._outbound(), self._ways),
                holder=self._holder,
                lease_seconds=self._lease,
            )
        wait = 1.0  # another server has it
        try:
            await self._replays[id].run()
            self._faults.pop(id, None)
        except SQLAlchemyError as error:
            logger.warning("replay %s: %s", id, said(error))
        except Exception as error:
            logger.exception("replay %s: a fault of Sequitur's", id)
            wait = _FAULT
            self._faults[id] = self._faults.get(id, 0) + 1
            if self._faults[id] >= _FAULTS:
                await self._stop(id, error)
        self._not_before[id] = time.monotonic() + wait

    async def _stop(self, id: str, error: Exception) -> None:
        del self._faults[id]
        reason = printable(f"a fault of Sequitur's, {_FAULTS} times: {error!r}", 350)
        act = self._recoveries.replays.act
        with suppress(SQLAlchemyError, ReplayError):
            await asyncio.to_thread(act, id, ReplayAction.STOP, SERVER, reason)

    async def _care(self) -> None:
        try:
            while True:
                try:
                    found = await asyncio.to_thread(self._recoveries.open)
                    self._caring = {
                        id: task for id, task in self._caring.items() if not task.done()
                    }
                    self._counting = {
                        id: count for id, count in self._counting.items() if not count.done()
                    }
                    for recovery, expired in found:
                        if recovery.id not in {*self._caring, *self._counting}:
                            caring = self._try(recovery, expired)
                            self._caring[recovery.id] = asyncio.create_task(caring)
                except SQLAlchemyError as error:
                    logger.warning("recoveries: %s", said(error))
                except Exception:
                    logger.exception("recoveries: a fault of Sequitur's")
                await asyncio.sleep(self._look)
        finally:
            await end_tasks(*self._caring.values())

    async def _try(self, recovery: Recovery, expired: bool) -> None:
        """Look after one; what is wrong with it holds up no other."""
        if time.monotonic() < self._not_before.get(recovery.id, 0.0):
            return
        try:
            async with self._at_once, asyncio.timeout(_LONGEST):
                await self._care_for(recovery, expired)
            return
        except (KafkaError, SQLAlchemyError, TimeoutError, Busy) as error:
            logger.warning("recovery %s is tried again: %s", recovery.id, said(error))
        except Exception:
            logger.exception("recovery %s: a fault of Sequitur's", recovery.id)
        self._not_before[recovery.id] = time.monotonic() + _PATIENCE

    async def _care_for(self, recovery: Recovery, expired: bool) -> None:
        id, recoveries = recovery.id, self._recoveries
        if expired or recovery.closed is not None:
            # Also what is closed: who did it may have been killed before its replay was cancelled.
            reason = recovery.closed or f"its {recovery.keep} s are over"
            await asyncio.to_thread(recoveries.close, id, SERVER, reason[:_REASON])
            await self._topics.delete(recovery)
            await asyncio.to_thread(recoveries.deleted, id)
            return
        with suppress(UnknownReplay):
            replay = await asyncio.to_thread(recoveries.replays.get, id)
            if replay.state is not ReplayState.PREVIEWED:
                return
        waits = await asyncio.to_thread(recoveries.waits_for, recovery)
        lost = await self._topics.uncaptured(waits) if waits else []
        if lost is None:
            self._not_before[id] = time.monotonic() + _PATIENCE
            return
        if (await asyncio.to_thread(recoveries.get, id)).closed is not None:  # meanwhile
            return
        await self._topics.make(recovery)
        try:
            count = self._counts.submit(recoveries.begin, recovery, lost)
            self._counting[id] = count
            await asyncio.wrap_future(count)
        except Busy:
            raise
        except ReplayError as error:
            reason = printable(error, 350)
            logger.warning("recovery %s is closed: %s", id, reason)
            await asyncio.to_thread(recoveries.close, id, SERVER, reason)
