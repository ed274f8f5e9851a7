"""A disk that takes no write for now: the loop goes on, and the write comes when there is room."""

import asyncio
import threading

import pytest

from stores.view_state.memory import MemoryTable
from stores.view_state.table import TableBusy, TableError, TableFull
from topology.faust.worker.disk import writing
from topology.faust.worker.disk.in_thread import aside
from topology.faust.worker.disk.writing import write


class Full(MemoryTable):
    """Takes nothing so many times."""

    left = 0
    tries = 0

    def write(self, rows: object, offset: int | None = None) -> None:
        self.tries += 1
        if self.left > 0:
            self.left -= 1
            raise TableBusy("the table in here has taken no write")
        super().write(rows, offset)  # type: ignore[arg-type]


async def test_a_write_waits_for_room_and_the_loop_does_not() -> None:
    table, others = Full(), 0
    table.left = 5

    async def other() -> None:
        nonlocal others
        while table.left:
            others += 1
            await asyncio.sleep(0)

    await asyncio.gather(write(table, [(b"pa", b"1")], 7), other())
    assert (table.get(b"pa"), table.offset, table.tries) == (b"1", 7, 6)
    assert others > 5


async def test_a_disk_that_takes_nothing_for_long_is_full_and_says_what_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "PATIENCE", 0.01)
    table = Full()
    table.left = 1_000_000
    with pytest.raises(TableFull, match=r"has taken no write for 0 s; make room on the disk"):
        await write(table, [(b"pa", b"1")], 7)
    table.left = 0
    await write(table, [(b"pa", b"1")], 7)
    assert table.get(b"pa") == b"1"


async def test_a_write_in_hand_can_be_given_up() -> None:
    """As when the worker is told to stop."""
    table = Full()
    table.left = 1_000_000
    writer = asyncio.create_task(write(table, [(b"pa", b"1")], 7))
    while table.tries < 3:
        await asyncio.sleep(0.001)
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer


async def test_work_that_blocks_holds_up_neither_the_loop_nor_who_gives_up_waiting() -> None:
    let_go, went_on = threading.Event(), 0

    async def other() -> None:
        nonlocal went_on
        for _ in range(20):
            went_on += 1
            await asyncio.sleep(0)
        let_go.set()

    waiting = asyncio.create_task(aside(lambda: let_go.wait(60)))
    await other()
    assert (await waiting, went_on) == (True, 20)
    let_go.clear()
    stuck = asyncio.create_task(aside(lambda: let_go.wait(60)))
    await asyncio.sleep(0)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    let_go.set()


async def test_what_work_raises_comes_to_who_waits() -> None:
    def work() -> None:
        raise TableError("no")

    with pytest.raises(TableError, match="no"):
        await aside(work)
