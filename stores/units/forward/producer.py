"""Producers whose messages wait on their own disk until an agent forwards them."""

import asyncio
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import randbits

from stores.units.errors import SendRefused
from stores.units.forward.store import UnitStore
from stores.units.kafka.producer import Sort
from stores.units.kafka.records import OutgoingMessage, outgoing, sorted_messages
from stores.units.naming import DefaultUnit, administered, checked_name, system_name

SIZE = 256 << 20
"""Bytes of a store, unless its producers are told otherwise."""


class StoredUnit:
    """A unit that a producer sends to by its store, until it leaves or the producer is closed.

    Args:
        producer: who sends.
        name: the unit's name, by which others join it.
    """

    def __init__(self, producer: "StoredProducer", name: str) -> None:
        self._producer, self.name, self._left = producer, name, False

    async def send(self, message: OutgoingMessage | bytes) -> None:
        """Send a message behind all that was sent to the unit by this store before.

        Args:
            message: its content, or a message.

        Raises:
            SendRefused: the store is full, or the producer has left the unit.
        """
        await self.send_all([message])

    async def send_all(
        self, messages: Iterable[OutgoingMessage | bytes], *, sort: Sort = None
    ) -> None:
        """Send several, sorted, whole or not at all: to the store, and from there to Kafka.

        Args:
            messages: contents, or messages; at most 1,000, and 16 MB.
            sort: "time", "priority", a function of a message, or None: as they are.

        Raises:
            SendRefused: none of them is sent: the store is full, or the producer has left the unit.
        """
        if self._left:
            raise SendRefused(f"this producer has left unit {self.name!r}; call unit() again")
        chosen = sorted_messages([outgoing(each) for each in messages], sort)
        await self._producer._append([(each, self.name) for each in chosen])

    async def leave(self) -> None:
        """Leave the unit. It goes on without this producer."""
        self._left = True


class StoredProducer:
    """Sends to a destination by a file on its disk; use it as an asynchronous context manager.

    What it sends is on disk when `send` returns; Kafka need not be reachable. An agent
    (`sequitur units forward`) forwards it, in order.

    Args:
        destination: the topic.
        store: the file, that several processes of this machine may share.
        default: names the unit of what is sent without one; None: as the variable UNITS_DEFAULT
            says, else such messages are ungrouped.
        size: bytes that the file may have; what goes beyond is refused.
    """

    def __init__(
        self,
        destination: str,
        store: str | Path,
        *,
        default: DefaultUnit | None = None,
        size: int = SIZE,
    ) -> None:
        self.destination = destination
        self._path, self._size = store, size
        self._default = administered(os.environ) if default is None else default
        self._session = system_name(time.time(), randbits(80))
        self._store: UnitStore | None = None

    async def __aenter__(self) -> "StoredProducer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Open the store, or make it."""
        self._store = await asyncio.to_thread(UnitStore, self._path, self.destination, self._size)
        # One thread: messages are appended in the order in which they were sent.
        self._thread = ThreadPoolExecutor(1, "unit-store")

    async def close(self) -> None:
        """Leave all units, and close the store; what waits in it is forwarded all the same."""
        store, self._store = self._store, None
        if store is not None:
            await asyncio.to_thread(self._thread.shutdown)
            store.close()

    def unit(self, name: str | None = None) -> StoredUnit:
        """The unit of a name; this producer stays in it until it leaves or is closed.

        Args:
            name: by the application; None for a new one that the system makes.
        """
        chosen = system_name(time.time(), randbits(80)) if name is None else checked_name(name)
        return StoredUnit(self, chosen)

    async def send(self, message: OutgoingMessage | bytes, *, unit: str | None = None) -> None:
        """Send a message to a unit, to that of the default naming, or to none.

        Args:
            message: its content, or a message.
            unit: the unit's name.

        Raises:
            SendRefused: the store is full.
        """
        found = outgoing(message)
        name = self._default.name_of(found, self._session) if unit is None else checked_name(unit)
        await self._append([(found, name)])

    async def _append(self, messages: list[tuple[OutgoingMessage, str | None]]) -> None:
        if self._store is None:
            raise SendRefused(f"the producer of {self.destination!r} is closed; start it first")
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._store.append, messages)
