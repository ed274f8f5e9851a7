"""A consumer's link to one member: it follows the member's owner, and fences itself.

The session works on what it holds only as long as its lease lasts, which each answered beat
extends. A beat counts from when it was sent, so that the owner never thinks the lease over before
the consumer does.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiohttp

from stores.db.steady_clock import elapsed
from stores.units.client.delivery import UnitDelivery
from stores.units.client.held import HeldDeliveries
from stores.units.client.owners import MemberOwner, OwnerFollower
from stores.units.errors import UnitError
from stores.units.wire import (
    DELIVERY_BYTES,
    PATH,
    Frame,
    FrameError,
    bearer,
    decode,
    encode,
)
from topology.model.ending import end_tasks
from topology.model.printable import printable

logger = logging.getLogger(__name__)

ANSWER = 10.0
"""Seconds within which an owner that is connected has to answer."""
AGAIN = 0.1
"""Seconds until an owner is asked again that cannot be reached, or is one no longer."""

_LOST: Frame = {"delay": 0.0, "reason": "", "failed": False}


class MemberLink(HeldDeliveries):
    """The session with one member.

    Args:
        member: partition of the destination.
        session: its name.
        hello: what each connection begins with: prefetch and filter.
        token: that owners want to see.
        arrived: is called with each new delivery, and with None once it is connected.
    """

    def __init__(
        self,
        destination: str,
        group: str,
        member: int,
        session: str,
        hello: Frame,
        token: str,
        owners: OwnerFollower,
        http: aiohttp.ClientSession,
        arrived: Callable[[UnitDelivery | None], None],
    ) -> None:
        super().__init__(destination, group, member, session, arrived)
        self._hello, self._token, self._owners, self._http = hello, token, owners, http
        self._lease = 1.0
        self._wanted = self._closed = False
        self._why = ""
        self.epoch = 0
        self.position = 0
        """The offset below which everything is complete, durably."""

    # The connection.

    @property
    def healthy(self) -> bool:
        """Whether it is connected with an owner that answers beats."""
        left = self._until - elapsed()
        return self._socket is not None and left > 0.4 * self._lease

    async def run(self) -> None:
        """Be connected with the member's owner, whoever that is, until closed."""
        fencing = asyncio.create_task(self._fence())
        try:
            while not self._closed:
                owner = self._owners.owners.get(self.member)
                changed = asyncio.create_task(self._owners.changed())
                try:
                    if owner is not None and owner.epoch >= self.epoch:
                        with suppress(aiohttp.ClientError, OSError, FrameError, TimeoutError):
                            await self._connected(owner, changed)
                    if not changed.done() and not self._closed:
                        await asyncio.wait([changed], timeout=AGAIN)
                finally:
                    changed.cancel()
        finally:
            fencing.cancel()
            self._lose_all()

    async def _connected(self, owner: MemberOwner, changed: "asyncio.Task[None]") -> None:
        """Hold one connection until it breaks, or the member has another owner."""
        try:
            async with asyncio.timeout(ANSWER):
                socket = await self._http.ws_connect(
                    owner.url.rstrip("/") + PATH,
                    headers={"Authorization": bearer(self._token)},
                    max_msg_size=DELIVERY_BYTES,
                    timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
                )
        except aiohttp.WSServerHandshakeError as error:
            if error.status != 401:
                raise
            raise UnitError(
                f"the owner of member {self.member} does not know this token; use the servers'"
            ) from None
        tasks: list[asyncio.Task[Any]] = []
        try:
            if (gone := await self._greet(socket)) is None:
                return
            self._socket, self._wanted = socket, False
            if not self._pending:
                await self._go_on(gone)
            listening = asyncio.create_task(self._listen(socket))
            tasks = [listening, asyncio.create_task(self._beat(socket))]
            while not listening.done():
                await asyncio.wait([listening, changed], return_when=asyncio.FIRST_COMPLETED)
                now = self._owners.owners.get(self.member)
                if now is not None and now.epoch > self.epoch:
                    return
                if changed.done():
                    changed = asyncio.create_task(self._owners.changed())
                    tasks.append(changed)
        finally:
            self._socket = None
            await end_tasks(*tasks)
            await socket.close()

    async def _go_on(self, gone: set[int]) -> None:
        """Ask for more again; a commit of which the owner has not heard is told again."""
        self._arrived(None)
        if self._commit is not None:
            await self._send_commit(gone)

    async def _greet(self, socket: aiohttp.ClientWebSocketResponse) -> set[int] | None:
        """Say hello; returns the offsets that the owner has as complete, None if it refuses."""
        if not self.valid:
            self._lose_all()
        sent = elapsed()
        held = [offset for offset, each in self.held.items() if each.state == "held"]
        told = {"member": self.member, "session": self.session, "held": held}
        await socket.send_bytes(
            encode(
                "hello",
                **self._hello,
                **told,
                completed=list(self._unsettled),
                returned=list(self._returned),
            )
        )
        message = await socket.receive(timeout=ANSWER)
        if message.type is not aiohttp.WSMsgType.BINARY:  # the owner ends just now
            return None
        answer = decode(message.data, DELIVERY_BYTES)
        if answer["t"] != "welcome":
            why = printable(answer.get("why", ""), 400)
            logger.log(logging.INFO if why == self._why else logging.WARNING,
                       "member %d: the owner refused: %s", self.member, why)  # fmt: skip
            self._why = why
            return None
        if int(answer["epoch"]) < self.epoch:
            return None
        self.epoch = int(answer["epoch"])
        self._extend(sent, answer)
        self._pending = bool(answer.get("pending"))
        return set() if self._pending else await self._reconcile(socket, answer)

    async def _reconcile(self, socket: aiohttp.ClientWebSocketResponse, answer: Frame) -> set[int]:
        """What the owner says that the session holds is what it holds."""
        there = {int(each["o"]): each for each in answer["d"]}
        gone = set(answer["gone"])
        done: list[int] = []
        for offset, delivery in list(self.held.items()):
            if offset in there:
                delivery.number = int(there.pop(offset)["n"])
                if delivery.state == "done":
                    done.append(delivery.number)
            elif offset not in gone:
                self._refuse(offset, "another consumer may have it")
        given_up = [each for each in there.values() if "v" not in each]
        for each in there.values():
            if "v" in each:
                self._take(each)
        await self._give_back(socket, given_up)
        if done:
            await socket.send_bytes(encode("done", n=done))
        return gone

    async def _give_back(
        self, socket: aiohttp.ClientWebSocketResponse, given_up: list[Frame]
    ) -> None:
        """Return what it held when it told of it, and rolled back or lost since then."""
        units = set()
        for each in sorted(given_up, key=lambda each: int(each["o"]) not in self._back):
            if each["u"] not in units:  # else it returns with the other
                back = self._back.get(int(each["o"]), _LOST)
                await socket.send_bytes(encode("back", n=[int(each["n"])], **back))
            units.update({each["u"]} - {None})
        self._back.clear()

    def _extend(self, sent: float, answer: Frame) -> None:
        lease = float(answer["lease"])
        self._until = max(self._until, sent + lease)
        self._lease = max(lease, 0.1)

    async def _beat(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        with suppress(ConnectionError, aiohttp.ClientError):
            while True:
                await asyncio.sleep(self._lease / 5)
                await socket.send_bytes(encode("beat", at=elapsed()))

    async def _fence(self) -> None:
        """What is held is lost as soon as the lease is over."""
        while True:
            left = self._until - elapsed()
            if left <= 0 and (self.held or self._unsettled):
                logger.warning("member %d: the lease is over, deliveries are lost", self.member)
                self._lose_all()
            await asyncio.sleep(min(0.1, left) if left > 0 else 0.1)

    # Frames of the owner.

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY:
                return
            frame = decode(message.data, DELIVERY_BYTES)
            match frame["t"]:
                case "deliver":
                    self._wanted = False
                    for each in frame["d"]:
                        self._take(each)
                case "rejoined":
                    self._pending = False
                    await self._go_on(await self._reconcile(socket, frame))
                case "settled":
                    for offset in frame["o"]:
                        self._settle(offset)
                case "beat":
                    # Once it stopped working on what it held, the owner has to hear that first.
                    if not self.valid and float(frame["lease"]) > 0:
                        return
                    self._extend(float(frame["at"]), frame)
                    self.position = int(frame["position"])
                case "returned":
                    for offset in frame["o"]:
                        self._refuse(offset, "the owner took it back")
                case "refused":
                    self._refused(frame)
                case "moved" | "lost":
                    return

    # What the consumer says.

    async def want(self) -> None:
        """Ask for more, once."""
        if not self._wanted and not self._pending and self._socket is not None:
            self._wanted = True
            await self._send("want")

    async def leave(self, complete: bool) -> None:
        """End the session in order: what it holds is completed, or returned."""
        if self._unsettled:  # the next owner could ask nobody
            await asyncio.wait(list(self._unsettled.values()), timeout=self._lease)
        self._closed = True
        if self._socket is not None and not self._pending:
            if complete:
                numbers = [each.number for each in self.held.values() if each.state == "held"]
                await self._send("done", n=numbers)
            await self._send("leave", complete=complete)
