"""A partition's loop: what it commits, and what it says of an input that is not as it was."""

from collections.abc import Iterable, Sequence

import pytest

from topology import Record
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import PartitionLoop
from topology.engine.partition.loop import FAR
from topology.engine.partition.steps import Step


class Moves(Step):
    """Says how far the partition is read. rests: how often it is halted at first."""

    def __init__(self, rests: int = 0) -> None:
        self.rests = rests

    @property
    def halted(self) -> bool:  # type: ignore[override]
        self.rests -= 1
        return self.rests >= 0

    async def take(self, records: Sequence[Record]) -> CommitUnit:  # type: ignore[override]
        return self.move(records[-1].offset + 1, None)

    def move(self, position: int, unit: CommitUnit | None) -> CommitUnit:
        unit = CommitUnit("in", 0)
        unit.next_offset = position
        return unit


class Input:
    """A partition's records, of which those before `first` are deleted; and what the loop's host
    is told."""

    def __init__(self, offsets: Iterable[int], first: int = 0) -> None:
        self.records = [Record("in", 0, offset, None, b"") for offset in offsets]
        self.first, self.at, self.looks = first, 0, 5
        self.told: list[tuple[str, int, int]] = []
        self.commits: list[int | None] = []

    def seek(self, offset: int) -> None:
        self.at = max(offset, self.first)

    def pause(self) -> None: ...

    async def fetch(self, timeout: float) -> Sequence[Record]:
        found = [record for record in self.records if record.offset >= self.at][:1]
        if found:
            self.at = found[0].offset + 1
        return found

    async def position(self) -> int:
        return self.at

    async def commit(self, unit: CommitUnit) -> None:
        self.commits.append(unit.next_offset)

    async def sleep(self, seconds: float) -> None: ...

    def caught_up(self) -> bool:
        self.looks -= 1
        return not self.looks

    def log_truncated(self, position: int, first: int) -> None:
        self.told.append(("truncated", position, first))

    async def jumped(self, position: int, first: int) -> None:
        self.told.append(("jumped", position, first))


async def run(source: Input, start: int, committed: int | None = None, rests: int = 0) -> None:
    loop = PartitionLoop(Moves(rests), source, source, lambda: 0, start, committed)  # type: ignore[arg-type]
    await loop.run()


@pytest.mark.parametrize("committed", [0, 40])
async def test_where_all_was_deleted_before_it_was_read_the_group_is_told_that_it_is_read(
    committed: int,
) -> None:
    """Or a gap's barrier would wait until something comes."""
    source = Input([], first=100)
    await run(source, 100, committed)
    assert source.commits == [100]


async def test_an_idle_partition_commits_nothing() -> None:
    for start in (0, 100):
        source = Input([], first=start)
        await run(source, start)
        assert (source.commits, source.told) == ([], [])


async def test_a_jump_of_the_input_is_looked_into_if_markers_do_not_explain_it() -> None:
    source = Input([0, 2, 4, 5 + FAR])
    await run(source, 0)
    assert source.told == [("jumped", 5, 5 + FAR)]


async def test_what_was_deleted_while_a_view_was_halted_is_looked_into_however_little() -> None:
    source = Input([12, 14], first=12)
    await run(source, 10, rests=2)
    assert source.told == [("jumped", 10, 12)]
    source = Input([10, 12, 14])
    await run(source, 10, rests=2)
    assert source.told == []


async def test_what_was_deleted_may_be_seen_later_than_at_the_first_look() -> None:
    source = Input([12, 14], first=12)
    fetch, looks = source.fetch, iter([False, True, True, True, True])

    async def slow(timeout: float) -> Sequence[Record]:
        if next(looks):
            source.at = max(source.at, source.first)
            return await fetch(timeout)
        source.at = 10
        return []

    source.fetch = slow  # type: ignore[method-assign]
    await run(source, 10, rests=2)
    assert source.told == [("jumped", 10, 12)]
