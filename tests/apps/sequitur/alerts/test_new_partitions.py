"""Where the watch begins in partitions in which it has never been, and in topics made anew."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from sequitur.alerts.config import read_config
from sequitur.alerts.watch import Watch


class Consumer:
    """Partitions of offsets 3 to 9; what is committed in them, and where it was sent to."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.at: dict[TopicPartition, int] = {}

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.at = {}

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 3)

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 9)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[Any, None]:
        return dict.fromkeys(times)

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.offsets |= offsets

    def seek(self, at: TopicPartition, offset: int) -> None:
        self.at[at] = offset


class Watched(Watch):
    """A watch of those partitions. there: the id of each one's topic."""

    def __init__(self, tmp_path: Path) -> None:
        file = tmp_path / "alerts.toml"
        file.write_text(
            'name = "shop-alerts"\ntopics = ["shop.errors"]\n'
            '[[pattern]]\nname = "refused"\nactions = ["note"]\n'
            '[action.note]\ncommand = ["true"]\n'
        )
        super().__init__(read_config(file), {})
        self.consumer = Consumer()

    async def look(self, **there: str) -> dict[int, int]:
        """Where it reads on in each partition of a topic with this id."""
        self.there = {TopicPartition("shop.errors", int(n[1:])): id for n, id in there.items()}
        stopped = asyncio.Event()
        stopped.set()  # it looks once, and reads nothing
        await self._read(self.consumer, stopped)
        return {at.partition: offset for at, offset in self.consumer.at.items()}

    async def _places(self) -> dict[TopicPartition, str]:
        return self.there

    async def _committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.consumer.offsets


@pytest.mark.parametrize("before", [{}, {"p0": "id"}])
async def test_a_partition_that_appears_is_watched_from_its_first_record_on(
    before: dict[str, str], tmp_path: Path
) -> None:
    watch = Watched(tmp_path)
    assert await watch.look(**before) == ({0: 9} if before else {})
    assert await watch.look(**before, p1="id") == {**({0: 9} if before else {}), 1: 3}


@pytest.mark.parametrize("forgotten", [False, True])  # by the broker, with the topic
async def test_a_topic_that_was_made_anew_is_watched_from_its_first_record_on(
    forgotten: bool, tmp_path: Path
) -> None:
    watch = Watched(tmp_path)
    assert await watch.look(p0="old") == {0: 9}
    if forgotten:
        watch.consumer.offsets.clear()
    assert await watch.look(p0="new") == {0: 3}


@pytest.mark.parametrize("known", ["", "old"])
async def test_where_the_broker_tells_no_ids_it_goes_on_where_it_was(
    known: str, tmp_path: Path
) -> None:
    watch = Watched(tmp_path)
    assert await watch.look(p0=known) == {0: 9}
    assert await watch.look(p0="") == {0: 9}
