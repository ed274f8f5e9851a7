"""Threads for plain functions of the user's and for SQL, which let the process end."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

Job = tuple[Callable[[], Any], "Future[Any]"]


class HandlerThreads:
    """At most so many daemon threads, each made when it is needed.

    The standard library's pool waits for its threads when the process ends, so one that hangs in a
    handler would keep the process for good.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._free = threading.Semaphore(0)
        self._made = 0
        self._closed = False

    def submit(self, job: Callable[[], Any]) -> "Future[Any]":
        """Run it in a thread. Raises RuntimeError once this is closed."""
        if self._closed:
            raise RuntimeError(f"{self._name}: its threads have ended")
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        if not self._free.acquire(blocking=False) and self._made < self._most:
            self._made += 1
            name = f"{self._name} {self._made}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """End the threads that are free, and the others behind what they do."""
        self._closed = True
        for _ in range(self._made):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            run, future = job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(run())
                except (StopIteration, GeneratorExit) as error:
                    # Whoever awaits it would wait for ever, or be closed by it.
                    told = RuntimeError(f"it raised {type(error).__name__}")
                    told.__cause__ = error
                    future.set_exception(told)
                except BaseException as error:
                    future.set_exception(error)
            del job, run, future
            self._free.release()
