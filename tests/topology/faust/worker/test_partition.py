"""How an input partition starts and stops, whatever its runners and its neighbours do."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from topology.faust.worker import partition as module
from topology.faust.worker.partition import Partition


class Runner:
    """Runs until it is told to fail or to stop, which takes so many seconds."""

    took: Any = None

    def __init__(self, view: str = "", stops_in: float = 0.0) -> None:
        self.view, self.stops_in = view, stops_in
        self.ended, self.stopped = False, 0

    def start(self, on_end: Any) -> None:
        self.on_end = on_end

    async def stop(self, grace: float) -> None:
        self.stopped += 1
        await asyncio.sleep(self.stops_in)
        self.ended = True


class Opening(Partition):
    """Opens these runners, or fails as long as it is told to."""

    def __init__(self, *runners: Runner) -> None:
        settings = SimpleNamespace(session_timeout=1.0)
        nothing = SimpleNamespace(forget=lambda: None)
        context: Any = SimpleNamespace(settings=settings, timings=None, partitions=nothing)
        self.crashes: list[BaseException] = []
        super().__init__(TopicPartition("orders", 0), context, self._crashed)
        self.opens: Any = runners
        self.error: BaseException | None = None

    async def _crashed(self, error: BaseException) -> None:
        self.crashes.append(error)

    async def open(self) -> Any:
        if self.error is not None:
            raise self.error
        return list(self.opens)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0.01)


@pytest_asyncio.fixture
async def bad() -> AsyncIterator[Opening]:
    partition = Opening(Runner())
    partition.error = KafkaError("away")
    yield partition
    await partition.stop(0)


async def test_a_partition_that_cannot_start_keeps_no_other_one_from_starting(
    bad: Opening,
) -> None:
    """Nor the worker: its tasks and agents begin when all of them have been started."""
    good = Opening(Runner())
    async with asyncio.timeout(30):
        await asyncio.gather(good.start(), bad.start())
    assert (good.is_running, bad.is_running) == (True, False)
    bad.error = None
    async with asyncio.timeout(30):
        while not bad.is_running:
            await asyncio.sleep(0.01)
    assert bad.crashes == []


async def test_one_that_is_stopped_before_it_could_start_stays_so(bad: Opening) -> None:
    await bad.start()
    await bad.stop(0)
    bad.error = None
    await asyncio.sleep(0.1)
    assert bad.runners == {}


async def test_what_is_no_failure_of_a_broker_ends_the_worker_from_a_later_try_too(
    bad: Opening,
) -> None:
    await bad.start()
    bad.error = RuntimeError("a bug")
    async with asyncio.timeout(30):
        while not bad.crashes:
            await asyncio.sleep(0.01)
    other = Opening()
    other.error = bad.error
    with pytest.raises(RuntimeError, match="a bug"):
        await other.start()


async def test_who_stops_a_partition_that_is_restarting_waits_for_its_runners_to_stop() -> None:
    """They were cut off: a handler went on beside the partition's next owner."""
    slow, failing = Runner("slow", 0.3), Runner("failing")
    partition = Opening(slow, failing)
    await partition.start()
    failing.on_end(failing, KafkaError("away"))
    while not slow.stopped:
        await asyncio.sleep(0)
    await partition.stop(5)
    assert (slow.ended, slow.stopped, failing.ended) == (True, 1, True)
