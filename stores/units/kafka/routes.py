"""A producer's routes by the path service: asked for, held under a lease, given back."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from aiokafka.errors import KafkaError

from stores.db.steady_clock import elapsed
from stores.units.errors import MemberUnavailable, RouteMoving, SendRefused, UnitError
from stores.units.kafka.path_service import PathService
from topology.model.ending import end_tasks
from topology.model.printable import printable

logger = logging.getLogger(__name__)

BEAT = 0.2
"""Of the lease, after which it is renewed."""
AGAIN = 0.2
"""Seconds until the service is asked again, where it did not answer or the unit moves."""
ASKED = 500
"""Units that one question names."""


class Hold:
    """A route that a producer has. What is sent by it counts if Kafka's answer comes in time.

    Attributes:
        member: the partition.
        epoch: of the route.
        until: time by `elapsed` at which the lease ends.
        dropped: whether nothing more is sent by it.
        sending: messages that are on their way.
    """

    def __init__(self, unit: str, member: int, epoch: int, until: float) -> None:
        self.unit, self.member, self.epoch, self.until = unit, member, epoch, until
        self.dropped = False
        self.sending = 0
        self.wake: Callable[[], object] = lambda: None

    def usable(self, now: float) -> bool:
        """Whether something may be sent by it."""
        if now >= self.until:
            self.dropped = True
        return not self.dropped

    def release(self) -> None:
        """What was sent by it has an answer, or was not sent."""
        self.sending -= 1
        if self.dropped and not self.sending:
            self.wake()

    def watch(self, sent: "asyncio.Future[Any]") -> "asyncio.Future[Any]":
        """What becomes of a message that is on its way.

        An answer that came after the lease does not count: the unit may have moved before the
        message was there, and then it is refused where it is.
        """
        watched: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def ended(sent: "asyncio.Future[Any]") -> None:
            late = elapsed() >= self.until
            self.release()
            if watched.done():
                return
            if sent.cancelled():
                watched.cancel()
            elif (error := sent.exception()) is not None:
                watched.set_exception(error)
            elif late:
                watched.set_exception(
                    SendRefused(
                        f"a message of unit {printable(self.unit)} arrived after this producer's"
                        " lease on its route: it is refused there if the unit has moved, and"
                        " delivered if not; send it again"
                    )
                )
            else:
                watched.set_result(sent.result())

        sent.add_done_callback(ended)
        return watched


class Routes:
    """The routes of one producer.

    Args:
        destination: the topic.
        kafka: arguments of aiokafka's clients.
        token: that the path service wants to see.
        wait: seconds within which it has to answer.
        uses: whether the producer is in a unit; the route of another one is given back.
    """

    def __init__(
        self,
        destination: str,
        kafka: Mapping[str, Any],
        token: str,
        wait: float,
        uses: Callable[[str], bool],
    ) -> None:
        self._destination, self._wait, self._uses = destination, wait, uses
        self._service = PathService(destination, kafka, token)
        self._session = uuid4().hex
        self._number, self._pause, self._why = 0, 1.0, "it has not answered yet"
        self._holds: dict[str, Hold] = {}
        self._wanted: dict[str, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()

    async def start(self) -> None:
        """Begin to ask."""
        self._keeping = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Give all routes back, as far as the service can be reached."""
        await end_tasks(self._keeping)
        try:
            if self._holds:
                async with asyncio.timeout(2):
                    await self._ask([], [], close=True)
        except (UnitError, KafkaError, OSError, TimeoutError):
            logger.info("paths of %s: not told; the leases end by themselves", self._destination)
        finally:
            await self._service.close()

    async def acquire(self, unit: str) -> Hold:
        """The route of a unit, for one message: `watch` or `release` it.

        Raises:
            MemberUnavailable: the service, or the unit's member, cannot be reached.
            RouteMoving: the unit moves, for longer than this waits.
        """
        end = elapsed() + self._wait
        while True:
            now, hold = elapsed(), self._holds.get(unit)
            if hold is not None and hold.usable(now):
                hold.sending += 1
                return hold
            if self._keeping.done():
                raise SendRefused(f"the producer of {self._destination!r} is closed; start it")
            answer = self._wanted.get(unit)
            if answer is None:
                answer = self._wanted[unit] = asyncio.get_running_loop().create_future()
                answer.add_done_callback(lambda each: each.cancelled() or each.exception())
            self._wake.set()
            try:
                async with asyncio.timeout(max(0.0, end - now)):
                    await asyncio.shield(answer)
            except TimeoutError:
                if self._wanted.get(unit) is answer:  # who waits for longer asks anew
                    self._answered(unit, None)
                raise MemberUnavailable(
                    f"the path service of {self._destination!r} gives no route for unit"
                    f" {printable(unit)} ({self._why}): sending without one would break its order;"
                    " start `sequitur units paths`, and send again"
                ) from None
            except RouteMoving:
                if now + AGAIN >= end:
                    raise
                await asyncio.sleep(AGAIN)

    def leave(self, unit: str) -> None:
        """The producer leaves a unit: its route is given back."""
        if (hold := self._holds.get(unit)) is not None:
            hold.dropped = True
            self._wake.set()

    async def _keep(self) -> None:
        """Renew the lease, ask for routes, give routes back; until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            if not self._holds and not self._wanted:
                continue
            try:
                await self._renew()
            except Exception as error:  # what answers may be no path service
                known = isinstance(error, (UnitError, KafkaError, OSError)) and str(error)
                self._why = printable(error if known else repr(error), 200)
                await asyncio.sleep(AGAIN if self._wanted else min(1.0, self._pause))
                self._wake.set()

    async def _renew(self) -> None:
        leave = []
        for unit, hold in self._holds.items():
            if not hold.sending and (hold.dropped or not self._uses(unit)):
                hold.dropped = True
                leave.append(unit)
        leave = leave[:ASKED]
        left = frozenset(leave)
        ask = [unit for unit in self._wanted if unit not in self._holds or unit in left][:ASKED]
        asked_at = elapsed()
        answer = await self._ask(leave, ask)
        now, lease, drop = elapsed(), float(answer["lease"]), frozenset(answer["drop"])
        self._pause = lease * BEAT
        for unit in leave:
            del self._holds[unit]
        for unit, hold in self._holds.items():
            # One that has to be dropped keeps the end it had: the service counts from then.
            if unit in drop or not answer["held"]:
                hold.dropped = True
            if hold.usable(now):
                hold.until = asked_at + lease
        for unit, (member, epoch) in answer["routes"].items():
            hold = self._holds[unit] = Hold(unit, int(member), int(epoch), asked_at + lease)
            hold.wake = self._wake.set
            self._answered(unit, None)
        for unit, (moving, why) in answer["refused"].items():
            self._answered(unit, RouteMoving(why) if moving else MemberUnavailable(why))
        if any(hold.dropped and not hold.sending for hold in self._holds.values()) or (
            self._wanted.keys() - self._holds.keys()
        ):
            self._wake.set()

    def _answered(self, unit: str, error: SendRefused | None) -> None:
        answer = self._wanted.pop(unit, None)
        if answer is not None and not answer.done():
            answer.set_exception(error) if error else answer.set_result(None)

    async def _ask(self, leave: list[str], ask: list[str], close: bool = False) -> dict[str, Any]:
        """Ask the leader. Raises UnitError, KafkaError."""
        self._number += 1
        body = {"producer": self._session, "number": self._number, "leave": leave, "ask": ask,
                "close": close}  # fmt: skip
        return await self._service.ask("POST", body=body)
