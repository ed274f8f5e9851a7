"""The agent that forwards what waits in a store, in order, each message once.

Each transaction carries messages together with their place in the store, as a row of the
destination. An agent begins by fencing the one before; then it reads that row, and deletes from the
store what is forwarded already. So an agent may be killed anywhere, and so may the broker.
"""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.message import Message
from stores.units.errors import UnitError
from stores.units.forward.store import UnitStore
from stores.units.kafka.producer import UnitProducer, UnitSender
from stores.units.kafka.records import OutgoingMessage, key_of, read_headers
from stores.units.kafka.row_log import RowKey, restore_rows, row_key
from stores.units.kafka.topics import ROW_BYTES, dead_topic, rows_topic
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

MANY = 250
"""Messages of a transaction."""
MANY_BYTES = 2 << 20
"""Bytes of them: over a slow line, too, it ends before Kafka aborts it for its age."""
ENTERED = 1_000
"""Units whose routes it keeps while there is something to forward."""
LOOK = 0.1
"""Seconds until an empty store is looked at again."""
AGAIN = 1.0
"""Seconds until it is tried again where Kafka cannot be reached."""
GRACE = 5.0
"""Seconds in which a transaction that is under way may end once it is told to stop."""
TOLD = 10.0
"""Seconds between two lines that say how far it is."""
_NOBODY = ("", 0)
"""Subscriber and member of the row: no subscriber's, of the first partition."""


class StoreOutdated(UnitError):
    """The store is older than what was forwarded from it: an old copy was put in its place."""


class ForwardingAgent:
    """Forwards what waits in one store to its destination.

    Args:
        destination: the topic.
        store: the file.
        kafka: arguments of aiokafka's clients: `bootstrap_servers`, and those of TLS and SASL.
        routing: where units live: by hash, or by the path service; see `UnitProducer`.
        token: that the path service wants to see.
    """

    def __init__(
        self,
        destination: str,
        store: str | Path,
        kafka: Mapping[str, Any],
        *,
        routing: Literal["hash", "path"] = "hash",
        token: str = "",
    ) -> None:
        self.destination, self._path, self._kafka = destination, store, dict(kafka)
        self._routing: Literal["hash", "path"] = routing
        self._token = token
        self._refused: Counter[int] = Counter()
        """By sequence: how often a message was too large, for the topic, then for the dead one."""
        self._entered: dict[str, UnitSender] = {}
        """Units of what was sent last: their routes are kept."""
        self.counts: Counter[str] = Counter()
        """forwarded, and refused: how many since it began."""
        self._told, self._told_at = 0, 0.0

    async def run(self, stopped: asyncio.Event) -> None:
        """Forward until it is told to stop; a broker that is away is waited for.

        Args:
            stopped: tells it to stop.

        Raises:
            UnitError: another agent forwards this store, or the store is an old copy.
        """
        store = await asyncio.to_thread(UnitStore, self._path, self.destination)
        try:
            with store.forwarding():
                while not stopped.is_set():
                    try:
                        await self._until(stopped, self._forward(store, stopped))
                    except StoreOutdated:
                        raise
                    except (KafkaError, UnitError, OSError, SQLAlchemyError) as error:
                        logger.warning(
                            "%s cannot be forwarded now: %s; %s",
                            self._path, printable(said(error), 400), await self._waiting(store),
                        )  # fmt: skip
                        await _pause(stopped, AGAIN)
        finally:
            store.close()

    async def _until(self, stopped: asyncio.Event, forwarding: Coroutine[Any, Any, None]) -> None:
        """Once told to stop, it may end what is in hand, but not wait for a broker that is away."""
        task, told = asyncio.create_task(forwarding), asyncio.create_task(stopped.wait())
        try:
            await asyncio.wait([task, told], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait([task], timeout=GRACE)
        finally:
            await end_tasks(task, told)
        if not task.cancelled():
            task.result()

    async def _forward(self, store: UnitStore, stopped: asyncio.Event) -> None:
        """Forward until told to stop. Raises KafkaError, UnitError: begin anew."""
        routes = UnitProducer(
            self.destination, self._kafka, routing=self._routing, token=self._token
        )
        sender = AIOKafkaProducer(
            **{"retry_backoff_ms": 10, **self._kafka},
            transactional_id=f"units-forward/{self.destination}/{store.name}",
            max_request_size=ROW_BYTES,
        )
        self._entered.clear()
        try:
            await routes.start()
            await sender.start()  # which fences the agent before, and ends its transaction
            subject: RowKey = ("forwarded", store.name)
            await self._settle(store, subject)
            while not stopped.is_set():
                if found := await asyncio.to_thread(store.read, MANY, MANY_BYTES):
                    await self._send(routes, sender, subject, found)
                    await asyncio.to_thread(store.forget, found)
                    for each in found:
                        self._refused.pop(each.sequence, None)
                if not found or time.monotonic() - self._told_at > TOLD:
                    await self._tell(store)
                if not found:
                    self._entered.clear()
                    await _pause(stopped, LOOK)
        finally:
            # Side by side: who waits for the one may be cancelled before it begins with the other.
            await asyncio.gather(wait_for_stop(sender.stop()), wait_for_stop(routes.close()))

    async def _settle(self, store: UnitStore, subject: RowKey) -> None:
        """Delete what was forwarded, of which the store does not know yet. Raises StoreOutdated."""
        rows = await restore_rows(self._kafka, self.destination, *_NOBODY, 0)
        if not isinstance(row := rows.get(subject), dict):
            return
        sequence, at = int(row["sequence"]), float(row["at"])
        known = (await asyncio.to_thread(store.backlog)).forwarded
        if sequence <= known:
            return
        waiting = await asyncio.to_thread(store.read, sequence - known)
        done = [each for each in waiting if each.sequence <= sequence]
        if not done or done[-1].sequence != sequence or done[-1].captured_at != at:
            raise StoreOutdated(
                f"{self._path} is an old copy: message {sequence} of it was forwarded, and is "
                "another one here, or none. What is appended to it would be taken for forwarded. "
                "Move the file away, and send what only it has from a new one"
            )
        await asyncio.to_thread(store.forget, done)

    async def _send(
        self,
        routes: UnitProducer,
        sender: AIOKafkaProducer,
        subject: RowKey,
        messages: Sequence[Message],
    ) -> None:
        """Send messages and their place, in one transaction. Raises KafkaError, UnitError."""
        sent: list[asyncio.Future[Any]] = []
        refused = 0
        named = [each.headers["unit"] for each in messages if "unit" in each.headers]
        units = {read_headers([("unit", each.encode())]).unit for each in named}
        for unit in await routes._enter(units):
            self._entered.pop(unit.name, None)
            self._entered[unit.name] = unit
        for name in list(self._entered)[:-ENTERED]:
            del self._entered[name]
        await sender.begin_transaction()
        try:
            for each in messages:
                if each.damage is not None or self._refused[each.sequence]:
                    sent.append(await self._give_up(sender, each))
                    refused += 1
                    continue
                found = read_headers((name, text.encode()) for name, text in each.headers.items())
                message = OutgoingMessage(
                    each.content, found.sort, found.not_before, found.expires, found.attributes
                )
                sent.append(await routes._hand_over(sender, message, found.unit))
            place = {"sequence": messages[-1].sequence, "at": messages[-1].captured_at}
            key, rows = row_key(*_NOBODY, subject), rows_topic(self.destination)
            sent.append(await sender.send(rows, orjson.dumps(place), key, 0))
        finally:
            ended = asyncio.gather(*sent, return_exceptions=True)  # all are looked at
        # A record that the broker refuses does not keep a transaction from being committed.
        for at, error in enumerate(await ended):
            if isinstance(error, BaseException):
                self._note_refused(messages[at:], sent[at:])
                raise error
        await sender.commit_transaction()
        self.counts.update(forwarded=len(messages) - refused, refused=refused)

    def _note_refused(
        self, messages: Sequence[Message], sent: Sequence["asyncio.Future[Any]"]
    ) -> None:
        """Give up, next time, the largest of the messages that are refused for their size.

        One batch of records is refused whole, for the sake of that one.
        """
        large = [
            each
            for each, future in zip(messages, sent, strict=False)
            if not future.cancelled()
            and isinstance(future.exception(), MessageSizeTooLargeError)
            and self._refused[each.sequence] < 2
        ]
        if large:
            self._refused[max(large, key=lambda each: len(each.content)).sequence] += 1

    async def _give_up(self, sender: AIOKafkaProducer, message: Message) -> "asyncio.Future[Any]":
        """Send to the dead topic what the destination does not take; or that it is in a file."""
        reason = message.damage or "the destination does not take messages of its size"
        content = message.content
        if self._refused[message.sequence] > 1:
            kept = await asyncio.to_thread(self._keep, message)
            content, reason = b"", f"{reason}, nor does this topic: its content is in {kept}"
        unit = message.headers.get("unit")
        logger.error(
            "message %d of %s goes to %s: %s; what follows it in unit %s goes on",
            message.sequence, self._path, dead_topic(self.destination), reason, printable(unit),
        )  # fmt: skip
        headers = [(name, text.encode()) for name, text in message.headers.items()]
        headers += [("unit-outcome", b"refused"), ("unit-reason", reason.encode())]
        sent: asyncio.Future[Any] = await sender.send(
            dead_topic(self.destination), content, key_of(unit), headers=headers
        )
        return sent

    def _keep(self, message: Message) -> Path:
        """Keep a message's content beside the store, on disk when it returns; where."""
        store = Path(self._path).absolute()
        place = store.with_name(f"{store.name}.{self.destination}.{message.sequence}")
        with open(place, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(message.content)
            file.flush()
            os.fsync(file.fileno())
        return place

    async def _tell(self, store: UnitStore) -> None:
        """Say how far it is, where that has changed."""
        if self.counts.total() != self._told and time.monotonic() - self._told_at > TOLD:
            self._told, self._told_at = self.counts.total(), time.monotonic()
            logger.info("%s: %s; %s", self._path, dict(self.counts), await self._waiting(store))

    async def _waiting(self, store: UnitStore) -> str:
        try:
            backlog = await asyncio.to_thread(store.backlog)
        except SQLAlchemyError:  # which is told of where it stands in the way
            return "how much waits cannot be read"
        if backlog.since is None:
            return "nothing waits"
        return f"{backlog.messages} wait, the oldest for {time.time() - backlog.since:.0f} s"


async def _pause(stopped: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopped.wait()
