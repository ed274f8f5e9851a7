"""What suggest-timeouts reads, and what it says of its times and of what it does not try."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition

from topology import (
    Inspector,
    Topology,
    halt,
    opened_by,
    park,
    rebuild_stream,
    redeliver,
    skip,
)
from topology.diagnostics.trial_limits import untried
from topology.faust.inspection import recorded
from topology.faust.inspection.durable import Span
from topology.faust.inspection.recorded import STAMP, Reading
from topology.faust.inspection.suggested_timeouts import SuggestedTimeouts
from topology.model.event import Message, Record
from topology.model.origin_headers import ORIGIN, ORIGIN_KEY

NOW = 1_000_000


class FakeDurable:
    """Partitions of records, each (stream, sequence, timestamp)."""

    def __init__(self, *partitions: list[tuple[str, int, int]], first: int = 0) -> None:
        self.partitions, self.first, self.now = partitions, first, NOW

    async def span(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        first = self.first
        return {tp: Span(first, first + len(self.partitions[tp.partition])) for tp in partitions}

    async def records(self, tp: TopicPartition, start: int, end: int) -> AsyncIterator[Message]:
        for offset in range(start, end):
            stream, sequence, at = self.partitions[tp.partition][offset - self.first]
            body = {"id": stream, "n": sequence, "kind": "On", "part": sequence % 2}
            # The time that a source's own producer says is another one.
            headers = [(ORIGIN, b"orders/0/7/13"), (ORIGIN_KEY, b"k")]
            yield Record(
                tp.topic, tp.partition, offset, stream.encode(), orjson.dumps(body), headers, at
            )


def read(
    durable: FakeDurable, *, limit: int = 1000, keyed: bool = False, **policies: Any
) -> Reading:
    topology = Topology("shop")
    source = topology.source(
        "orders", inspector=Inspector(stream="id", sequence="n", kind="kind"), keyed=keyed,
        partitions=len(durable.partitions),
    )  # fmt: skip
    topology.view("plain", of=source)(lambda event: ())
    topology.view("board", of=source, **policies)(lambda event: ())
    reading = Reading(source, topology.views_of(source))
    asyncio.run(reading.read(durable, limit))  # type: ignore[arg-type]
    return reading


def told(reading: Reading, column: int = 0) -> list[list[tuple[str, int, int]]]:
    return [
        [(e.stream, e.sequence, e.arrived) for e in part.events(column)] for part in reading.parts
    ]


def test_a_partition_goes_by_when_its_own_records_were_written() -> None:
    one, other = [("a", 1, 100), ("a", 2, 90), ("a", 3, 110)], [("b", 1, 5)]
    reading = read(FakeDurable(one, other))
    assert told(reading) == [[("a", 1, 100), ("a", 2, 100), ("a", 3, 110)], [("b", 1, 5)]]
    assert reading.whole


def test_a_time_that_is_yet_to_come_holds_up_no_other() -> None:
    reading = read(FakeDurable([("a", 1, NOW * 9), ("a", 2, NOW)]), keyed=True)
    assert told(reading) == [[("a", 1, NOW), ("a", 2, NOW)]]


def test_no_more_than_the_limit_is_read_and_kept() -> None:
    parts = [[(f"s{n}", n, n) for n in range(1, 500)] for _ in range(2)]
    reading = read(FakeDurable(*parts), limit=20)
    assert [len(part) for part in reading.parts] == [10, 10]
    assert not reading.whole
    assert not read(FakeDurable([("a", 7, 1)], first=6)).whole
    for view in reading.views:
        assert reading.ordering(view)[2] == 1


def test_a_view_with_lanes_has_streams_of_its_own() -> None:
    reading = read(FakeDurable([("a", 1, 1), ("a", 2, 2)]), lane="part")
    columns = [reading.ordering(view)[1] for view in reading.views]
    assert [[e[0] for e in told(reading, column)[0]] for column in columns] == [
        ["a", "a"], ["a|1", "a|0"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keyed", "config", "words"),
    [
        (False, {}, "when the workers wrote to shop.orders.by-stream"),
        (True, {STAMP: "LogAppendTime"}, "when the broker appended to orders"),
        (True, {STAMP: "CreateTime"}, "NOT of arrival but as the producers set them"),
        (True, {}, f"{STAMP} of orders is unknown; 1 of them are earlier"),
    ],
)
def test_the_last_line_says_whose_times_these_are(
    keyed: bool, config: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def configs(app: Any, names: list[str]) -> dict[str, dict[str, str]]:
        return dict.fromkeys(names, config)

    monkeypatch.setattr(recorded, "configs", configs)
    reading = read(FakeDurable([("a", 1, 9), ("a", 2, 3)]), keyed=keyed)
    times = asyncio.run(reading.stamped(None))
    assert words in times
    for suggestions in ([], [Any]):
        found = SuggestedTimeouts("in", 2, 9, True, suggestions, 1.0, times=times)  # type: ignore[arg-type]
        assert str(found).splitlines()[-1] == times


@pytest.mark.parametrize(
    ("policies", "word"),
    [
        ({}, None),
        ({"gap": skip(after=9)}, None),
        ({"lane": "part"}, None),
        ({"full": redeliver()}, "redeliver"),
        ({"full": halt()}, "full=halt()"),
        ({"error": park()}, "error="),
        ({"gap": skip(after=9), "late": rebuild_stream()}, "rebuild_stream"),
        ({"start": opened_by("On")}, "opened_by"),
        ({"closes": "End", "retention": 3}, "closes"),
    ],
)
def test_what_of_a_view_is_not_tried_is_said(policies: dict[str, Any], word: str | None) -> None:
    reading = read(FakeDurable([("a", 1, 1)]), **policies)
    plain, board = reading.views
    assert untried(plain, True) == []
    notes = untried(board, False)
    assert len(notes) == (word is not None)
    found = SuggestedTimeouts(
        "in", 1, 0, True, [], 1.0, {"board": []}, {"board": notes}, "times: x"
    )
    for note in notes:
        assert word is not None
        assert word in note
        assert f"not as the view does: {note}" in str(found)
    assert bool(reading.ordering(board)[0].opens) == ("start" in policies)
