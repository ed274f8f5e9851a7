"""The pages of a process: /metrics for Prometheus, /health and /ready for probes."""

import asyncio
import logging
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import Any, Generic, TypeVar

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPEN_METRICS
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.registry import Collector

from topology.monitoring.figures import BOUNDS

logger = logging.getLogger(__name__)

PROBE = 2.0
"""Seconds that what a probe asks has to answer."""
HEALTH = 0.5
"""Seconds that /health waits for it: kubelet waits for one second unless it is told."""
FIGURES = 8.0
"""Seconds that figures may take to be found: less than Prometheus waits."""
FRESH = 1.0
"""Seconds for which an answer does for others who ask."""

T = TypeVar("T")


class Question(Generic[T]):
    """Asks a broker or a database, which may not answer.

    It is asked once a second at most, and never twice at a time: what hangs takes one thread.

    Args:
        ask: asks; whatever it raises is no answer.
        patience: seconds that it has.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], patience: float = PROBE) -> None:
        self._ask, self._patience = ask, patience
        self._task: asyncio.Future[T] | None = None
        self._asked = -FRESH
        self.answered = False
        """Whether it did when it was last asked."""
        self.answer: T | None = None
        """What it answered last."""

    async def __call__(self) -> bool:
        """Ask; whether there is an answer."""
        if self._task is None:
            if time.monotonic() - self._asked < FRESH:
                return self.answered
            self._task = asyncio.ensure_future(self._ask())
            self._task.add_done_callback(self._done)
        await asyncio.wait({self._task}, timeout=self._patience)
        if self._task is not None and not self._task.done():
            self.answered = False
        return self.answered

    def _done(self, task: asyncio.Future[T]) -> None:
        self._task, self._asked = None, time.monotonic()
        self.answered = not task.cancelled() and task.exception() is None
        if self.answered:
            self.answer = task.result()

    async def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()


class Pages(Collector, ABC):
    """A process's HTTP server; a subclass knows the process.

    /health tells whether the process is worth keeping: it answers while its event loop does; a
    restart would mend nothing else that it names. /ready is 503 while the process does not do all
    of its work, and says why. Figures are made when they are asked for: events pay nothing.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._runner: web.AppRunner | None = None
        self._looking: asyncio.Future[list[str]] | None = None
        self._known: list[str] = []
        self.address = ""

    @abstractmethod
    def collect(self) -> Iterable[Metric]:
        """The figures of now."""

    @abstractmethod
    async def troubles(self) -> list[str]:
        """What keeps the process from doing all of its work: ask, and name each part."""

    async def known_troubles(self) -> list[str]:
        """`troubles` where that is quick; else what they were, while it goes on looking."""
        if self._looking is None:
            self._looking = asyncio.ensure_future(self.troubles())
        await asyncio.wait({self._looking}, timeout=HEALTH)
        if self._looking is not None and self._looking.done():
            looked, self._looking = self._looking, None
            self._known = looked.result()
        return self._known

    async def measure(self) -> None:
        """Find what only /metrics needs, before `collect`."""

    def describe(self) -> Iterable[Metric]:
        """Nothing: what there is depends on the process."""
        return ()

    def histogram(self, name: str, what: str, labels: Iterable[str] = ()) -> Histogram:
        """A histogram of seconds.

        Args:
            name: of it.
            what: what takes them.
            labels: their names.
        """
        return Histogram(name, what, labels, buckets=BOUNDS, registry=self.registry)

    async def start(self, address: str) -> None:
        """Listen.

        Args:
            address: host:port; port 0 for one that is free. Or fd:number, a socket that the
                process was started with.

        Raises:
            OSError: the address is taken, or none of this machine's.
        """
        host, _, port = address.rpartition(":")
        app = web.Application()
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        if host == "fd":
            await web.SockSite(self._runner, socket.socket(fileno=int(port))).start()
            return
        await web.TCPSite(self._runner, host.strip("[]"), int(port)).start()
        self.address = f"{host}:{self._runner.addresses[0][1]}"
        logger.info("metrics, health and readiness: http://%s", self.address)

    async def stop(self) -> None:
        """Listen no longer."""
        if self._looking is not None:
            self._looking.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    @asynccontextmanager
    async def at(self, address: str | None) -> AsyncIterator[None]:
        """Serve within a block.

        Args:
            address: as of `start`; None: nowhere.

        Raises:
            OSError: see `start`.
        """
        if address is not None:
            await self.start(address)
        try:
            yield
        finally:
            await self.stop()

    @contextmanager
    def in_thread(self, address: str | None) -> Iterator[None]:
        """Serve within a block of a process without an event loop.

        Args:
            address: as of `start`; None: nowhere.

        Raises:
            OSError: see `start`.
        """
        if address is None:
            yield
            return
        loop = asyncio.new_event_loop()
        thread = Thread(target=loop.run_forever, name="sequitur pages", daemon=True)
        thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.start(address), loop).result()
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self.stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    async def _metrics_page(self, request: web.Request) -> web.Response:
        await asyncio.gather(self.troubles(), self.measure())
        wants_open = "application/openmetrics-text" in request.headers.get("Accept", "")
        make: Any = open_metrics if wants_open else generate_latest
        kind = OPEN_METRICS if wants_open else CONTENT_TYPE_LATEST
        return web.Response(body=make(self.registry), headers={"Content-Type": kind})

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"alive": True, "troubles": await self.known_troubles()})

    async def _ready(self, _: web.Request) -> web.Response:
        troubles = await self.troubles()
        return web.json_response(
            {"ready": not troubles, "troubles": troubles}, status=503 if troubles else 200
        )
