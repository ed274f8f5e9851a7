"""The process of a handler: `python -m topology.handler_process FD MODULE:TOPOLOGY VIEW`.

It ends when the worker does, however that ends: the socket that they share is closed then.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time
import traceback
from queue import SimpleQueue
from typing import Any

import orjson

from topology.declaration.ordered_stage import OrderedStage
from topology.declaration.timeouts import Clock, TooSlow
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.handling import Handling
from topology.handler_process.frames import LENGTH, decode_job, encode_effects, framed
from topology.handler_process.home import found_at
from topology.model.batches import by_event
from topology.model.changes import collected
from topology.model.errors import HandlerError, described
from topology.model.event import event_of
from topology.model.work_event import WorkEvent, work_event

ENDS_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG, for a handler that lets no other thread run."""


class Child:
    """Handles what comes by the socket, one job after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._jobs: SimpleQueue[bytes] = SimpleQueue()
        self._hurried = -1
        self._at = -1
        self._events: list[WorkEvent] = []
        os.register_at_fork(after_in_child=self._let_go)

    def _let_go(self) -> None:
        """What a handler forks does not answer, nor hide from the worker that this has ended."""
        if self._connection.fileno() >= 0:
            os.close(self._connection.detach())

    def listen(self) -> None:
        """Take jobs and hurries, also while a handler runs; end the process with the worker."""
        file = self._connection.makefile("rb")
        while len(length := file.read(LENGTH.size)) == LENGTH.size:
            body = file.read(LENGTH.unpack(length)[0])
            if len(body) == LENGTH.size:
                (self._hurried,) = LENGTH.unpack(body)
                self._tell()
            else:
                self._jobs.put(body)
        os._exit(0)

    def _tell(self) -> None:
        if self._hurried == self._at:
            for event in self._events:
                event.hurry.set()

    def run(self, home: str, view: str) -> None:
        """Find the view, and handle what comes."""
        try:
            stage = found_at(home, view)
        except BaseException as error:
            self._say({"failed": described(error), "traceback": _trace(error)})
            return
        self._say({"ready": os.getpid()})
        while True:
            self._say(self._answer(stage, self._jobs.get()))

    def _say(self, answer: dict[str, Any]) -> None:
        if self._connection.fileno() < 0:
            os._exit(0)
        self._connection.sendall(framed(orjson.dumps(answer)))

    def _answer(self, stage: OrderedStage, body: bytes) -> dict[str, Any]:
        try:
            number, messages, states = decode_job(body)
            view, prefix = stage.view, f"{stage.view.topology}.{stage.view.name}"
            events = []
            for message, arrived in messages:
                inspected = view.of.inspect_whole(message)
                if inspected is None:
                    raise HandlerError("the source's inspector does not know it in this process")
                events.append(work_event(event_of(*inspected, message, arrived), prefix))
            self._events, self._at = events, number & 0xFFFFFFFF
            self._tell()
            state = stage.state_given(states, events)
            given: Any = events if stage.work.batch else events[0]
            yielded = collected(view.handler(given, *state) or ())
            items = by_event(events, yielded) if stage.work.batch else [yielded]
            handling = Handling(view, CommitUnit(stage.topic, 0), lambda stream: None)
            for event, each in zip(events, items, strict=True):
                # To say what is wrong with it where the objects are still those of the handler.
                handling.live = states.get(event.stream, {})
                handling.write(event, each)
            left = {stream: orjson.Fragment(raw) for stream, raw in handling.states.items()}
            return {"items": orjson.Fragment(encode_effects(events, items)), "states": left}
        except BaseException as error:
            sure = isinstance(error, HandlerError) and not isinstance(error, TooSlow)
            return {"error": _text(described(error)), "traceback": _trace(error), "sure": sure}
        finally:
            self._at = -1


def _trace(error: BaseException) -> str:
    return _text("".join(traceback.format_exception(error)))


def _text(text: str) -> str:
    return text[:40_000].encode("utf-8", "backslashreplace").decode()


def main() -> None:
    """Run until the worker ends."""
    _, number, home, view = sys.argv
    # What the terminal sends is the worker's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ENDS_WITH_PARENT, signal.SIGKILL)
    connection = socket.socket(fileno=int(number))
    # Nobody whom a handler starts keeps it open.
    connection.set_inheritable(False)
    child = Child(connection)
    threading.Thread(target=child.listen, daemon=True).start()
    Clock.now = time.monotonic
    child.run(home, view)


if __name__ == "__main__":
    main()
