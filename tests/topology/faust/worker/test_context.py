"""What the partitions of a worker share."""

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
