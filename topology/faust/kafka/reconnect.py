"""Connect to a broker that is away ever more rarely, whichever client of the worker asks.

aiokafka's clients connect whenever they want to send something, and each of a worker's consumers,
producers and admin clients wants to all the time. Here they share what is known of an address:
while it does not answer, one of them tries it now and then, and the others are told so.
"""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import client
from aiokafka.errors import KafkaConnectionError, KafkaError

FIRST, LONGEST = 0.05, 2.0
"""Seconds before an address is tried again: at first, and at most; they double."""
PATIENCE = 0.2
"""Seconds that a client waits for its turn, before it is told that there is no connection.

It holds others of its client up, which may be on their way to another broker.
"""
LOOK = 0.05
"""Seconds between two looks at whether the address answers again."""


class Address:
    """What is known of a host and port, for clients of all threads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failures = 0
        self._next = 0.0
        self._lock = threading.Lock()

    def turn(self, now: float) -> bool:
        """Whether the caller may connect now; where the address is away, only one may at a time."""
        with self._lock:
            if self.failures:
                if now < self._next:
                    return False
                self.failures += 1
                self._next = now + self._delay()
            return True

    def answered(self) -> None:
        """Somebody is connected."""
        with self._lock:
            self.failures = 0

    def failed(self, now: float) -> None:
        """Nobody answered, or not as a broker does."""
        with self._lock:
            # Those that were on their way when the first one failed tell nothing new.
            self.failures = max(self.failures, 1)
            self._next = max(self._next, now + self._delay())

    def _delay(self) -> float:
        """Not the same for all workers, or they would all come back in the same moment."""
        longest = min(FIRST * 2.0 ** min(self.failures, 16), LONGEST)
        return longest * random.uniform(0.5, 1.0)


_addresses: dict[tuple[str, int], Address] = {}
_create: Callable[..., Awaitable[Any]] = client.create_conn


async def connect(host: str, port: int, **how: Any) -> Any:
    """Call aiokafka's `create_conn` in turn. Raises KafkaConnectionError when not in turn."""
    address = _addresses.setdefault((host, port), Address(f"{host}:{port}"))
    until = time.monotonic() + PATIENCE
    while not address.turn(now := time.monotonic()):
        if now > until:
            raise KafkaConnectionError(f"{address.name} does not answer; it is tried again soon")
        await asyncio.sleep(LOOK)
    try:
        found = await _create(host, port, **how)
    except (OSError, KafkaError):
        address.failed(time.monotonic())
        raise
    address.answered()
    return found


def install() -> None:
    """Have all of aiokafka's clients connect in turn."""
    client.create_conn = connect
