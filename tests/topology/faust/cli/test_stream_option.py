"""`--stream` of the commands that list takes a stream's id as its producer writes it."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from topology import Inspector, Topology
from topology.diagnostics.explain.command_log import CommandFilter, CommandRecord
from topology.diagnostics.explain.parked_streams import ParkedStream, ParkedStreams
from topology.diagnostics.side_topics import SideFilter
from topology.faust.cli import inspect, side_topics
from topology.faust.inspection.command_log import Commands

GUID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


class Cli:
    """An app that only keeps its commands, by name."""

    def __init__(self) -> None:
        topology = Topology("shop")
        orders = topology.source("orders", inspector=Inspector("id", "n"))
        topology.view("lanes", of=orders, handler=lambda event: None, lane="currency")
        self.engine = SimpleNamespace(topology=topology)
        self.commands: dict[str, Callable[..., Any]] = {}
        self.answers: list[Any] = []

    def command(self, *_: Any, **__: Any) -> Callable[[Any], Any]:
        def keep(function: Any) -> Any:
            self.commands[function.__name__] = function
            return function

        return keep

    async def run(self, name: str, **given: Any) -> Any:
        def answer(text: str, found: Any, *, bad: bool = False) -> None:
            self.answers.append((found, bad))

        await self.commands[name](SimpleNamespace(app=self, answer=answer), **given)
        return self.answers[-1]


async def no_times(*_: Any) -> tuple[None, None]:
    return None, None


async def test_a_parked_lane_is_listed_by_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async def parked(app: object, **_: Any) -> ParkedStreams:
        return ParkedStreams(0, [ParkedStream("lanes", 0, f"{GUID}|EUR", 0, 1, 1, None)])

    monkeypatch.setattr(inspect, "found_parked", parked)
    cli = Cli()
    inspect.register(cli)
    given = {"view": "", "older_than": None, "reason": "", "group": False, "limit": 9, "scan": None}
    found, bad = await cli.run("parked", stream=GUID.upper(), **given)
    assert [each.stream for each in found.streams] == [f"{GUID}|EUR"]
    assert bad
    assert not (await cli.run("parked", stream="other", **given))[1]


async def test_a_command_is_listed_by_the_stream_of_its_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = CommandRecord("1", "skip", "lanes", f"{GUID}|EUR", 4, "ann", 0, 0, "waits")

    async def commands(app: object, *, choice: CommandFilter, **_: Any) -> Commands:
        return Commands(0, [*filter(choice.takes, [told])], [])

    monkeypatch.setattr(inspect, "found_commands", commands)
    monkeypatch.setattr(inspect, "before", no_times)
    cli = Cli()
    inspect.register(cli)
    given = {"id": "", "view": "", "reason": "", "since": None, "until": None, "limit": 9}
    assert (await cli.run("commands", stream=GUID.upper(), **given))[0] == [told]
    assert (await cli.run("commands", stream="other", **given))[0] == []


async def test_records_of_a_side_topic_are_listed_by_the_stream_of_their_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen: list[SideFilter] = []

    async def side_topic(app: object, side: str, choice: SideFilter, **_: Any) -> Any:
        chosen.append(choice)
        return SimpleNamespace(records=[], count=0, now=0, unseen=[], as_dict=dict)

    monkeypatch.setattr(side_topics, "side_topic", side_topic)
    monkeypatch.setattr(side_topics, "before", no_times)
    cli = Cli()
    side_topics.register(cli)
    given: dict[str, Any] = {"offset": None, "view": "", "reason": "", "since": None, "until": None}
    given |= {"group": False, "limit": 9, "scan": None}
    await cli.run("dead", stream=GUID.upper(), **given)
    (choice,) = chosen
    assert choice.meant is not None
    assert choice.meant("lanes", f"{GUID}|EUR")
    assert not choice.meant("lanes", "other|EUR")
