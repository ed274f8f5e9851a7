"""A thread that looks at what the worker's event loop is doing, since a blocked loop cannot tell.

A plain handler that blocks holds up everything in its worker and cannot be cancelled. What it is
busy with stands on the loop's stack: looking there now and then costs the events nothing.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import CodeType, FrameType
from typing import Any

import orjson
from mode import get_logger

from topology.declaration.view import View
from topology.engine.output.handling import Handling
from topology.model.event import Event
from topology.model.printable import printable

logger = get_logger(__name__)

PERIOD = 0.25
"""Seconds between two looks."""
LONG = 30.0
"""Seconds after which a handler without a time limit is told of."""
STACK = 8_000
"""Characters of a stack that are told, the innermost ones."""

_HANDLING: tuple[CodeType, ...] = (Handling.run.__code__, Handling.arun.__code__)


@dataclass(frozen=True, slots=True)
class Blocked:
    """A handler that blocks its worker, or no longer does (`name` is `unblocked`).

    when, since: when this was told, and when the handler was first seen at the event (ms). seconds:
    how long it was seen there. timeout: the view's limit, None if it has none. who: the worker.
    """

    view: str
    stream: str
    sequence: int
    when: int
    since: int
    seconds: float
    timeout: float | None
    who: str
    stack: str
    name: str = "blocked"

    def record(self) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
        """Key, value and headers of the record for the view's audit topic."""
        value = orjson.dumps({**asdict(self), "done": False})
        return self.stream.encode(), value, [("view", self.view.encode())]


Tell = Callable[[View, Blocked], None]
"""Makes it known beyond the process's log; called in the watchdog's thread."""


class Watchdog:
    """Watches the thread that starts it, until it is stopped. tell: called at each telling."""

    def __init__(self, who: str, tell: Tell, period: float = PERIOD, long: float = LONG) -> None:
        self._who, self._tell, self._period, self._long = who, tell, period, long
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._watched = 0
        self._event: Event | None = None
        self._since = self._next = 0.0
        self._reported: tuple[View, Blocked] | None = None

    def start(self) -> None:
        """Watch the calling thread."""
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._run, name="sequitur watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer. What is being told may be told to its end."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            try:
                self.check()
            except Exception as error:
                logger.warning("the watchdog could not check the event loop: %r", error)

    def check(self) -> None:
        """See what the thread is doing, and report a handler that has taken too long."""
        now = time.monotonic()
        inner = sys._current_frames().get(self._watched)
        outer = _handling(inner)
        known: Mapping[str, Any] = {} if outer is None else outer.f_locals
        event, seconds = known.get("event"), round(now - self._since, 3)
        if event is not self._event:
            self._event, self._since, self._next = event, now, 0.0
            if self._reported is not None:
                view, blocked = self._reported
                self._reported = None
                when = int(time.time() * 1000)
                self._report(view, replace(blocked, name="unblocked", when=when, seconds=seconds))
            return
        if event is None or inner is None or outer is None:
            return
        busy: View = known["self"].view
        limit = busy.timeout or self._long
        # Twice as long each time: what blocks for a day is told of some fifteen times.
        if seconds < max(limit, self._next):
            return
        self._next = 2 * seconds
        when = int(time.time() * 1000)
        blocked = Blocked(
            busy.name,
            event.stream,
            event.sequence,
            when,
            when - int(seconds * 1000),
            seconds,
            busy.timeout,
            self._who,
            _stack(inner, outer),
        )
        self._reported = busy, blocked
        self._report(busy, blocked)

    def _report(self, view: View, blocked: Blocked) -> None:
        where = f"stream {printable(blocked.stream)} sequence {blocked.sequence}"
        if blocked.name == "blocked":
            allowed = f", its limit is {view.timeout:g} s" if view.timeout else ""
            logger.warning(
                "view %s: its handler has blocked this worker for %.1f s at %s%s; nothing else "
                "goes on meanwhile. It is at:\n%s",
                view.name, blocked.seconds, where, allowed,
                "\n".join(printable(line, 500) for line in blocked.stack.split("\n")),
            )  # fmt: skip
        else:
            logger.warning(
                "view %s: its handler came back from %s after %.1f s",
                view.name, where, blocked.seconds,
            )  # fmt: skip
        self._tell(view, blocked)


def _handling(frame: FrameType | None) -> FrameType | None:
    """The frame in which a thread, whose innermost one is `frame`, handles an event, if it does."""
    while frame is not None and frame.f_code not in _HANDLING:
        frame = frame.f_back
    return frame


def _stack(frame: FrameType, outer: FrameType) -> str:
    """The stack of a handler: what is inside of `outer`."""
    depth, at = 0, frame
    while at is not outer and at.f_back is not None:
        depth, at = depth + 1, at.f_back
    return "".join(traceback.format_stack(frame, limit=max(1, depth)))[-STACK:]
