"""Whatever the function that loads rules raises, its version is refused, and the rest goes on."""

import asyncio

import pytest

from topology.declaration.route import Route
from topology.faust.worker.router_process import RouterProcess
from topology.routing import (
    ControlRecord,
    Failed,
    Joined,
    Load,
    Propose,
    RoutedSource,
    Rule,
    RuleSet,
)

RULES = RuleSet(
    1,
    sources=[RoutedSource("in", ("all",))],
    rules=[Rule("all", to=("out",))],
    destinations={"out": None},
)


@pytest.mark.parametrize(
    "error", [ValueError("no table"), SystemExit(3), asyncio.CancelledError(), GeneratorExit()]
)
async def test_whatever_a_reload_raises_its_version_is_refused(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reload(load: Load, before: RuleSet | None) -> RuleSet:
        raise error

    said: list[ControlRecord | None] = []

    async def say(record: ControlRecord | None) -> None:
        said.append(record)

    async def crash(error: Exception) -> None:
        raise error

    process = RouterProcess({}, Route("r", RULES, 1, {"out": "out"}, reload), 10.0, crash)
    monkeypatch.setattr(process._writer, "say", say)
    me = process.member.process
    process.member.read(Joined(me))
    load = process.member.read(Propose())
    assert load is not None
    await process._load(load)
    (answer,) = said
    assert isinstance(answer, Failed)
    assert (answer.process, answer.version) == (me, 1)
    assert type(error).__name__ in answer.reason
    await process.stop()
