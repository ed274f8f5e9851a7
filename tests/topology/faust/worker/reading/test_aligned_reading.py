"""Partitions that wait for each other count whom they waited for no longer, each time once."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology import Record
from topology.engine.intake import IntakeCounts
from topology.engine.partition import Alignment
from topology.engine.partition.group_alignment import LONGEST
from topology.faust.worker.reading import alignment as module
from topology.faust.worker.reading.alignment import AlignedReading

PLACES = [TopicPartition("in", number) for number in range(3)]


class NoOthers:
    async def is_ahead(self) -> bool:
        return False

    def take_passed(self) -> int:
        return 0


@pytest.mark.parametrize("waits", [True, False])
async def test_that_one_is_passed_over_counts_once(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """waits: or it has stood still for long when the others ask."""
    clock = SimpleNamespace(now=1_000)
    monkeypatch.setattr(module, "wall", lambda: clock.now)
    alignment = Alignment(0)
    alignment.note(PLACES[0], 5, clock.now)
    counts = [IntakeCounts(), IntakeCounts()]
    if not waits:
        clock.now += 60_000
    tasks: list[Any] = [
        asyncio.create_task(
            AlignedReading(alignment, NoOthers(), place, intake).admit(  # type: ignore[arg-type]
                [Record(place.topic, place.partition, 0, None, b"", timestamp=900)],
                lambda: True,
            )
        )
        for place, intake in zip(PLACES[1:], counts, strict=True)
    ]
    await asyncio.sleep(0.02)
    assert any(task.done() for task in tasks) is not waits
    clock.now += 60_000
    await asyncio.gather(*tasks)
    assert [sum(each.held for each in counts), sum(each.passed for each in counts)] == [
        2 if waits else 0,
        1,
    ]


async def test_one_records_time_holds_its_partition_up_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record of tomorrow, while another partition moves on through its backlog."""
    clock = SimpleNamespace(now=1_000)
    monkeypatch.setattr(module, "wall", lambda: clock.now)
    monkeypatch.setattr(module, "LOOK", 0)
    alignment, intake = Alignment(0), IntakeCounts()
    alignment.note(PLACES[0], 0, clock.now)
    reading = AlignedReading(alignment, NoOthers(), PLACES[1], intake)  # type: ignore[arg-type]
    tomorrow = Record("in", 1, 0, None, b"", timestamp=86_400_000)
    task = asyncio.create_task(reading.admit([tomorrow], lambda: True))
    await asyncio.sleep(0)
    for time in range(1_000, LONGEST, 1_000):
        assert not task.done()
        clock.now += 1_000
        alignment.note(PLACES[0], time, clock.now)
        await asyncio.sleep(0)
    clock.now += 1_000
    alignment.note(PLACES[0], LONGEST, clock.now)
    await task
    assert (intake.held, intake.passed) == (1, 1)


async def test_a_fetch_that_brings_nothing_is_an_end_only_where_there_is_one() -> None:
    alignment, intake = Alignment(0), IntakeCounts()
    alignment.note(PLACES[0], 5, 0)
    reading = AlignedReading(alignment, NoOthers(), PLACES[0], intake)  # type: ignore[arg-type]
    await reading.admit([], lambda: False)
    assert not alignment.may_take(PLACES[1], 900, 0)
    await reading.admit([], lambda: True)
    assert alignment.may_take(PLACES[1], 900, 0)


async def test_the_time_of_one_record_is_not_that_of_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of tomorrow, at its beginning or at its end."""
    monkeypatch.setattr(module, "wall", lambda: 1_000)
    alignment, intake = Alignment(0), IntakeCounts()
    alignment.note(PLACES[0], 30, 1_000)
    reading = AlignedReading(alignment, NoOthers(), PLACES[1], intake)  # type: ignore[arg-type]
    times = [86_400_000, 10, 11, 20, 21, 86_400_000]
    batch = [Record("in", 1, at, None, b"", timestamp=time) for at, time in enumerate(times)]
    await reading.admit(batch, lambda: False)
    assert (intake.held, intake.time) == (0, 21)
