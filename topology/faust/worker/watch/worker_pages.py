"""What a worker answers over HTTP: /metrics for Prometheus, /health and /ready for probes."""

import asyncio
import time
from typing import Any

from aiohttp import web
from aiokafka.errors import KafkaError
from mode import get_logger
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPEN_METRICS
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics

from topology.faust.worker.engine import Engine
from topology.faust.worker.watch.worker_metrics import WorkerMetrics, stage_runners, view_states
from topology.model.printable import printable

logger = get_logger(__name__)

ANSWER = 2.0
"""Seconds that the broker has to say where its partitions end."""
FRESH = 1.0
"""Seconds for which its answer does for others who ask."""


class WorkerPages:
    """A worker's HTTP server.

    /health tells whether the process is worth keeping: it answers while the event loop does, which
    a handler that blocks does not let it; a restart would mend nothing else that it names. /ready
    is 503 while the worker does not do all of its work, and says why.

    Args:
        engine: the worker's.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._metrics = WorkerMetrics(lambda: engine.running)
        engine.context.timings = self._metrics
        self._asked = -FRESH
        self._asking = asyncio.Lock()
        self._runner: web.AppRunner | None = None
        self.address = ""

    async def start(self, address: str) -> None:
        """Listen.

        Args:
            address: host:port; port 0 for one that is free.

        Raises:
            OSError: the address is taken, or none of this machine's.
        """
        host, _, port = address.rpartition(":")
        app = web.Application()
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host.strip("[]"), int(port)).start()
        self.address = f"{host}:{self._runner.addresses[0][1]}"
        logger.info("metrics, health and readiness: http://%s", self.address)

    async def stop(self) -> None:
        """Listen no longer."""
        if self._runner is not None:
            await self._runner.cleanup()

    def troubles(self) -> list[str]:
        """What keeps the worker from doing all of its work, as far as it knows."""
        found = [] if self._metrics.broker_up else ["the broker does not answer"]
        partitions = self._engine.running
        if not self._engine.is_assigned:
            found.append("no partitions are assigned yet")
        found += [
            f"{each.source.topic}/{each.source.partition} starts, or starts again"
            for each in partitions
            if not each.is_running
        ]
        halted = {
            view.name: printable(view.task.halted, 200)
            for view in view_states(partitions)
            if view.task.halted is not None
        }
        halted |= {
            runner.stage.view.name: printable(why, 200)
            for runner in stage_runners(partitions)
            if (why := runner.status.status.halted) is not None
        }
        found += [f"view {name} is halted: {why}" for name, why in sorted(halted.items())]
        return found

    # -- the pages

    async def _metrics_page(self, request: web.Request) -> web.Response:
        await self._ask_broker()
        wants_open = "application/openmetrics-text" in request.headers.get("Accept", "")
        make: Any = open_metrics if wants_open else generate_latest
        kind = OPEN_METRICS if wants_open else CONTENT_TYPE_LATEST
        return web.Response(body=make(self._metrics.registry), headers={"Content-Type": kind})

    async def _health(self, _: web.Request) -> web.Response:
        await self._ask_broker()
        return web.json_response({"alive": True, "troubles": self.troubles()})

    async def _ready(self, _: web.Request) -> web.Response:
        await self._ask_broker()
        troubles = self.troubles()
        return web.json_response(
            {"ready": not troubles, "troubles": troubles}, status=503 if troubles else 200
        )

    async def _ask_broker(self) -> None:
        async with self._asking:
            if time.monotonic() - self._asked < FRESH:
                return
            metrics, engine = self._metrics, self._engine
            try:
                async with asyncio.timeout(ANSWER):
                    ends = await engine.context.shared_reader.ends(
                        [each.source for each in engine.running]
                    )
            except (KafkaError, OSError, TimeoutError):
                metrics.broker_up = False
            else:
                metrics.broker_up = True
                metrics.lags.note(ends, time.monotonic())
            self._asked = time.monotonic()
