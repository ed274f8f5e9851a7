"""One page of several workers: figures are told apart, and each trouble has its worker."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from topology.faust.processes import pages
from topology.faust.processes.pages import AllPages
from topology.monitoring import Pages, single
from topology.monitoring import pages as monitoring


class OnePages(Pages):
    """A worker's, as far as a supervisor asks."""

    def __init__(self, figure: float, *troubles: str) -> None:
        super().__init__()
        self._figure, self._troubles = figure, list(troubles)
        self.seconds = self.histogram("sequitur_commit_seconds", "Commits.", ["topic"])
        self.seconds.labels("in").observe(0.003)

    def collect(self) -> Any:
        yield single("sequitur_held", "What is held.", self._figure)

    async def troubles(self) -> list[str]:
        return self._troubles


class BreakingPages(OnePages):
    """Those of a worker that breaks: it fails, or says what nobody can read."""

    answer: tuple[int, str] | None = None

    async def start(self, address: str) -> None:
        for name in ("_metrics_page", "_ready"):
            setattr(self, name, partial(self._broken, getattr(self, name)))
        await super().start(address)

    async def _broken(self, page: Any, request: web.Request) -> Any:
        if self.answer is None:
            return await page(request)
        status, text = self.answer
        return web.Response(status=status, text=text)


@dataclass
class One:
    number: int
    port: int = 0
    starts: int = 1
    process: object = "it runs"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROBE", "FIGURES"):
        monkeypatch.setattr(pages, name, 60)
    monkeypatch.setattr(monitoring, "HEALTH", 60)


def told(own: AllPages, then: Callable[[str], Awaitable[None]]) -> None:
    async def serve() -> None:
        async with own.at("127.0.0.1:0"):
            await then(f"http://{own.address}")

    asyncio.run(serve())


async def page(address: str) -> tuple[int, bytes]:
    async with ClientSession() as session, session.get(address) as found:
        return found.status, await found.read()


def test_figures_of_workers_have_their_numbers_and_can_be_read_again() -> None:
    first, second = OnePages(3), OnePages(4, "view board is halted: by op")
    ones = [One(1), One(2), One(3, process=None)]

    async def look(address: str) -> None:
        async with first.at("127.0.0.1:0"), second.at("127.0.0.1:0"):
            ones[0].port, ones[1].port = (int(p.address.split(":")[1]) for p in (first, second))
            async with ClientSession(headers={"Accept": "application/openmetrics-text"}) as session:
                text = await (await session.get(f"{address}/metrics")).text()
            found = {
                (sample.name, *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
                for sample in family.samples
            }
            assert found["sequitur_held", "1"] == 3
            assert found["sequitur_held", "2"] == 4
            assert found["sequitur_commit_seconds_count", "in", "2"] == 1
            assert [found["sequitur_worker_running", n] for n in "123"] == [1, 1, 0]
            assert [found["sequitur_worker_answers", n] for n in "123"] == [1, 1, 0]
            assert found["sequitur_worker_starts_total", "3"] == 1
            assert b'sequitur_held{worker="2"} 4.0' in (await page(f"{address}/metrics"))[1]
            status, body = await page(f"{address}/ready")
            assert status == 503
            assert orjson.loads(body)["troubles"] == [
                "worker 2: view board is halted: by op",
                "worker 3: its process does not run",
            ]

    told(AllPages(ones), look)


@pytest.mark.parametrize("answer", [(500, "500 Internal Server Error"), (200, "[] # what\n")])
def test_one_that_is_broken_is_not_healthy_and_the_others_are_shown(
    answer: tuple[int, str],
) -> None:
    first, second = BreakingPages(3), OnePages(4)
    ones = [One(1), One(2)]

    async def look(address: str) -> None:
        async with first.at("127.0.0.1:0"), second.at("127.0.0.1:0"):
            ones[0].port, ones[1].port = (int(p.address.split(":")[1]) for p in (first, second))
            assert (await page(f"{address}/ready"))[0] == 200
            first.answer = answer
            status, body = await page(f"{address}/metrics")
            assert (status, b'sequitur_held{worker="2"} 4.0' in body) == (200, True)
            assert b'sequitur_held{worker="1"}' not in body
            for name in ("health", "ready"):
                status, body = await page(f"{address}/{name}")
                assert status == 503
                assert orjson.loads(body)["troubles"] == ["worker 1: it does not answer"]

    told(AllPages(ones), look)


def test_who_has_answered_and_does_so_no_longer_is_not_healthy() -> None:
    worker, one = OnePages(1), One(1)

    async def look(address: str) -> None:
        async with worker.at("127.0.0.1:0"):
            one.port = int(worker.address.split(":")[1])
            assert (await page(f"{address}/ready"))[0] == 200
            assert (await page(f"{address}/health"))[0] == 200
        status, body = await page(f"{address}/health")
        assert status == 503
        assert orjson.loads(body) == {"alive": False, "troubles": ["worker 1: it does not answer"]}
        one.starts = 2
        assert await page(f"{address}/health") == (
            200, b'{"alive": true, "troubles": ["worker 1: it starts"]}',
        )  # fmt: skip

    told(AllPages([one]), look)
