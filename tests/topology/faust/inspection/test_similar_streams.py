"""A stream that no view knows: ids that come close are named."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from tests.topology.diagnostics.explain.durable import explained, send
from tests.topology.handled import driver_of
from topology import Event, Inspector, Topology
from topology.diagnostics.explain import account_text
from topology.engine.state.rows import COUNTS, buffer_key, progress_key
from topology.faust.inspection.similar_streams import similar_streams
from topology.model.event import Message, Record


def handle(event: Event) -> None: ...


class Changelogs:
    """Three partitions with a row of each of some streams, and rows that are of no stream."""

    def __init__(self, *streams: str) -> None:
        changelogs = {"board": "shop-board-changelog", "stock": "shop-stock-changelog"}
        self.app = SimpleNamespace(engine=SimpleNamespace(changelogs=changelogs))
        keys = [COUNTS, buffer_key("A-17", 4), *map(progress_key, streams)]
        self.rows = [Record("changelog", 0, at, key, b"7") for at, key in enumerate(keys)]
        self.rows.append(Record("changelog", 0, len(keys), progress_key("A-16"), None))
        self.read: list[TopicPartition] = []

    async def end_of(
        self, partition: TopicPartition, wanted: Callable[[Message], bool], *, most: int
    ) -> None:
        assert most > 0
        self.read.append(partition)
        assert not any(wanted(row) for row in self.rows[partition.partition :: 3])


def shop(lane: str | None) -> Topology:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"), partitions=3)
    for name in ("board", "stock"):
        topology.view(name, of=orders, handler=handle, lane=lane)
    return topology


@pytest.mark.parametrize(
    ("known", "lane", "similar"),
    [
        (("A-17", "B-4", "A-170000"), None, ("A-17",)),
        (("A-71", "A-18", "Zebra"), None, ("A-71", "A-18")),
        (("A-17|EUR", "A-17|USD"), "lane", ("A-17",)),
        (("payments", "B-4"), None, ()),
    ],
)
async def test_ids_that_come_close_are_found_in_all_partitions(
    known: tuple[str, ...], lane: str | None, similar: tuple[str, ...]
) -> None:
    changelogs: Any = Changelogs(*known)
    views = shop(lane).views.values()
    assert await similar_streams(changelogs, views, "a-17") == similar
    assert len(changelogs.read) == 3, "two views of a source know the same streams"


def test_an_account_of_a_stream_that_nobody_knows_names_them() -> None:
    driver = driver_of(handle)
    send(driver, 1)
    found = explained(driver, "a-71", similar=("A-17", "A\x1b7"))
    assert account_text(found).splitlines()[0] == (
        "stream a-71 in view board: the view has seen nothing of it "
        r"(did you mean 'A-17' or 'A\x1b7'?)"
    )
