"""What an owner makes durable: what has changed gathers until it is committed."""

import asyncio

from stores.db.steady_clock import elapsed, steady
from stores.units.errors import UnitError
from stores.units.kafka.row_log import OWNER
from stores.units.queue import UnitQueue
from stores.units.server.settings import ServerSettings
from stores.units.server.transactions import Batch, OwnerTransactions

_UNKNOWN = (
    "the owner of the member ended before this was durable; look at the records whether it was done"
)


class Durability:
    """What of a member has changed, and what of that is durable. The base of the owner.

    Args:
        settings: of the server.
        member: partition of the destination.
        transactions: by which it is made durable.
        url: under which consumers reach this server.
    """

    def __init__(
        self, settings: ServerSettings, member: int, transactions: OwnerTransactions, url: str
    ) -> None:
        self.settings, self.member, self.url = settings, member, url
        self._transactions = transactions
        self.queue = UnitQueue(settings.queue)
        self.epoch = 0
        self._proven = 0.0
        self._batch, self._committed = Batch(), -1
        self.durable_position = 0
        """The offset below which everything is complete, durably; parked messages are not."""
        self._committing_commits = False
        self._wake, self._ticking = asyncio.Event(), False
        self._owner_row_at = 0.0
        self._stopping, self._ended = False, asyncio.Event()

    def tick(self) -> None:
        """Hand out what there is, and take what changed; once for all calls of this moment."""
        if not self._ticking and not self._stopping:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        raise NotImplementedError

    @property
    def _longest_lease(self) -> float:
        raise NotImplementedError

    def _take_changes(self, now: float, copy: bool = False) -> None:
        changes = self.queue.take_changes(copy)
        self._batch.add(changes)
        # What a transacted consumer commits is durable before anybody gets what follows.
        # Else what follows goes out at once: who has it tells the next owner, if need be, and that
        # what was before it in the unit is complete follows from that.
        if not self._batch.commits and not self._committing_commits:
            self.queue.settled(changes.number, now)

    def _batch_is_empty(self) -> bool:
        batch = self._batch
        moved = batch.changes is not None and batch.changes.position != self._committed
        return not (batch.rows or batch.departures or batch.sends or batch.confirm or moved)

    async def _commit(self) -> None:
        """Make durable what has changed, or prove that the member is still owned."""
        now = elapsed()
        self._take_changes(steady(), copy=True)
        due = now - self._owner_row_at >= self.settings.heartbeat
        if self._batch_is_empty() and not due:
            return
        batch, self._batch = self._batch, Batch()
        oldest_parked = self.queue.oldest_parked
        if due:
            self._owner_row_at = now
            batch.rows[OWNER,] = {
                "server": self.settings.name,
                "url": self.url,
                "epoch": self.epoch,
                "lease": self._longest_lease,
            }
        self._committing_commits = batch.commits
        try:
            proven = await self._transactions.commit(batch)
        finally:
            self._committing_commits = False
        self._proven = proven
        if batch.changes is not None:
            position = self._committed = batch.changes.position
            self.durable_position = (
                position if oldest_parked is None else min(position, oldest_parked)
            )
            self.queue.settled(batch.changes.number, steady())
        for confirm in batch.confirm:
            confirm()
        self.tick()

    async def made_durable(self) -> None:
        """Wait until what is known now is durable."""
        if self._stopping or self._ended.is_set():
            raise UnitError(_UNKNOWN)
        durable, ended = asyncio.Event(), asyncio.create_task(self._ended.wait())
        self._batch.confirm.append(durable.set)
        self.tick()
        waiting = asyncio.create_task(durable.wait())
        try:
            await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            ended.cancel()
        if not durable.is_set():
            raise UnitError(_UNKNOWN)
