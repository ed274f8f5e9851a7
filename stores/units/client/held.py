"""What a consumer's session holds of a member, and what it completed or rolled back."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

import aiohttp

from stores.db.steady_clock import elapsed
from stores.units.client.delivery import DeliveryLost, UnitDelivery
from stores.units.errors import SendRefused
from stores.units.wire import FRAME_BYTES, SENDS, Frame, encode, unpacked
from topology.model.printable import printable

logger = logging.getLogger(__name__)


class HeldDeliveries:
    """The deliveries of a session with one member. The base of its link.

    Args:
        destination: the topic.
        group: the subscriber.
        member: partition of the destination.
        session: its name.
        arrived: is called with each new delivery, and with None once it is connected.
    """

    def __init__(
        self,
        destination: str,
        group: str,
        member: int,
        session: str,
        arrived: Callable[[UnitDelivery | None], None],
    ) -> None:
        self.destination, self.group, self.member = destination, group, member
        self.session, self._arrived = session, arrived
        self.held: dict[int, UnitDelivery] = {}
        """By offset: what is here, whether or not the application has it yet."""
        self._back: dict[int, Frame] = {}
        """Offsets that it rolled back while the owner could not be told."""
        self._returned: set[int] = set()
        """Offsets that it rolled back, while what it completed beyond them is unsettled."""
        self._unsettled: dict[int, asyncio.Future[None]] = {}
        """By offset: completions that the owner has not called durable yet."""
        self._committing: dict[int, asyncio.Future[None]] = {}
        """By offset: what is completed together with messages that are sent."""
        self._commit: tuple[list[UnitDelivery], list[Frame]] | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._until = 0.0
        self._pending = False
        """Whether the owner has not decided yet what this session goes on holding."""

    @property
    def valid(self) -> bool:
        """Whether the lease lasts."""
        return elapsed() < self._until

    # What the owner says.

    def _take(self, each: Frame) -> None:
        if not self.valid:
            return
        offset = int(each["o"])
        self._returned.discard(offset)
        value = unpacked(each.get("v")) or b""
        self.held[offset] = delivery = UnitDelivery(
            self, int(each["n"]), offset, each["u"], int(each["r"]), each["a"], value
        )
        self._arrived(delivery)

    def _settle(self, offset: int) -> None:
        if offset in self._committing and (held := self.held.get(offset)) is not None:
            held.state = "done"
        if (delivery := self.held.get(offset)) is not None and delivery.state == "done":
            del self.held[offset]
        for futures in (self._unsettled, self._committing):
            if (waiting := futures.pop(offset, None)) is not None and not waiting.done():
                waiting.set_result(None)
        if not self._unsettled:
            self._returned.clear()

    def _refused(self, frame: Frame) -> None:
        why = printable(frame.get("why", ""), 400)
        logger.warning("member %d: the owner refused: %s", self.member, why)
        named, held = set(frame.get("n", [])), set(frame.get("held", []))
        for offset, delivery in list(self.held.items()):
            if delivery.number in named - held:
                self._refuse(offset, why)
            elif delivery.number in held and (waiting := self._committing.pop(offset, None)):
                waiting.set_exception(SendRefused(why))
                waiting.exception()

    def _refuse(self, offset: int, why: str) -> None:
        if (delivery := self.held.pop(offset, None)) is not None:
            delivery.lose()
        for futures in (self._unsettled, self._committing):
            if (waiting := futures.pop(offset, None)) is not None and not waiting.done():
                error = DeliveryLost(f"offset {offset} of member {self.member}: {why}")
                waiting.set_exception(error)
                waiting.exception()  # nobody has to wait for it

    def _lose_all(self) -> None:
        for delivery in self.held.values():
            delivery.lose()
        self.held.clear()
        self._returned.clear()
        for offset in [*self._unsettled, *self._committing]:
            self._refuse(offset, "the lease was over before its completion was durable")

    # What the consumer says.

    async def complete(self, delivery: UnitDelivery, recovered: bool, durable: bool) -> None:
        """See `UnitDelivery.done`. What is being committed is complete when that is."""
        delivery.check()
        if (committing := self._committing.get(delivery.offset)) is not None:
            if durable:
                await asyncio.shield(committing)
            return
        delivery.state = "done"
        waiting = self._unsettled[delivery.offset] = asyncio.get_running_loop().create_future()
        await self._send("done", n=[delivery.number], recovered=recovered)
        if durable:
            await waiting

    async def roll_back(
        self,
        deliveries: Iterable[UnitDelivery],
        delay: float | None,
        reason: str,
        failed: bool = True,
    ) -> None:
        """See `UnitDelivery.roll_back`.

        What is being committed goes on: how it ends is told by the commit.
        """
        chosen = [each for each in deliveries if each.offset not in self._committing]
        for delivery in chosen:
            delivery.check()
        if not chosen:
            return
        for delivery in chosen:
            delivery.state = "rolled back"
            self.held.pop(delivery.offset, None)
            back = {delivery.offset}
            for each in [*self.held.values()] if delivery.unit is not None else ():
                mine = each.unit == delivery.unit and each.offset not in self._committing
                if mine and each.state == "held":
                    each.state = "rolled back"
                    del self.held[each.offset]
                    back.add(each.offset)
            if any(self.held[each].unit == delivery.unit for each in self._unsettled_here()):
                self._returned |= back
        numbers = [each.number for each in chosen]
        why = printable(reason, 400)
        told: Frame = {"delay": delay, "reason": why, "failed": failed}
        if self._socket is None or self._pending:
            self._back.update((each.offset, told) for each in chosen)
        await self._send("back", n=numbers, **told)

    def _unsettled_here(self) -> set[int]:
        return self._unsettled.keys() & self.held.keys()

    async def commit(self, deliveries: list[UnitDelivery], sends: list[Frame]) -> None:
        """Complete deliveries and send messages, all in one transaction; returns once durable."""
        for delivery in deliveries:
            delivery.check()
        self.check_sends(sends)
        loop = asyncio.get_running_loop()
        self._committing = {each.offset: loop.create_future() for each in deliveries}
        self._commit = deliveries, sends
        try:
            await self._send_commit(set())
            await asyncio.gather(*self._committing.values())
        finally:
            self._commit, self._committing = None, {}

    async def _send_commit(self, gone: set[int]) -> None:
        assert self._commit is not None
        deliveries, sends = self._commit
        left = [each for each in deliveries if each.offset not in gone]
        if left and all(each.state == "held" for each in left):
            await self._send("commit", n=[each.number for each in left], sends=sends)

    def check_sends(self, sends: list[Frame]) -> None:
        """Raises SendRefused for what does not fit into one frame."""
        if len(sends) > SENDS or len(encode("commit", sends=sends)) > FRAME_BYTES - 200_000:
            raise SendRefused(
                f"a commit sends at most {SENDS} messages, and {FRAME_BYTES >> 20} MB in base64; "
                "commit more often"
            )

    async def _send(self, kind: str, **fields: object) -> None:
        """A frame to the owner; without a connection the next one's `hello` tells all."""
        if self._socket is not None and not self._pending:
            with suppress(ConnectionError, aiohttp.ClientError, RuntimeError):
                await self._socket.send_bytes(encode(kind, **fields))
