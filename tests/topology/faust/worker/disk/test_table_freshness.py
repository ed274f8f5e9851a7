"""An old data folder does not revive what was dropped meanwhile."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from topology.faust.worker import tables as module
from topology.faust.worker.disk.table_freshness import (
    KEY,
    MARGIN,
    in_step_of,
    in_step_row,
    too_long,
)
from topology.faust.worker.tables import Tables
from topology.model.event import Record

DAY = 86_400_000
NOW = 1_700_000_000_000
PLACE = TopicPartition("changelog", 0)


class Changelog:
    """A consumer of one partition; what compaction removed is not there."""

    def __init__(self, records: dict[int, tuple[bytes, bytes | None, int]], end: int) -> None:
        self.records, self.end, self.at = records, end, 0
        self.read: list[int] = []

    def assign(self, _: object) -> None: ...

    async def beginning_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PLACE: 0}

    async def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {PLACE: self.end}

    def seek(self, _: object, offset: int) -> None:
        self.at = offset

    async def position(self, _: object) -> int:
        return self.at

    async def getmany(self, *_: object, **__: object) -> dict[TopicPartition, list[Record]]:
        found = [offset for offset in self.records if offset >= self.at]
        self.read += found
        self.at = self.end
        return {
            PLACE: [
                Record("changelog", 0, at, self.records[at][0], self.records[at][1], [], time)
                for at in found
                for time in [self.records[at][2]]
            ]
        }


async def restored(
    monkeypatch: pytest.MonkeyPatch,
    *,
    noted: int | None,
    offset: int | None,
    written: int = NOW,
    end: int = 40,
) -> tuple[dict[bytes, bytes], Changelog]:
    """What a table that has stream x comes to. x was dropped at 20, and that is compacted away."""
    table = MemoryTable()
    rows: list[Any] = [(b"px", b"3"), (b"py", b"1")]
    table.write(rows if noted is None else [*rows, in_step_row(noted)], offset)
    records = {1: (b"py", b"1", NOW - 90 * DAY), 30: (b"pz", b"1", written)}
    changelog = Changelog({at: row for at, row in records.items() if at < end}, end)
    tables = Tables(None, SimpleNamespace())

    async def kept(_: str) -> float:
        return DAY

    monkeypatch.setattr(tables, "_kept", kept)
    monkeypatch.setattr(module, "wall", lambda: NOW)
    await tables._catch_up(changelog, "board", table, PLACE)
    assert table.offset == end
    return dict(table.scan(b"a", b"\xff")), changelog


DROPPED = {b"py": b"1", b"pz": b"1"}


@pytest.mark.parametrize("noted", [NOW - 2 * DAY, NOW - 90 * DAY, None, NOW + DAY])
async def test_a_table_that_was_away_longer_than_deletions_stay_is_rebuilt(
    monkeypatch: pytest.MonkeyPatch, noted: int | None
) -> None:
    rows, changelog = await restored(monkeypatch, noted=noted, offset=10)
    assert rows == DROPPED
    assert 1 in changelog.read


async def test_a_clock_that_was_set_back_does_not_hide_how_long_it_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What others wrote meanwhile tells it."""
    rows, _ = await restored(monkeypatch, noted=NOW - 100, offset=10, written=NOW + 30 * DAY)
    assert rows == DROPPED


async def test_a_table_that_was_away_for_a_short_time_is_caught_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, changelog = await restored(monkeypatch, noted=NOW - DAY // 2, offset=10)
    assert changelog.read == [30]
    assert rows == {b"px": b"3", **DROPPED}


@pytest.mark.parametrize("offset", [40, 39])
async def test_a_table_behind_which_nothing_was_written_is_right_however_old_it_is(
    monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """Behind what it wrote last is the end of the transaction."""
    _, changelog = await restored(monkeypatch, noted=NOW - 90 * DAY, offset=offset)
    assert changelog.read == []


async def test_a_table_that_is_cut_off_while_it_is_caught_up_is_in_step_since_no_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it had not come to by then may be compacted away before it goes on."""
    table, noted = MemoryTable(), NOW - DAY // 2
    table.write([(b"px", b"3"), in_step_row(noted)], 10)
    tables = Tables(None, SimpleNamespace())

    async def kept(_: str) -> float:
        return DAY

    async def cut_off(*_: object) -> AsyncIterator[list[Record]]:
        yield [Record("changelog", 0, 12, b"py", b"1", [], NOW)]
        raise ConnectionError

    monkeypatch.setattr(tables, "_kept", kept)
    monkeypatch.setattr(module, "wall", lambda: NOW)
    monkeypatch.setattr(module, "read_range", cut_off)
    with pytest.raises(ConnectionError):
        await tables._catch_up(Changelog({}, 40), "board", table, PLACE)
    assert (table.offset, in_step_of(table)) == (13, noted)


async def test_a_rebuild_that_was_cut_off_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It notes when it began."""
    table = MemoryTable()
    table.write([in_step_row(NOW - 1000)], 20)
    assert in_step_of(table) == NOW - 1000
    assert table.get(KEY)
    rows, changelog = await restored(monkeypatch, noted=NOW - 1000, offset=20)
    assert changelog.read == [30]
    assert rows


@given(
    noted=st.integers(0, 2 * NOW), away=st.integers(0, 100 * DAY), kept=st.integers(1000, 10 * DAY)
)
def test_whoever_was_away_too_long_is_told_so(noted: int, away: int, kept: int) -> None:
    assert too_long(noted, noted + away, kept) == (away > kept * MARGIN)


async def test_a_record_that_no_engine_wrote_ends_no_restore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does it change where the table stands."""
    table = MemoryTable()
    rows: list[Any] = [(b"pa", b"{}"), (b"\0offset", b"7"), (None, b""), (b"pb", b"4")]
    changelog = Changelog({at: (key, value, NOW) for at, (key, value) in enumerate(rows)}, 4)
    tables = Tables(None, SimpleNamespace())

    async def kept(_: str) -> float:
        return DAY

    monkeypatch.setattr(tables, "_kept", kept)
    await tables._catch_up(changelog, "board", table, PLACE)
    assert dict(table.scan(b"\0", b"\xff")).keys() - {KEY} == {b"pb"}
    assert table.offset == 4
