"""Consumers: sessions over all owners of a destination."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from secrets import randbits
from typing import Any, Literal

import aiohttp

from stores.units.client.delivery import DeliveryLost, UnitDelivery
from stores.units.client.link import MemberLink
from stores.units.client.owners import OwnerFollower
from stores.units.errors import SendRefused, UnitError
from stores.units.kafka.records import OutgoingMessage, outgoing
from stores.units.naming import checked_name
from stores.units.wire import packed
from topology.model.ending import end_tasks
from topology.model.printable import printable

logger = logging.getLogger(__name__)

LOOK = 60.0
"""Seconds after which partitions are looked for that were added."""
LONELY = 15.0
"""Seconds after which it is told, again and again, that a member has no owner that answers."""
PREFETCH = 1_000
"""The most messages of a member that a consumer may hold."""

Mode = Literal["auto", "client", "transacted"]
"""Who completes: the loop when it asks for the next message, the application message by message, or
the application by `commit`, together with what it sends."""


class UnitConsumer:
    """Consumes units of a destination; use it as an asynchronous context manager.

    `async for delivery in consumer` gives the messages. There may be more consumers than
    partitions. One session holds `prefetch` messages of a member at most; while it holds one of a
    unit, nobody else gets anything of that unit.

    Args:
        destination: the topic.
        group: the subscriber, whose order and progress are its own.
        kafka: arguments of aiokafka's clients: `bootstrap_servers`, and those of TLS and SASL.
        token: that the unit servers want to see.
        mode: who completes messages.
        prefetch: messages of a member that it holds at a time.
        filter: attribute → the value that a message must have.
        session: its name, unique among the subscriber's consumers; by default a new one. Another
            consumer of the same name has to wait until this one's lease is over.
    """

    def __init__(
        self,
        destination: str,
        group: str,
        kafka: Mapping[str, Any],
        token: str,
        *,
        mode: Mode = "client",
        prefetch: int = 1,
        filter: Mapping[str, str] | None = None,
        session: str | None = None,
    ) -> None:
        if mode not in ("auto", "client", "transacted"):
            raise ValueError(f"mode is {mode!r}: use 'auto', 'client' or 'transacted'")
        if not 1 <= prefetch <= PREFETCH:
            raise ValueError(f"prefetch is {prefetch}: a consumer holds 1 to {PREFETCH} messages")
        self.destination, self.group, self.mode = destination, group, mode
        self.session = session or f"{time.time_ns():x}-{randbits(48):x}"
        self._token = token
        self._hello = {
            "prefetch": prefetch,
            "filter": dict(filter) if filter else None,
            "consumer": f"{randbits(64):x}",  # of this session's name, this consumer alone
        }
        self._follower = OwnerFollower(kafka, destination, group, self._looks_for_owners)
        self._links: dict[int, MemberLink] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._http: aiohttp.ClientSession | None = None
        self._arrived: deque[UnitDelivery] = deque()
        self._more = asyncio.Event()
        self._open: list[UnitDelivery] = []
        """What the application has of a transaction, or, where the loop completes, has last."""
        self._sends: list[dict[str, Any]] = []
        self._ending: asyncio.Task[None] | None = None
        self._failed: BaseException | None = None
        self._closed = False

    # From start to end.

    async def __aenter__(self) -> "UnitConsumer":
        await self.start()
        return self

    async def __aexit__(self, kind: type | None, *_: object) -> None:
        await self.close(complete=self.mode == "auto" and kind is None)

    async def start(self) -> None:
        """Look for the owners, and connect with each."""
        self._http = aiohttp.ClientSession()
        self._tasks = [
            asyncio.create_task(each) for each in (self._follower.follow(), self._link())
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    async def close(self, complete: bool = False) -> None:
        """End the session in order.

        Args:
            complete: whether what the application holds is complete; else it returns, as does what
                it has not seen yet.
        """
        if complete:
            await self._complete_open()
        self._closed = True
        self._more.set()
        if self._ending is not None:
            self._tasks.append(self._ending)
        for link in self._links.values():
            await link.leave(complete=False)
        await end_tasks(*self._tasks)
        if self._http is not None:
            await self._http.close()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error
            self._more.set()

    async def _link(self) -> None:
        told = time.monotonic()
        while True:
            now = time.monotonic()
            if lonely := self._without_owner():
                if now - told > LONELY:
                    told = now
                    logger.warning(
                        "members %s of %s have no owner that answers; start a unit server of %s",
                        lonely, printable(self.destination), printable(self.group),
                    )  # fmt: skip
            else:
                told = now
            for member in self._follower.owners.keys() - self._links.keys():
                assert self._http is not None
                link = self._links[member] = MemberLink(
                    self.destination,
                    self.group,
                    member,
                    self.session,
                    self._hello,
                    self._token,
                    self._follower,
                    self._http,
                    self._take,
                )
                task = asyncio.create_task(link.run())
                task.add_done_callback(self._ended)
                self._tasks.append(task)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._follower.changed()

    def _looks_for_owners(self) -> bool:
        """Whether a member has no owner that answers, or it is time to look for new members."""
        if not self._follower.members or time.monotonic() - self._follower.looked > LOOK:
            return True
        return bool(self._without_owner())

    def _without_owner(self) -> list[int]:
        links = ((member, self._links.get(member)) for member in range(self._follower.members))
        return [member for member, link in links if link is None or not link.healthy]

    def _take(self, delivery: UnitDelivery | None) -> None:
        if delivery is not None:
            self._arrived.append(delivery)
        self._more.set()

    @property
    def positions(self) -> dict[int, int]:
        """Member → the offset below which everything is complete, durably."""
        return {member: link.position for member, link in self._links.items()}

    # Messages.

    def __aiter__(self) -> AsyncIterator[UnitDelivery]:
        return self

    async def __anext__(self) -> UnitDelivery:
        await self._commit_ends()
        if self.mode == "auto":
            await self._complete_open()
        while True:
            if self._closed:
                raise StopAsyncIteration
            if (found := self._next()) is not None:
                if self.mode != "client":
                    self._open.append(found)
                return found
            self._more.clear()
            if self._failed is not None:
                raise UnitError(f"the consumer has failed: {self._failed}") from self._failed
            for link in self._wanted_links():
                await link.want()
            await self._more.wait()

    async def receive(self, timeout: float) -> UnitDelivery | None:
        """The next message, or None if there is none for so long, or the consumer is closed.

        Args:
            timeout: seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    async def run(self, handler: Callable[[UnitDelivery], Awaitable[object]]) -> None:
        """Hand each message to a function: done when it returns, rolled back when it raises.

        It is cancelled when its message is lost.

        Args:
            handler: works on one message.
        """
        if self.mode != "client":
            raise ValueError(f"run completes messages itself, mode {self.mode!r} does too")
        async for delivery in self:
            try:
                async with delivery:
                    await handler(delivery)
            except Exception as error:
                logger.warning(
                    "offset %d of member %d failed: %s: %s",
                    delivery.offset, delivery.member, type(error).__name__, printable(error, 400),
                )  # fmt: skip

    def _next(self) -> UnitDelivery | None:
        """The next that is held still; of a transaction's member, while there is a transaction."""
        member = self._open[0].member if self.mode == "transacted" and self._open else None
        arrived = self._arrived
        while arrived and not arrived[0].held:
            arrived.popleft()
        for at, found in enumerate(arrived):  # the others keep their order
            if found.held and member in (None, found.member):
                del arrived[at]
                return found
        return None

    def _wanted_links(self) -> list[MemberLink]:
        if self.mode == "transacted" and self._open:
            return [self._links[self._open[0].member]]
        return list(self._links.values())

    async def _complete_open(self) -> None:
        done, self._open = self._open, []
        if self.mode == "client":
            unseen = frozenset(map(id, self._arrived))
            held = (each for link in self._links.values() for each in link.held.values())
            done = [each for each in held if id(each) not in unseen]
        for delivery in done:
            if delivery.state == "held":
                with suppress(DeliveryLost):
                    await delivery.done()

    # Transactions.

    def send(
        self,
        topic: str,
        message: OutgoingMessage | bytes | None,
        unit: str | None = None,
        *,
        key: bytes | None = None,
    ) -> None:
        """Send a message when the transaction commits.

        Args:
            topic: one of the outputs that the servers allow.
            message: its content, or a message; None for a record without a value.
            unit: the unit's name; None for an ungrouped message.
            key: the record's key, which decides its partition; a message of a unit has its name.
        """
        self._check_transacted()
        if unit is not None and key is not None:
            raise ValueError(f"unit {unit!r} and a key: a unit's name is the key of its messages")
        found = outgoing(b"" if message is None else message)
        found.headers(unit if unit is None else checked_name(unit))
        self._sends.append(
            {
                "topic": topic,
                "u": unit,
                "v": None if message is None else packed(found.value),
                **({} if key is None else {"k": packed(key)}),
                "a": dict(found.attributes),
                "sort": found.sort,
                "not_before": found.not_before,
                "expires": found.expires,
            }
        )

    async def commit(self) -> None:
        """Complete what was received since the last commit, and send, in one transaction.

        Raises:
            DeliveryLost: nothing of it was done, and what was received comes again.
            SendRefused: nothing of it was done, and nothing is sent; what was received is held.
        """
        self._check_transacted()
        await self._commit_ends()
        deliveries, sends = self._open, self._sends
        self._open, self._sends = [], []
        if deliveries:
            self._ending = asyncio.create_task(self._commit(deliveries, sends))
            await self._commit_ends()
        elif sends:
            raise UnitError("nothing was received: send by a producer's transaction")

    async def _commit(self, deliveries: list[UnitDelivery], sends: list[dict[str, Any]]) -> None:
        link = self._links[deliveries[0].member]
        try:
            await link.commit(deliveries, sends)
        except SendRefused:
            self._open = deliveries
            raise
        except DeliveryLost:
            if held := [each for each in deliveries if each.held]:
                await link.roll_back(held, None, "a message of the same transaction was lost")
            raise

    async def _commit_ends(self) -> None:
        """Wait until a commit is over: it goes on when who waits for it is cancelled."""
        if (task := self._ending) is not None:
            try:
                await asyncio.shield(task)
            finally:
                if task.done():  # else the next call waits, and tells how it ended
                    self._ending = None

    async def roll_back(self, delay: float | None = None, reason: str = "") -> None:
        """Return what was received since the last commit, and send nothing.

        Args:
            delay: seconds until it comes again; None: as the destination says.
            reason: why.
        """
        self._check_transacted()
        with suppress(UnitError):
            await self._commit_ends()
        deliveries, self._open, self._sends = self._open, [], []
        if held := [each for each in deliveries if each.held]:
            await self._links[held[0].member].roll_back(held, delay, reason)

    def _check_transacted(self) -> None:
        if self.mode != "transacted":
            raise ValueError(f"mode is {self.mode!r}: only a transacted consumer commits and sends")
