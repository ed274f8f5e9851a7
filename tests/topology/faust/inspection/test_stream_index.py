"""A console's look costs what changed, or what there is of one stream, and not what there is of
all streams."""

import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.handled import driver_of
from topology import Event
from topology.diagnostics.explain import WaitingStreams, of_sequences, of_stream
from topology.diagnostics.explain.fold import Fold
from topology.engine.state.rows import COUNTS, buffer_key, encode_note, note_key, progress_key
from topology.faust.inspection import stream_index
from topology.faust.inspection.durable import DurableState, Span
from topology.faust.inspection.kept_folds import keep_folds
from topology.faust.inspection.stream_index import CHUNK, StreamIndex, token
from topology.model.event import Message, Record


def board(event: Event) -> None: ...


VIEW = driver_of(board).topology.views["board"]
Row = tuple[bytes, bytes | None]


class App:
    engine = SimpleNamespace(changelogs={"board": "changelog"})


class Changelog(DurableState):
    """A changelog in memory, of which it is counted what is read."""

    def __init__(self, rows: list[Row]) -> None:
        self.app, self.log, self.read = App(), rows, 0
        keep_folds(self.app)

    async def span(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
        return {each: Span(0, len(self.log)) for each in partitions}

    async def records(
        self, partition: TopicPartition, start: int, end: int
    ) -> AsyncGenerator[Message]:
        for offset in range(start, end):
            self.read += 1
            yield Record("changelog", 0, offset, *self.log[offset])

    async def stream(self, name: str) -> tuple[dict[bytes, bytes], int]:
        """(the rows for a stream's page, how many records were read for it)."""
        before = self.read
        fold = await self._fold("board", 0, of_stream(name), [token(progress_key(name))])
        return fold.rows, self.read - before


def handled(number: int) -> list[Row]:
    return [(progress_key(f"s{n}"), b"1") for n in range(number)]


@pytest.mark.parametrize("number", [10_000, 40_000])
async def test_a_stream_is_looked_at_without_reading_what_there_is_of_all_others(
    number: int,
) -> None:
    last: list[Row] = [(buffer_key("a|b", 3), b"\n3"), (note_key(7), encode_note(9, []))]
    durable = Changelog([(progress_key("a|b"), b"1"), *handled(number), (COUNTS, b"{}"), *last])
    await durable._fold("board", 0, of_sequences)
    assert durable.read == len(durable.log), "the whole of it is read once, at the start"
    whole = Fold(of_stream("a|b"))
    for key, value in durable.log:
        whole.take(key, value)
    rows, read = await durable.stream("a|b")
    assert rows == whole.rows
    assert read <= 2 * CHUNK
    durable.log += [(progress_key("a|b"), b"2"), (buffer_key("a|b", 3), None)]
    rows, read = await durable.stream("a|b")
    assert (rows[progress_key("a|b")], read) == (b"2", 2)
    assert await durable.stream("nobody") == ({COUNTS: b"{}", last[1][0]: last[1][1]}, 2)
    await durable._fold("board", 0, of_sequences)
    assert durable.read - len(durable.log) <= 3 * CHUNK


streams = st.sampled_from(["a", "a|b", "b", "é\0c"])
keys = st.one_of(
    streams.map(progress_key), st.builds(buffer_key, streams, st.integers(1, 5)), st.just(COUNTS)
)


@given(st.lists(keys, max_size=60), streams)
def test_all_rows_of_a_stream_are_where_it_is_said(found: list[bytes], stream: str) -> None:
    index, wanted = StreamIndex(), token(progress_key(stream))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stream_index, "CHUNK", 4)
        for offset, key in enumerate(found):
            index.note(offset * 3, key)  # compaction leaves holes
    there = [range(*each) for each in index.ranges([wanted])]
    for offset, key in enumerate(found):
        if token(key) == wanted:
            assert sum(offset * 3 in each for each in there) == 1
    assert there == sorted(there, key=lambda each: each.start)


def calls(work: Callable[[], object]) -> int:
    """How many calls a piece of work takes."""
    found = 0

    def count(*_: object) -> None:
        nonlocal found
        found += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_a_look_at_gaps_costs_what_changed_and_not_what_all_streams_are() -> None:
    found = list[int]()
    for number in (1_000, 10_000):
        known = WaitingStreams()
        for key, value in handled(number):
            known.take(key, value)
        for n in range(20):
            known.take(progress_key(f"w{n}"), b'{"last":1,"since":7}')
            known.take(buffer_key(f"w{n}", 3), b"")
        assert len([*known.gaps(VIEW, 0, VIEW.ordering)]) == 20
        known.take(buffer_key("w3", 5), b"")
        found.append(calls(lambda: [*known.gaps(VIEW, 0, VIEW.ordering)]))  # noqa: B023
    assert found[0] == found[1]
