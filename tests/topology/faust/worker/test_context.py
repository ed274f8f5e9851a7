"""What the partitions of a worker share."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from topology.engine.state.short_waits import WaitLimits
from topology.faust.worker import context as module
from topology.faust.worker.context import WorkerContext


async def test_an_input_whose_retention_is_lowered_is_relied_on_for_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=1_000.0)
    said: list[WaitLimits | None] = [WaitLimits(), None]

    async def limits_of(app: Any, topic: str) -> WaitLimits | None:
        return said.pop(0)

    monkeypatch.setattr(module, "limits_of", limits_of)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    context: Any = SimpleNamespace(settings=SimpleNamespace(short_waits=True), app=None, kept={})
    assert await WorkerContext.limits(context, "in") == WaitLimits()
    clock.now += 60
    assert await WorkerContext.limits(context, "in") == WaitLimits()
    clock.now += 1
    assert await WorkerContext.limits(context, "in") is None


async def test_the_reader_of_a_view_that_reads_apart_is_one_though_all_partitions_ask_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Any] = []

    class Reader:
        def __init__(self, app: Any, settings: Any) -> None:
            self.assigned: list[Any] = []

        async def start(self) -> None:
            started.append(self)
            await asyncio.sleep(0.01)

        def assign(self, partitions: Any) -> None:
            self.assigned = [*partitions]

    monkeypatch.setattr(module, "Reader", Reader)
    views = {"board": SimpleNamespace(of=SimpleNamespace(by_stream="in"))}
    context: Any = SimpleNamespace(
        standalone_readers={}, standalone_lock=asyncio.Lock(), app=None, settings=None, assigned=[],
        topology=SimpleNamespace(views=views),
    )  # fmt: skip
    found = await asyncio.gather(*(WorkerContext.reader(context, "board") for _ in range(4)))
    assert [*found] == started * 4
