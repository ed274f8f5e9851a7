"""The worker's tables: from which store they are, and what becomes of one that fails."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stores.view_state.memory import MemoryTable
from stores.view_state.rocksdb import RocksStore
from stores.view_state.table import TableError
from topology import Topology
from topology.faust import compile
from topology.faust.worker.tables import Tables


class Table(MemoryTable):
    """A table that counts its claims, and that can be told to fail when it is emptied."""

    claims = 0
    fails = False
    closed = False

    def claim(self) -> None:
        self.claims += 1

    def clear(self) -> None:
        if self.fails:
            raise TableError("the disk is gone")
        super().clear()

    def close(self) -> None:
        self.closed = True


class Store:
    """Hands out `Table`s, one after the other, with a row and at offset 5."""

    def __init__(self) -> None:
        self.opened: list[Table] = []

    def table(self, view: str, partition: int) -> Table:
        self.opened.append(Table())
        self.opened[-1].write([(b"pa", b"1")], 5)
        return self.opened[-1]

    def close(self) -> None:
        """Nothing to do."""


class Gate:
    """A piece of work that stands still until it is let through."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work, self.reached, self.open = work, threading.Event(), threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        self.reached.set()
        assert self.open.wait(60)
        return self.work(*arguments)

    async def stand(self, task: "asyncio.Task[Any]") -> None:
        """Let who waits for it be cancelled, once it stands there."""
        await asyncio.to_thread(self.reached.wait, 60)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def store() -> Store:
    return Store()


@pytest_asyncio.fixture
async def tables(store: Store) -> AsyncIterator[Tables]:
    tables = Tables(None, store)
    yield tables
    await tables.close_all()


def test_the_setting_chooses_the_store(tmp_path: Path) -> None:
    app = compile(Topology("t1"), datadir=str(tmp_path))
    assert isinstance(app.engine.tables.store, RocksStore)
    assert app.engine.tables.store.folder == tmp_path / "t1"
    with pytest.raises(TableError, match=r"of no known kind.*; use rocksdb, "):
        compile(Topology("t2"), view_state="rock://")


async def test_a_table_is_claimed_anew_whenever_its_partition_is_started(
    store: Store, tables: Tables
) -> None:
    first = await tables.opened("board", 0)
    assert await tables.opened("board", 0) is first
    assert ([table.claims for table in store.opened], first.offset) == ([2], 5)


async def test_a_table_that_was_closed_is_opened_anew_as_it_is(
    store: Store, tables: Tables
) -> None:
    table = await tables.opened("board", 0)
    await tables.close("board", 0)
    await tables.close("board", 1)
    assert store.opened[0].closed
    assert await tables.opened("board", 0) is not table
    assert [opened.offset for opened in store.opened] == [5, 5]


async def test_a_table_that_cannot_be_read_is_emptied_at_once(tables: Tables) -> None:
    table = await tables.opened("board", 0)
    await tables.discard("board", 0)
    assert (table.offset, table.get(b"pa")) == (None, None)


async def test_a_table_that_cannot_be_emptied_is_opened_anew_and_emptied_then(
    store: Store, tables: Tables
) -> None:
    failing, fine = await tables.opened("board", 0), await tables.opened("board", 1)
    failing.fails = True  # type: ignore[attr-defined]
    await tables.discard("board", 0)
    assert store.opened[0].closed
    again = await tables.opened("board", 0)
    assert again is not failing
    assert (again.offset, fine.offset) == (None, 5)
    again.write([(b"pa", b"2")], 6)
    assert (await tables.opened("board", 0)).offset == 6


class Stands(Table):
    """A table whose disk does not answer: what is done with it ends when it is let go."""

    gone = threading.Event()

    def close(self) -> None:
        self.gone.wait(60)


async def test_a_table_that_cannot_be_closed_does_not_keep_the_worker_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("topology.faust.worker.tables.STOP", 0.5)

    class Stuck(Store):
        def table(self, view: str, partition: int) -> Table:
            return Stands()

    tables = Tables(None, Stuck())
    await tables.opened("board", 0)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    heart = asyncio.create_task(beat())
    await tables.close_all()
    heart.cancel()
    Stands.gone.set()
    assert beats > 2, "the loop stood still"


async def emptied_for_nobody(tables: Tables) -> tuple[Any, Gate]:
    """A table that is being emptied behind a gate, though who wanted it is cancelled."""
    table = await tables.opened("board", 0)
    gate = Gate(table.clear)
    setattr(table, "clear", gate)  # noqa: B010
    await gate.stand(asyncio.create_task(tables.discard("board", 0)))
    return table, gate


async def test_a_table_that_is_still_being_emptied_for_who_was_cancelled_is_waited_for(
    store: Store, tables: Tables
) -> None:
    """It was taken for whole, and its rows went behind the restore's back."""
    table, gate = await emptied_for_nobody(tables)
    again = asyncio.create_task(tables.opened("board", 0))
    await asyncio.sleep(0.05)
    assert not again.done()
    gate.open.set()
    assert await again is table
    assert (table.offset, table.get(b"pa")) == (None, None)


async def test_a_table_that_was_opened_for_who_was_cancelled_is_the_next_one_s(
    store: Store, tables: Tables
) -> None:
    gate = Gate(store.table)
    setattr(store, "table", gate)  # noqa: B010
    await gate.stand(asyncio.create_task(tables.opened("board", 0)))
    again = asyncio.create_task(tables.opened("board", 0))
    gate.open.set()
    assert await again is store.opened[0]
    assert len(store.opened) == 1


async def test_and_is_closed_with_its_partition(store: Store, tables: Tables) -> None:
    gate = Gate(store.table)
    setattr(store, "table", gate)  # noqa: B010
    await gate.stand(asyncio.create_task(tables.opened("board", 0)))
    assert (tables.partitions("board"), tables.held("board")) == ([], [0])
    closing = asyncio.create_task(tables.close("board", 0))
    await asyncio.sleep(0.05)
    gate.open.set()
    await closing
    assert store.opened[0].closed
    assert tables.held("board") == []


async def test_a_table_whose_closing_is_cancelled_before_its_turn_is_the_next_one_s(
    store: Store, tables: Tables
) -> None:
    table, gate = await emptied_for_nobody(tables)
    closing = asyncio.create_task(tables.close("board", 0))
    await asyncio.sleep(0.05)
    closing.cancel()
    with suppress(asyncio.CancelledError):
        await closing
    gate.open.set()
    assert await tables.opened("board", 0) is table
    assert len(store.opened) == 1
