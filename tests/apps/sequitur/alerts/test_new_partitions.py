"""Where the watch begins in partitions in which it has never been."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition

from sequitur.alerts.config import read_config
from sequitur.alerts.watch import Watch

OLD, NEW = TopicPartition("shop.errors", 0), TopicPartition("shop.errors", 1)


class Consumer:
    """Partitions of offsets 3 to 9; what is committed in them, and where it was sent to."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.at: dict[TopicPartition, int] = {}

    def assign(self, places: Iterable[TopicPartition]) -> None:
        self.at = {}

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 3)

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 9)

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[Any, None]:
        return dict.fromkeys(times)

    async def committed(self, at: TopicPartition) -> int | None:
        return self.offsets.get(at)

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.offsets |= offsets

    def seek(self, at: TopicPartition, offset: int) -> None:
        self.at[at] = offset


@pytest.mark.parametrize("before", [[], [OLD]])
async def test_a_partition_that_appears_is_watched_from_its_first_record_on(
    before: list[TopicPartition], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text(
        'name = "shop-alerts"\ntopics = ["shop.errors"]\n'
        '[[pattern]]\nname = "refused"\nactions = ["note"]\n'
        '[action.note]\ncommand = ["true"]\n'
    )
    watch, consumer, stopped = Watch(read_config(file), {}), Consumer(), asyncio.Event()
    stopped.set()  # it looks once, and reads nothing
    there = list(before)

    async def places() -> list[TopicPartition]:
        return there

    monkeypatch.setattr(watch, "_places", places)
    await watch._read(consumer, stopped)
    assert consumer.at == dict.fromkeys(before, 9)
    there = [*before, NEW]
    await watch._read(consumer, stopped)
    assert consumer.at == {**dict.fromkeys(before, 9), NEW: 3}
