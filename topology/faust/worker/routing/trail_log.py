"""Trails of messages in the log, by a thread, so that routing does not wait for them."""

import contextlib
import queue
import threading
import time

import orjson
from mode import get_logger

from topology.declaration.route import Route
from topology.engine.route_task import trail_data
from topology.model.printable import printable
from topology.routing import Routing

logger = get_logger(__name__)

MOST = 10_000
"""Trails that wait to be written."""
MOST_BYTES = 64 << 20
"""Of the messages that they are of."""
TELL = 10.0
"""Seconds between two lines about those that are not written."""
LONGEST = 4_000
"""Characters of a trail."""


class TrailLog:
    """Writes trails to the log; what comes faster is dropped and counted.

    Args:
        route: the stage, whose function sees each.

    Attributes:
        dropped: trails that were not written, since there were too many or the function failed.
    """

    def __init__(self, route: Route) -> None:
        self.dropped = 0
        self._route = route
        self._waiting: queue.Queue[Routing] = queue.Queue(MOST)
        self._thread: threading.Thread | None = None
        self._told = 0
        # Each is changed by one thread at a time.
        self._added = self._taken = 0
        self._adding = threading.Lock()

    def add(self, routing: Routing) -> None:
        """Write a trail soon, or count it as dropped; never waits for what is written."""
        with self._adding:
            self._add(routing)

    def _add(self, routing: Routing) -> None:
        if self._thread is None:
            name = f"sequitur {self._route.name} trails"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        if self._added - self._taken > MOST_BYTES:
            self.dropped += 1
            return
        try:
            self._waiting.put_nowait(routing)
            self._added += len(routing.message.value or b"")
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        due = 0.0
        while True:
            with contextlib.suppress(queue.Empty):
                routing = self._waiting.get(timeout=TELL)
                self._taken += len(routing.message.value or b"")
                self._write(routing)
            if self.dropped > self._told and time.monotonic() > due:
                due = time.monotonic() + TELL
                more, self._told = self.dropped - self._told, self.dropped
                logger.warning("route %s: %d trails are not written", self._route.name, more)

    def _write(self, routing: Routing) -> None:
        try:
            data = trail_data(self._route, routing)
            if data is not None:
                text = orjson.dumps(data, default=str).decode()
                logger.info("trail %s", printable(text, LONGEST))
        except BaseException:  # of the user's function
            self.dropped += 1
