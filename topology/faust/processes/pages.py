"""What the supervisor of several workers answers over HTTP: what all of them answer."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import aiohttp
import orjson
from aiohttp import web
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from topology.monitoring import Pages, counter, gauge

PROBE = 5.0
"""Seconds that a worker has for an answer to a probe: it asks the broker for 2 of them."""
FIGURES = 9.0
"""Seconds that it has for its figures: less than Prometheus waits."""
WORKER = "worker"
"""The label that tells the workers apart."""


class Supervised(Protocol):
    """What has to be known of a worker."""

    @property
    def number(self) -> int: ...
    @property
    def starts(self) -> int: ...
    @property
    def process(self) -> object: ...
    @property
    def port(self) -> int: ...


class AllPages(Pages):
    """The pages of all workers on one port.

    Figures have the label `worker` in addition. /ready is 200 if all workers run and are ready.
    /health is 503 while a worker that has answered since its start does so no longer.

    Args:
        workers: the supervisor's.
    """

    def __init__(self, workers: Sequence[Supervised]) -> None:
        super().__init__()
        self._workers = workers
        self._figures: dict[int, str] = {}
        self._answered: dict[int, int] = {}
        """Number → the start since which it has answered."""
        self._silent: list[int] = []

    def collect(self) -> Iterator[Metric]:
        """The figures of all workers, and which of them run."""
        yield from merged(self._figures)
        yield gauge(
            "sequitur_worker_running", "Whether a worker's process runs: 1, or 0.", [WORKER],
            [((str(each.number),), each.process is not None) for each in self._workers],
        )  # fmt: skip
        yield gauge(
            "sequitur_worker_answers", "Whether a worker gave its figures: 1, or 0.", [WORKER],
            [((str(each.number),), each.number in self._figures) for each in self._workers],
        )  # fmt: skip
        yield counter(
            "sequitur_worker_starts", "Starts of a worker's process.", [WORKER],
            [((str(each.number),), each.starts) for each in self._workers],
        )  # fmt: skip

    async def measure(self) -> None:
        """Ask all workers for their figures."""
        found = await self._ask("/metrics", FIGURES)
        self._figures = {number: text for number, text in found.items() if text}

    async def troubles(self) -> list[str]:
        """What keeps workers from their work, by worker."""
        found = await self._ask("/ready", PROBE)
        silent: list[int] = []
        troubles: list[str] = []
        for each in self._workers:
            answer = _troubles(found.get(each.number, ""))
            if each.process is None:
                told = ["its process does not run"]
            elif answer is not None:
                self._answered[each.number] = each.starts
                told = answer
            elif self._answered.get(each.number) == each.starts:
                silent.append(each.number)
                told = ["it does not answer"]
            else:
                told = ["it starts"]
            troubles += [f"worker {each.number}: {trouble}" for trouble in told]
        self._silent = silent
        return troubles

    async def _health(self, _: web.Request) -> web.Response:
        troubles = await self.known_troubles()
        return web.json_response(
            {"alive": not self._silent, "troubles": troubles}, status=503 if self._silent else 200
        )

    async def _ask(self, page: str, seconds: float) -> dict[int, str]:
        """Number → the page of each worker that runs; empty where it does not answer in time."""
        running = [each for each in self._workers if each.process is not None]
        headers = {"Accept": "application/openmetrics-text"}
        limit = aiohttp.ClientTimeout(total=seconds)
        async with aiohttp.ClientSession(headers=headers, timeout=limit) as session:
            found = await asyncio.gather(*(_text(session, each.port, page) for each in running))
        return {each.number: text for each, text in zip(running, found, strict=True)}


async def _text(session: aiohttp.ClientSession, port: int, page: str) -> str:
    try:
        async with session.get(f"http://127.0.0.1:{port}{page}") as answer:
            # 503 is that of one that tells its troubles; with any other status it is broken.
            return await answer.text() if answer.status in (200, 503) else ""
    except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError):
        return ""


def _troubles(answer: str) -> list[str] | None:
    """What a worker says at /ready; None where it says nothing that can be read."""
    try:
        return list(map(str, orjson.loads(answer)["troubles"]))
    except (ValueError, TypeError, KeyError):
        return None


def merged(pages: Mapping[int, str]) -> Iterator[Metric]:
    """The figures of several workers as one page has them.

    Args:
        pages: worker's number → its figures, as OpenMetrics has them.
    """
    families: dict[str, Metric] = {}
    for number, page in pages.items():
        for family in _families(page):
            known = Metric(family.name, family.documentation, family.type)
            families.setdefault(family.name, known).samples += [
                sample._replace(labels={**sample.labels, WORKER: str(number)})
                for sample in family.samples
            ]
    yield from families.values()


def _families(page: str) -> list[Metric]:
    """The figures of one page; none of one that cannot be read, since others can."""
    try:
        return list(text_string_to_metric_families(page))  # type: ignore[no-untyped-call]
    except Exception:  # its parser raises anything
        return []
