"""Whatever the function that loads rules raises, its version is refused, and the rest goes on."""

import asyncio

import pytest

from topology.declaration.route import Route
from topology.faust.worker.routing.process import RouterProcess
from topology.faust.worker.routing.rule_loading import made_rules
from topology.model.errors import DeclarationError
from topology.routing import (
    ControlRecord,
    Endpoint,
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


@pytest.mark.parametrize(
    ("endpoints", "taken"),
    [
        ([("eu", "large")], "large.eu"),
        ([("in", "shop")], "shop.in"),
        ([("control", "router")], "shop.router.control"),
        ([("trails", "router")], "shop.router.trails"),
        ([("us.desk", "large"), ("desk", "other")], "large.us.desk"),
        ([("large", "large"), ("eu.desk", "large")], None),
    ],
)
def test_an_endpoint_whose_topic_has_another_use_is_refused(
    endpoints: list[tuple[str, str]], taken: str | None
) -> None:
    to = {name: name for name in ("large", "large.eu", "shop")}
    to |= {"router": "shop.router", "other": "large.us"}
    rules = RuleSet(
        1,
        sources=[RoutedSource("shop.in", ("all",))],
        rules=[Rule("all", to=tuple(to))],
        destinations=dict.fromkeys(to),
    )
    own = "shop.router.control", "shop.router.trails"
    route = Route("router", rules, 1, to, lambda load, before: rules, *own)
    load = Load(2, frozenset(), None, False, tuple(Endpoint(*each) for each in endpoints))
    if taken is None:
        assert len(made_rules(route, load, rules).registered) == len(endpoints)
    else:
        with pytest.raises(
            DeclarationError, match=f"{endpoints[-1][0]}.*topic {taken} has another use"
        ):
            made_rules(route, load, rules)
