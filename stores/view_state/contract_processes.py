"""The contract of a store over the end of processes: restarts, kills, two workers, damage."""

import random
from contextlib import closing

import pytest

from stores.view_state.by_url import open_store
from stores.view_state.contract_kit import (
    FILL,
    GROUP,
    IDLE,
    Rows,
    StoreUnderTest,
    all_rows,
    claimed,
    state_at,
    uses,
)
from stores.view_state.table import TableError, TableFenced


class ProcessesContract(StoreUnderTest):
    """A test that a backend is not made for is skipped, and says why."""

    # Several processes

    def test_processes_write_different_views_at_once(self) -> None:
        self.applies(self.durable, "its tables end with the process")
        processes = [self.run(FILL, view, "40") for view in ("a", "b", "c")]
        for process in processes:
            process.communicate(timeout=120)
        assert [process.returncode for process in processes] == [0, 0, 0]
        store = open_store(self.url, GROUP)
        for view in ("a", "b", "c"):
            with claimed(store, view) as table:
                assert (table.offset, all_rows(table)) == (40, state_at(40))
        store.close()

    # Restarts

    def test_a_table_that_is_opened_again_is_the_same(self) -> None:
        self.applies(self.durable, "its tables end with the process")
        for offset in (7, 8, 9):
            store = open_store(self.url, GROUP)
            with claimed(store) as table:
                assert table.offset == (None if offset == 7 else offset - 1)
                table.write([(b"p%d" % offset, b"x"), (b"p", b"%d" % offset)], offset)
            store.close()
        store = open_store(self.url, GROUP)
        with claimed(store) as table:
            assert (table.offset, len(all_rows(table)), table.get(b"p")) == (9, 4, b"9")
        store.close()

    def test_a_process_killed_while_it_writes_leaves_one_write_and_not_half_of_the_next(
        self,
    ) -> None:
        self.applies(self.durable, "its tables end with the process")
        offset, chance = 0, random.Random(5)
        for _ in range(4):
            told, until = 0, offset + chance.randrange(50, 120)
            with self.run(FILL, "board", "1000000") as process:
                assert process.stdout is not None
                while told < until:
                    told = int(process.stdout.readline())
                process.kill()
                told = max([told, *(int(n) for n in process.stdout if n.endswith(b"\n"))])
            store = open_store(self.url, GROUP)
            with claimed(store) as table:
                found = table.offset or 0
                assert all_rows(table) == state_at(found)
            store.close()
            assert (told if self.keeps_all else offset) <= found <= told + 1
            offset = found
        assert offset > 0

    # Two workers on one server

    def test_of_two_workers_only_the_one_that_claimed_last_reads_and_writes(self) -> None:
        self.applies(self.shared, "its workers share no server")
        stores = [open_store(self.url, GROUP) for _ in range(2)]
        old, new = (store.table("board", 0) for store in stores)
        old.claim()
        old.write([(b"pa", b"1"), (b"pb", b"1")], 5)
        new.claim()
        assert (new.offset, all_rows(new)) == (5, {b"pa": b"1", b"pb": b"1"})
        for forbidden in uses(old):
            with pytest.raises(TableFenced, match="another worker"):
                forbidden()
        new.write([(b"pa", b"2")], 6)
        for forbidden in uses(old):
            with pytest.raises(TableFenced, match="another worker"):
                forbidden()
        assert (new.offset, all_rows(new)) == (6, {b"pa": b"2", b"pb": b"1"})
        old.claim()
        assert (old.offset, all_rows(old)) == (6, {b"pa": b"2", b"pb": b"1"})
        with pytest.raises(TableFenced):
            new.write([(b"pa", b"3")], 7)
        for store in stores:
            store.close()

    def test_a_table_is_only_to_look_at_until_it_is_claimed(self) -> None:
        self.applies(self.shared, "its workers share no server")
        stores = [open_store(self.url, GROUP) for _ in range(2)]
        worker, looker = (store.table("board", 0) for store in stores)
        worker.claim()
        worker.write([(b"pa", b"1")], 5)
        assert all_rows(looker) == {b"pa": b"1"}
        for write in uses(looker)[-2:]:
            with pytest.raises(TableFenced, match="claim"):
                write()
        worker.write([(b"pa", b"3")], 7)
        assert (looker.get(b"pa"), worker.offset) == (b"3", 7)
        for store in stores:
            store.close()

    # Size

    def test_idle_streams_cost_the_process_no_memory(self) -> None:
        self.applies(self.memory is not None, "it keeps its rows in the process's memory")
        process = self.run(IDLE, "idle", str(self.streams))
        told, _ = process.communicate(timeout=500)
        assert process.returncode == 0
        grown, found = map(int, told.split())
        assert found == 1
        assert grown < (self.memory or 0)

    # Trouble

    def test_a_damaged_or_absent_store_says_so_or_begins_anew_and_never_makes_rows_up(self) -> None:
        rows = [(b"p%04d" % number, b"%d" % number) for number in range(3000)]
        store = open_store(self.url, GROUP)
        with claimed(store) as table:
            table.write(rows, 17)
        store.close()
        said = "or else it is caught up from the changelog"
        same_or_none: tuple[tuple[int | None, Rows], ...] = ((None, {}), (17, dict(rows)))
        recover = self.spoil()
        try:
            store = open_store(self.url, GROUP)
            with closing(store), claimed(store) as table:
                assert (table.offset, all_rows(table)) in same_or_none
        except TableError as error:
            said = str(error)
        finally:
            recover()
        assert "from the changelog" in said
        store = open_store(self.url, GROUP)
        with closing(store), claimed(store) as table:
            assert (table.offset, all_rows(table)) in same_or_none
            table.clear()
            table.write(rows, 18)
            assert all_rows(table) == dict(rows)
