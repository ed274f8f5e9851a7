"""Producers: messages of units, one by one, several at once, or within a transaction."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from secrets import randbits
from typing import Any, Literal
from uuid import uuid4
from weakref import WeakValueDictionary

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from stores.kafka_transactions import wait_for_end
from stores.units.errors import MemberUnavailable, SendRefused, UnitElsewhere
from stores.units.kafka.records import OutgoingMessage, key_of, outgoing, sorted_messages
from stores.units.kafka.routes import Routes
from stores.units.kafka.topics import learn_partition, member_of, prepare
from stores.units.naming import DefaultUnit, administered, checked_name, system_name
from topology.model.ending import wait_for_stop

Sort = str | Callable[[OutgoingMessage], Any] | None


class UnitTransaction:
    """Messages that are sent whole or not at all, of any units of the destination.

    Args:
        producer: who opened it.
        transactional: Kafka's producer, in a transaction.
    """

    def __init__(self, producer: "UnitProducer", transactional: AIOKafkaProducer) -> None:
        self._producer, self._transactional = producer, transactional
        self._sent: list[asyncio.Future[Any]] = []

    async def send(self, message: OutgoingMessage | bytes, unit: str | None) -> None:
        """Send a message, and wait until it has arrived. Nobody sees it before the commit.

        Args:
            message: its content, or a message.
            unit: the unit's name, None for an ungrouped message.
        """
        sent = await self._producer._hand_over(self._transactional, outgoing(message), unit)
        await _arrived(sent, self._producer.destination)

    async def send_together(self, messages: Iterable[OutgoingMessage], unit: str | None) -> None:
        """Send messages in this order, without waiting for each.

        Args:
            messages: what is sent.
            unit: the unit's name, None for ungrouped messages.
        """
        for message in messages:
            self._sent.append(await self._producer._hand_over(self._transactional, message, unit))

    async def _all_arrived(self) -> None:
        """A record that the broker refuses does not keep a transaction from being committed."""
        for ended in await asyncio.gather(*self._sent, return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended


class UnitSender:
    """A unit that a producer sends to. Others may send to it too; order is that of arrival.

    Args:
        producer: who sends.
        name: the unit's name, by which others join it.
    """

    def __init__(self, producer: "UnitProducer", name: str) -> None:
        self._producer, self.name = producer, name
        self._turn = asyncio.Lock()
        self._sending: set[asyncio.Future[Any]] = set()
        self._closed = False

    async def send(self, message: OutgoingMessage | bytes) -> int:
        """Send a message behind all that was sent to the unit before.

        Args:
            message: its content, or a message.

        Returns:
            Its offset.

        Raises:
            UnitError: the unit's member is not reachable, or the producer has left the unit.
        """
        async with self._turn:
            self._check()
            sent = await self._producer._hand_over(None, outgoing(message), self.name)
            self._sending.add(sent)
            sent.add_done_callback(self._sent)  # which keeps this sender until then
        return int((await _arrived(sent, self._producer.destination)).offset)

    async def send_all(
        self, messages: Iterable[OutgoingMessage | bytes], *, sort: Sort = None
    ) -> None:
        """Send several, sorted, whole or not at all.

        Args:
            messages: contents, or messages.
            sort: "time", "priority", a function of a message, or None: as they are.

        Raises:
            UnitError: none of them was sent.
        """
        chosen = sorted_messages([outgoing(each) for each in messages], sort)
        async with self._turn:
            self._check()
            if self._sending:
                await asyncio.wait(self._sending)
            async with self._producer.transaction() as transaction:
                await transaction.send_together(chosen, self.name)

    async def leave(self) -> None:
        """Leave the unit once all that was sent has arrived. It goes on without this producer."""
        async with self._turn:
            self._closed = True
            if self._sending:
                await asyncio.wait(self._sending)
        if (routes := self._producer._routes) is not None:
            routes.leave(self.name)

    def _sent(self, sent: "asyncio.Future[Any]") -> None:
        self._sending.discard(sent)

    def _check(self) -> None:
        if self._closed:
            raise SendRefused(f"this producer has left unit {self.name!r}; call unit() again")


class UnitProducer:
    """Sends messages to a destination; use it as an asynchronous context manager.

    Args:
        destination: the topic.
        kafka: arguments of aiokafka's clients: `bootstrap_servers`, and those of TLS and SASL.
        default: names the unit of what is sent without one; None: as the variable UNITS_DEFAULT
            says, else such messages are ungrouped, and no order holds them together.
        routing: where units live: by hash, or by the path service, which has to be running. All
            producers of a destination agree on it.
        token: that the path service wants to see.
        wait: seconds within which the path service has to answer, and a unit's move to end.
    """

    def __init__(
        self,
        destination: str,
        kafka: Mapping[str, Any],
        *,
        default: DefaultUnit | None = None,
        routing: Literal["hash", "path"] = "hash",
        token: str = "",
        wait: float = 15.0,
    ) -> None:
        if routing == "path" and not token:
            raise ValueError('routing="path" needs the token of the path service')
        self._routing, self._token, self._wait = routing, token, wait
        self._routes: Routes | None = None
        self.destination, self._kafka = destination, dict(kafka)
        self._default = administered(os.environ) if default is None else default
        self._session = system_name(time.time(), randbits(80))
        self._plain: AIOKafkaProducer | None = None
        self._transactional: AIOKafkaProducer | None = None
        self._one_transaction = asyncio.Lock()
        self._members = 0
        self._units: WeakValueDictionary[str, UnitSender] = WeakValueDictionary()
        self.sent: Counter[int] = Counter()
        """Member → messages that were handed over to it."""

    async def __aenter__(self) -> "UnitProducer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Connect. Raises UnitError if there is no such destination, KafkaError."""
        self._members = await prepare(self._kafka, self.destination, self._routing)
        self._plain = AIOKafkaProducer(**self._kafka, enable_idempotence=True)
        await self._plain.start()
        if self._routing == "path":
            uses = self._units.__contains__
            self._routes = Routes(self.destination, self._kafka, self._token, self._wait, uses)
            await self._routes.start()

    async def close(self) -> None:
        """Leave all units, send what is on its way, and disconnect."""
        for unit in list(self._units.values()):
            await unit.leave()
        if self._routes is not None:
            await self._routes.close()
            self._routes = None
        for producer in (self._plain, self._transactional):
            if producer is not None:
                await wait_for_stop(producer.stop())
        self._plain = self._transactional = None

    def unit(self, name: str | None = None) -> UnitSender:
        """The unit of a name; this producer stays in it until it leaves or is closed.

        Args:
            name: by the application; None for a new one that the system makes.
        """
        name = system_name(time.time(), randbits(80)) if name is None else checked_name(name)
        found = self._units.get(name)
        if found is None or found._closed:
            found = self._units[name] = UnitSender(self, name)
        return found

    async def send(
        self,
        message: OutgoingMessage | bytes,
        *,
        unit: str | None = None,
        member: int | None = None,
    ) -> int:
        """Send a message to a unit, to that of the default naming, or to none.

        Args:
            message: its content, or a message.
            unit: the unit's name.
            member: the partition to send straight to, past routing.

        Returns:
            Its offset.

        Raises:
            UnitError: it was not sent: the member is not reachable, or is not the unit's.
        """
        found = outgoing(message)
        name = unit if unit is not None else self._default.name_of(found, self._session)
        if name is None:
            sent = await self._hand_over(None, found, None, member)
            return int((await _arrived(sent, self.destination)).offset)
        if member is not None and member != (home := await self._home(name)):
            raise UnitElsewhere(
                f"unit {name!r} lives on member {home} of {self.destination!r}, not on {member}; "
                "leave the member out"
            )
        return await self.unit(name).send(found)

    async def _enter(self, units: Iterable[str | None]) -> list[UnitSender]:
        """Be in these units as long as somebody has what this returns.

        The path service is asked for all routes together. Raises UnitError if it does not give one.
        """
        senders = [self.unit(name) for name in units if name is not None]
        if self._routes is not None:
            asked = (self._routes.acquire(each.name) for each in senders)
            holds = await asyncio.gather(*asked, return_exceptions=True)
            for hold in holds:
                if not isinstance(hold, BaseException):
                    hold.release()
            for hold in holds:
                if isinstance(hold, BaseException):
                    raise hold
        return senders

    async def _home(self, unit: str) -> int:
        """The member on which a unit lives."""
        if self._routes is None:
            return member_of(unit, self._members)
        hold = await self._routes.acquire(unit)
        hold.release()
        return hold.member

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[UnitTransaction]:
        """A transaction: what is sent in it arrives whole, or, if the block raises, not at all.

        While it is open, nothing behind its messages is delivered on their members. Raises
        UnitError if it could not be committed.
        """
        async with self._one_transaction:
            if self._transactional is None:
                made = AIOKafkaProducer(
                    **{"retry_backoff_ms": 10, **self._kafka},
                    transactional_id=f"units-producer-{uuid4().hex}",
                )
                await made.start()
                self._transactional = made
            producer = self._transactional
            await wait_for_end(producer)
            try:
                async with producer.transaction():
                    transaction = UnitTransaction(self, producer)
                    yield transaction
                    await transaction._all_arrived()
            except (KafkaError, SendRefused) as error:
                self._transactional = None
                await wait_for_stop(producer.stop())
                if isinstance(error, SendRefused):
                    raise
                if isinstance(error, MessageSizeTooLargeError):
                    raise _unreachable(self.destination, error) from error
                raise SendRefused(
                    f"the transaction to {self.destination!r} was not committed, and nothing of it "
                    f"was sent ({type(error).__name__}); send it again"
                ) from error

    async def _hand_over(
        self,
        producer: AIOKafkaProducer | None,
        message: OutgoingMessage,
        unit: str | None,
        member: int | None = None,
    ) -> "asyncio.Future[Any]":
        producer = producer or self._plain
        if producer is None:
            raise SendRefused(f"the producer of {self.destination!r} is closed; start it first")
        hold = None
        if unit is not None and self._routes is not None:
            hold = await self._routes.acquire(unit)
            member = hold.member
        elif unit is not None:
            member = member_of(unit, self._members)
        try:
            if hold is not None:
                await learn_partition(producer, self.destination, hold.member)
            sent: asyncio.Future[Any] = await producer.send(
                self.destination,
                message.value,
                key_of(unit),
                member,
                headers=message.headers(unit, hold.epoch if hold else 0),
            )
        except BaseException as error:
            if hold is not None:
                hold.release()
            if isinstance(error, KafkaError):
                raise _unreachable(self.destination, error) from error
            raise
        if member is not None:
            self.sent[member] += 1
        return sent if hold is None else hold.watch(sent)


async def _arrived(sent: "asyncio.Future[Any]", destination: str) -> Any:
    try:
        return await asyncio.shield(sent)
    except KafkaError as error:
        raise _unreachable(destination, error) from error


def _unreachable(destination: str, error: KafkaError) -> SendRefused:
    if isinstance(error, MessageSizeTooLargeError):
        return SendRefused(f"a message to {destination!r} is too large, and was not sent: {error}")
    return MemberUnavailable(
        f"a message to {destination!r} was not sent ({type(error).__name__}): its member is not "
        "reachable, and no other one may take it without breaking its unit's order; send it again"
    )
