"""Where the watch begins: in partitions in which it has never been, in topics made anew, and
behind what it has not done."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from sequitur.alerts.config import read_config
from sequitur.alerts.watch import Watch


class Consumer:
    """Partitions of offsets 3 to 9; what is committed in them, and where it was sent to.

    times: of their records (ms), from offset 3 on; None for one that nobody is shown.
    """

    def __init__(self) -> None:
        self.times: dict[int, list[int | None]] = {}
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.at: dict[TopicPartition, int] = {}

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.at = {}

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 3)

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 9)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[Any, Any]:
        found = {}
        for at, since in times.items():
            there = (n for n, when in self._records(at, 3) if when >= since)
            offset = next(there, None)
            found[at] = None if offset is None else SimpleNamespace(offset=offset)
        return found

    def _records(self, at: TopicPartition, start: int) -> list[tuple[int, int]]:
        records = enumerate(self.times.get(at.partition, []), 3)
        return [(n, when) for n, when in records if n >= start and when is not None]

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Any]]:
        assert max_records == 1
        for at in places:
            if found := self._records(at, self.at[at]):
                self.at[at] = found[0][0] + 1
                return {at: [SimpleNamespace(timestamp=found[0][1])]}
            self.at[at] = 9
        return {}

    async def position(self, at: TopicPartition) -> int:
        return self.at[at]

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
            '[[pattern]]\nname = "refused"\nactions = ["note"]\nwithin = "5m"\nquiet = "0"\n'
            '[action.note]\ncommand = ["true"]\neach = "10m"\n'
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


HOURS, MINUTE = 3 * 3600 * 1000, 60_000


@pytest.mark.parametrize(
    ("minutes", "done", "begins"),
    [
        # Those within ten minutes, of action and twice of pattern, before the first not done.
        ([0, 7, 8, 9, 10, 20], 7, 3),
        ([0, 7, 8, 9, 18, 19], 7, 5),
        # The first one that is not done is hidden, as one of a transaction that was given up.
        ([0, 7, 8, 9, None, 18], 7, 5),
        ([0, 7, 8, 9, None, None], 7, 7),
        ([0, 7, 8, 9, 10, 11], 9, 9),
        # What was not done is gone.
        ([0, 7, 8, 9, 10, 11], 1, 3),
    ],
)
async def test_it_reads_back_from_the_first_record_that_is_not_done(
    minutes: list[int | None], done: int, begins: int, tmp_path: Path
) -> None:
    watch, long_ago = Watched(tmp_path), int(time.time() * 1000) - HOURS
    watch.consumer.times[0] = [None if n is None else long_ago + n * MINUTE for n in minutes]
    watch.consumer.offsets[TopicPartition("shop.errors", 0)] = OffsetAndMetadata(done, "id")
    assert await watch.look(p0="id") == {0: begins}
    assert watch.consumer.offsets[TopicPartition("shop.errors", 0)].offset == max(done, 3)


async def test_it_reads_back_by_the_first_one_that_is_not_done_of_all_partitions(
    tmp_path: Path,
) -> None:
    watch, now = Watched(tmp_path), int(time.time() * 1000)
    watch.consumer.times = {
        0: [now - HOURS + n * MINUTE for n in range(6)],
        1: [now - HOURS + n * MINUTE for n in (-60, -1, 1, 2, 3, 4)],
    }
    for number, done in ((0, 8), (1, 9)):
        at = TopicPartition("shop.errors", number)
        watch.consumer.offsets[at] = OffsetAndMetadata(done, "id")
    assert await watch.look(p0="id", p1="id") == {0: 3, 1: 4}
