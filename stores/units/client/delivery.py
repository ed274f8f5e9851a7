"""A message in the hands of a consumer."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stores.units.errors import UnitError

if TYPE_CHECKING:
    from stores.units.client.held import HeldDeliveries


class DeliveryLost(UnitError):
    """The consumer holds the message no longer: another consumer may have it."""


class UnitDelivery:
    """A message, which this consumer alone works on until it is done or returned.

    As an asynchronous context manager it is done at the end of the block, rolled back if the block
    raises, and returned without having failed if the block is cancelled. The block is cancelled,
    and DeliveryLost raised, if the message is lost meanwhile.

    Attributes:
        link: the consumer's session with the message's member.
        number: names this delivery; another delivery of the same message has another one.
        value: its content.
        unit: the name of its unit, by which others can join it; None if it is ungrouped.
        attributes: texts by name.
        member: the partition of the destination that it is on.
        offset: its offset there.
        redeliveries: how often it was delivered before and rolled back.
    """

    def __init__(
        self,
        link: "HeldDeliveries",
        number: int,
        offset: int,
        unit: str | None,
        redeliveries: int,
        attributes: Mapping[str, str],
        value: bytes,
    ) -> None:
        self._link, self.number = link, number
        self.member, self.offset, self.unit = link.member, offset, unit
        self.redeliveries, self.attributes, self.value = redeliveries, attributes, value
        self.state = "held"
        self._block: asyncio.Timeout | None = None

    @property
    def destination(self) -> str:
        """The topic that it came from."""
        return self._link.destination

    @property
    def group(self) -> str:
        """The subscriber to which it was delivered."""
        return self._link.group

    @property
    def session(self) -> str:
        """The name of the consumer's session."""
        return self._link.session

    @property
    def held(self) -> bool:
        """Whether the consumer holds it still: by its own clock, without asking anybody."""
        return self.state == "held" and self._link.valid

    def check(self) -> None:
        """Raises DeliveryLost unless it is held."""
        if self.state == "held" and not self._link.valid:
            self.lose()
        if self.state != "held":
            raise DeliveryLost(
                f"the message at offset {self.offset} of member {self.member} is {self.state} and "
                "not held any more; drop what was done with it, it comes again where it has to"
            )

    async def done(self, *, recovered: bool = False, durable: bool = False) -> None:
        """The message is complete; the next of its unit may go to anybody.

        Args:
            recovered: it was complete before, and its completion was not known.
            durable: wait until the completion is durable. Without that, one that the owner of the
                member does not know yet is told to the next owner, should this one fail.

        Raises:
            DeliveryLost: it is not held any more.
        """
        await self._link.complete(self, recovered, durable)

    async def roll_back(self, delay: float | None = None, reason: str = "") -> None:
        """The message failed: all that the consumer holds of its unit returns, from the first.

        Args:
            delay: seconds until it comes again; None: as the destination says.
            reason: why, for who looks at a parked unit.

        Raises:
            DeliveryLost: it is not held any more.
        """
        await self._link.roll_back([self], delay, reason)

    def lose(self) -> None:
        """It is not held any more; a block that works on it ends."""
        if self.state == "held":
            self.state = "lost"
            if self._block is not None:
                self._block.reschedule(asyncio.get_running_loop().time())

    async def __aenter__(self) -> "UnitDelivery":
        self.check()
        self._block = asyncio.timeout(None)
        await self._block.__aenter__()
        return self

    async def __aexit__(
        self, kind: type | None, error: BaseException | None, trace: object
    ) -> None:
        block, self._block = self._block, None
        assert block is not None
        try:
            await block.__aexit__(kind, error, trace)  # type: ignore[arg-type]
        except TimeoutError:
            self.check()
        if error is None:
            if self.state in ("held", "lost"):
                await self.done()
        elif self.held and not isinstance(error, Exception):  # cancelled: nothing has failed
            await self._link.roll_back([self], 0.0, "", failed=False)
        elif self.held:
            await self.roll_back(reason=f"{type(error).__name__}: {error}"[:400])
