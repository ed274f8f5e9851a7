"""Many streams are not skipped over what is there, or may be under way."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from topology import Inspector, Topology
from topology.declaration.source import Source
from topology.diagnostics.explain import Ledger, Missing, OpenGap
from topology.diagnostics.explain.parked_streams import ParkedStream, ParkedStreams
from topology.faust.operation import bulk
from topology.faust.operation.bulk import BulkResult, StreamSelection


class Unread:
    """Messages of stream `a` are not read yet."""

    def __init__(self, durable: "Durable") -> None:
        # What is held is known before anybody looks.
        assert durable.looked == ["orders"]

    async def may_have(self, gap: OpenGap) -> bool:
        return gap.stream == "a"


class Durable:
    def __init__(self, app: object) -> None:
        self.looked: list[str] = []

    async def find_held(self, declared: Iterable[Source]) -> None:
        self.looked += [each.name for each in declared]

    async def __aenter__(self) -> "Durable":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("unread", "streams"), [(0, ["a", "b"]), (9, ["b"])])
async def test_streams_are_left_out_whose_messages_are_not_all_read(
    unread: int, streams: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    topology.view("board", of=orders, handler=lambda event: None)
    missing = (Missing(4, 6, 3),)
    found = [
        OpenGap("board", 0, each, 3, missing, 1, 3, 1000, 1, parked=False, due=None)
        for each in ("a", "b")
    ]

    async def gaps(app: object, **_: Any) -> Ledger:
        return Ledger(9_000_000, 10, found, unread=unread)

    monkeypatch.setattr(bulk, "gaps", gaps)
    monkeypatch.setattr(bulk, "DurableState", Durable)
    monkeypatch.setattr(bulk, "UnreadStreams", Unread)
    app = SimpleNamespace(engine=SimpleNamespace(topology=topology))
    chosen = await bulk._chosen(app, "skip", StreamSelection(older_than=7200))
    assert [each.stream for each in chosen.commands] == streams
    assert all(each.only_missing and each.sequence == 6 for each in chosen.commands)
    assert chosen.unread == 2 - len(streams)


@pytest.mark.parametrize("name", ["redrive", "unpark"])
@pytest.mark.parametrize(("routed", "says"), [(1, "1 stream of a stage"), (3, "3 streams of st")])
@pytest.mark.parametrize("reason", ["", "no"])
async def test_what_a_stage_that_routes_has_parked_is_left_as_it_is(
    name: str, routed: int, says: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    topology.view("board", of=orders, handler=lambda event: None)
    aside = [
        ParkedStream("stage.orders", 0, f"={n}", 0, n, 1, "no such table") for n in range(routed)
    ]
    found = [*aside, ParkedStream("board", 0, "a", 1000, 4, 1, "not yet")]

    async def parked(app: object, **_: Any) -> ParkedStreams:
        return ParkedStreams(9_000_000, found)

    monkeypatch.setattr(bulk, "parked", parked)
    app = SimpleNamespace(engine=SimpleNamespace(topology=topology))
    chosen = await bulk._chosen(app, name, StreamSelection(reason=reason))
    assert [(each.view, each.stream) for each in chosen.commands] == [("board", "a")]
    (told,) = chosen.unseen
    assert told.startswith(says)
    assert f"`sequitur route {name}`" in told
    # Those that are not meant are not told of.
    assert not (await bulk._chosen(app, name, StreamSelection(reason="not yet"))).unseen


def test_what_was_left_out_is_told() -> None:
    made = BulkResult("skip", dry_run=False, unread=2)
    assert str(made).splitlines()[-1].startswith("2 streams were left out: what is missing may")
    assert made.as_dict()["unread"] == 2
