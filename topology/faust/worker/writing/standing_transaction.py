"""A transaction that has begun before there is anything to write: nobody waits for its beginning.

Before records of a transaction are sent, its coordinator has to write down to which partitions and
which group they go, and it refuses to while it still ends the transaction before. So where units
follow each other closely, the next transaction begins as the last one ends, with the partitions
that the last one had. One that is not taken soon is aborted, empty as it is.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from topology.model.ending import end_tasks

CLOSELY = 0.25
"""Seconds between two units that follow each other closely."""
KEPT = 1.0
"""Seconds that a transaction stands without a unit, far less than the broker lets it stand."""


class StandingTransaction:
    """The transactions of a producer, one after the other, begun ahead where that pays.

    What fails meanwhile is raised by the next `begin`. A process that stands still for as long as a
    transaction may last (60 s) with one that has begun ahead is fenced: its partition starts again.
    """

    def __init__(self, producer: AIOKafkaProducer, group: str) -> None:
        self._producer = producer
        self._group = group
        self._last = 0.0
        """When the last one ended."""
        self._standing: asyncio.Task[None] | None = None
        """Begins the transaction that stands, if one does."""
        self._joining: asyncio.Task[None] | None = None
        """Has the group in the one that is under way."""
        self._kept: asyncio.TimerHandle | None = None
        self._aborting: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin a transaction, or take the one that stands. Raises KafkaError."""
        if self._kept is not None:
            self._kept.cancel()
        if self._aborting is not None:
            aborting, self._aborting = self._aborting, None
            await aborting
        if self._standing is None:
            await self._producer.begin_transaction()
            self._joining = asyncio.create_task(self._join())
        else:
            standing, self._standing = self._standing, None
            await standing
            self._check()

    async def join(self) -> None:
        """Wait until the group is in the transaction; its partitions come into it meanwhile."""
        if self._joining is not None:
            joining, self._joining = self._joining, None
            await joining

    async def commit(self, *, ahead: bool = True) -> None:
        """Commit, and begin the next one if this one followed the last one closely.

        ahead: whether there may be a next one before it is needed.
        """
        loop, partitions = asyncio.get_running_loop(), set(self._transactions.txn_partitions)
        await self._producer.commit_transaction()
        last, self._last = self._last, loop.time()
        if ahead and partitions and self._last - last < CLOSELY:
            self._transactions.begin_transaction()
            self._standing = asyncio.create_task(self._stand(partitions))
            self._kept = loop.call_later(KEPT, self._give_up)

    async def stop(self) -> None:
        """Let go of what stands: whoever starts a writer with the same id aborts it."""
        if self._kept is not None:
            self._kept.cancel()
        await end_tasks(*filter(None, (self._standing, self._joining, self._aborting)))

    @property
    def _transactions(self) -> Any:
        return self._producer._txn_manager

    def _check(self) -> None:
        if (failed := self._transactions.wait_for_transaction_end()).done():
            failed.result()

    async def _stand(self, partitions: Iterable[TopicPartition]) -> None:
        # One after the other: until the last transaction has quite ended, each would be refused.
        await self._join()
        for partition in partitions:
            self._transactions.maybe_add_partition_to_txn(partition)

    async def _join(self) -> None:
        while not await self._producer._sender._do_add_offsets_to_txn(self._group):
            pass  # it has waited as long as it should before it asks again
        self._check()

    def _give_up(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None:
            self._aborting = asyncio.create_task(self._abort(standing))

    async def _abort(self, standing: "asyncio.Task[None]") -> None:
        await standing
        await self._producer.abort_transaction()
