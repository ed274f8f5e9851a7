"""What every view-state store has to do: a pytest class for your own backend to inherit.

    class TestMyStore(ViewStoreContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.url = f"my_package.my_store:open_it?{tmp_path}"

`url` is anything that SEQUITUR_STORE takes, and a new place for each test.
"""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores.view_stores import open_store
from stores.view_table import Row, Store, TableError, TableFenced, ViewTable

Rows = dict[bytes, bytes]
ALL = (b"\1", b"\xff" * 80)
"""The range of all keys."""
GROUP = "shop"

_keys = st.one_of(
    st.sampled_from([b"c", b"pa", b"pa\0", b"pb", b"p\xff", b"ba\0\x80", b"ba\0\x7f", b"\xff\xff"]),
    st.binary(min_size=1, max_size=3).filter(lambda key: key[0] > 0),
)
_rows = st.lists(st.tuples(_keys, st.one_of(st.none(), st.binary(max_size=20))), max_size=12)


class ViewStoreContract:
    """Inherit, set `url` for each test, and say what the backend is like.

    durable: whether tables outlive the process. keeps_all: whether a killed process loses nothing
    that it wrote, rather than the last writes. shared: whether workers share a server. streams:
    how many idle streams the test of them has. memory: bytes they may add to the process, None for
    a backend that is in memory.
    """

    url: str
    durable: ClassVar[bool] = True
    keeps_all: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    streams: ClassVar[int] = 1_000_000
    memory: ClassVar[int | None] = 200 << 20

    def spoil(self) -> Callable[[], None]:
        """Damage the store's files, or stop its server; returns what mends it as an operator may.

        Nothing of it is open in this process.
        """
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = open_store(self.url, GROUP)
        yield store
        store.close()

    # Rows

    def test_a_new_table_is_empty_and_has_no_offset(self, store: Store) -> None:
        with _claimed(store) as table:
            assert (table.offset, table.get(b"pa"), list(table.scan(*ALL))) == (None, None, [])

    def test_what_is_written_is_read_and_what_is_deleted_is_gone(self, store: Store) -> None:
        with _claimed(store) as table:
            table.write([(b"pa", b"1"), (b"pb", b""), (b"pc", bytes(range(256)))], 5)
            assert table.get(b"pa") == b"1"
            assert table.get(b"pb") == b""
            assert table.get(b"pc") == bytes(range(256))
            table.write([(b"pa", None), (b"never", None), (b"pb", b"2")], 6)
            assert (table.get(b"pa"), table.get(b"never"), table.get(b"pb")) == (None, None, b"2")
            assert _all(table) == {b"pb": b"2", b"pc": bytes(range(256))}

    def test_of_a_key_s_rows_in_one_write_the_last_one_counts(self, store: Store) -> None:
        with _claimed(store) as table:
            table.write([(b"pa", b"1"), (b"pa", None), (b"pb", None), (b"pb", b"2")], 5)
            assert _all(table) == {b"pb": b"2"}

    def test_a_scan_goes_by_bytes_from_its_first_key_to_before_its_end(self, store: Store) -> None:
        keys = [b"b", b"ba\0\x00", b"ba\0\x7f", b"ba\0\x80", b"ba\0\xff", b"bb", b"c", b"p\xc3\xa4"]
        with _claimed(store) as table:
            table.write([(key, key) for key in reversed(keys)], 1)
            assert [key for key, _ in table.scan(*ALL)] == keys
            assert [key for key, _ in table.scan(b"ba\0", b"bb")] == keys[1:5]
            assert [key for key, _ in table.scan(b"ba\0\x80", b"ba\0\xff")] == keys[3:4]
            assert list(table.scan(b"c", b"c")) == list(table.scan(b"d", b"b")) == []

    def test_a_scan_of_many_rows_may_be_left_and_read_beside(self, store: Store) -> None:
        rows = [(b"p%05d" % number, b"%d" % number) for number in range(2500)]
        with _claimed(store) as table:
            table.write(rows, 1)
            assert list(table.scan(b"p", b"q")) == rows
            for (key, value), _ in zip(table.scan(b"p", b"q"), range(700), strict=False):
                assert table.get(key) == value
            assert next(table.scan(b"p01", b"q")) == rows[1000]

    def test_a_long_key_and_a_large_value_fit(self, store: Store) -> None:
        key, value = b"b" + b"\xc3\xa4" * 1024 + b"\0" + b"\x80" * 8, b"\0\xff" * (2 << 20)
        with _claimed(store) as table:
            table.write([(key, value), (key + b"\1", value)], 1)
            assert table.get(key) == value
            assert [found for found, _ in table.scan(key, key + b"\2")] == [key, key + b"\1"]

    # Offset

    def test_the_offset_is_that_of_the_last_write_that_had_one(self, store: Store) -> None:
        with _claimed(store) as table:
            table.write([], 0)
            assert table.offset == 0
            table.write([(b"pa", b"1")], 2**40)
            table.write([(b"pb", b"1")])
            assert table.offset == 2**40

    def test_a_cleared_table_is_a_new_one(self, store: Store) -> None:
        with _claimed(store) as table:
            table.write([(b"pa", b"1")], 5)
            table.clear()
            assert (table.offset, _all(table)) == (None, {})
            table.write([(b"pb", b"2")], 6)
            assert (table.offset, _all(table)) == (6, {b"pb": b"2"})

    def test_a_write_that_cannot_be_is_none_at_all(self, store: Store) -> None:
        with _claimed(store) as table:
            table.write([(b"pa", b"1")], 5)

            def rows() -> Iterator[Row]:
                yield b"pa", b"2"
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                table.write(rows(), 6)
            assert (table.offset, _all(table)) == (5, {b"pa": b"1"})

    # Views and partitions

    def test_views_and_partitions_and_groups_are_apart(self, store: Store) -> None:
        names = [("a", 1), ("a", 11), ("a:1", 1), ("a/1", 1), ("A", 1), ("a", 0)]
        tables = [store.table(view.replace("/", "-"), number) for view, number in names]
        for at, table in enumerate(tables):
            table.claim()
            table.write([(b"pa", b"%d" % at), (b"p%d" % at, b"x")], at)
        for at, table in enumerate(tables):
            expected = {b"pa": b"%d" % at, b"p%d" % at: b"x"}
            assert (table.offset, _all(table)) == (at, expected)
        tables[0].clear()
        assert [table.offset for table in tables] == [None, 1, 2, 3, 4, 5]
        assert _all(tables[1]) == {b"pa": b"1", b"p1": b"x"}
        if self.durable:
            other = open_store(self.url, GROUP + "2")
            with _claimed(other, "a", 11) as table:
                assert (table.offset, _all(table)) == (None, {})
            other.close()
        for table in tables:
            table.close()

    def test_processes_write_different_views_at_once(self) -> None:
        if not self.durable:
            return
        processes = [self._run(_FILL, view, "40") for view in ("a", "b", "c")]
        for process in processes:
            process.communicate(timeout=120)
        assert [process.returncode for process in processes] == [0, 0, 0]
        store = open_store(self.url, GROUP)
        for view in ("a", "b", "c"):
            with _claimed(store, view) as table:
                assert (table.offset, _all(table)) == (40, _state_at(40))
        store.close()

    # As any map

    @settings(
        max_examples=25,
        deadline=None,
        # The method is of several classes, each example empties the table that it uses, and how
        # fast a busy machine makes examples says nothing of a store.
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(
        st.lists(st.tuples(_rows, st.booleans()), max_size=8),
        st.lists(st.tuples(_keys, _keys), max_size=5),
    )
    def test_any_writes_come_to_what_a_sorted_map_comes_to(
        self, writes: list[tuple[list[Row], bool]], ranges: list[tuple[bytes, bytes]]
    ) -> None:
        store, model = open_store(self.url, GROUP), dict[bytes, bytes]()
        table = store.table("any", 0)
        table.claim()
        table.clear()
        for offset, (rows, reopened) in enumerate(writes):
            table.write(rows, offset)
            for key, value in rows:
                if value is None:
                    model.pop(key, None)
                else:
                    model[key] = value
            if self.durable and reopened:
                table.close()
                store.close()
                store = open_store(self.url, GROUP)
                table = store.table("any", 0)
                table.claim()
            assert table.offset == offset
        for first, end in [ALL, *ranges]:
            expected = [(key, model[key]) for key in sorted(model) if first <= key < end]
            assert list(table.scan(first, end)) == expected
        for first, _ in ranges:
            assert table.get(first) == model.get(first)
        table.close()
        store.close()

    # Restarts

    def test_a_table_that_is_opened_again_is_the_same(self) -> None:
        if not self.durable:
            return
        for offset in (7, 8, 9):
            store = open_store(self.url, GROUP)
            with _claimed(store) as table:
                assert table.offset == (None if offset == 7 else offset - 1)
                table.write([(b"p%d" % offset, b"x"), (b"p", b"%d" % offset)], offset)
            store.close()
        store = open_store(self.url, GROUP)
        with _claimed(store) as table:
            assert (table.offset, len(_all(table)), table.get(b"p")) == (9, 4, b"9")
        store.close()

    def test_a_process_killed_while_it_writes_leaves_one_write_and_not_half_of_the_next(
        self,
    ) -> None:
        if not self.durable:
            return
        offset, chance = 0, random.Random(5)
        for _ in range(4):
            told, until = 0, offset + chance.randrange(50, 120)
            with self._run(_FILL, "board", "1000000") as process:
                assert process.stdout is not None
                while told < until:
                    told = int(process.stdout.readline())
                process.kill()
                told = max([told, *(int(n) for n in process.stdout if n.endswith(b"\n"))])
            store = open_store(self.url, GROUP)
            with _claimed(store) as table:
                found = table.offset or 0
                assert _all(table) == _state_at(found)
            store.close()
            assert (told if self.keeps_all else offset) <= found <= told + 1
            offset = found
        assert offset > 0

    # Two workers on one server

    def test_of_two_workers_only_the_one_that_claimed_last_reads_and_writes(self) -> None:
        if not self.shared:
            return
        stores = [open_store(self.url, GROUP) for _ in range(2)]
        old, new = (store.table("board", 0) for store in stores)
        old.claim()
        old.write([(b"pa", b"1"), (b"pb", b"1")], 5)
        new.claim()
        assert (new.offset, _all(new)) == (5, {b"pa": b"1", b"pb": b"1"})
        for forbidden in _uses(old):
            with pytest.raises(TableFenced, match="another worker"):
                forbidden()
        new.write([(b"pa", b"2")], 6)
        for forbidden in _uses(old):
            with pytest.raises(TableFenced, match="another worker"):
                forbidden()
        assert (new.offset, _all(new)) == (6, {b"pa": b"2", b"pb": b"1"})
        old.claim()
        assert (old.offset, _all(old)) == (6, {b"pa": b"2", b"pb": b"1"})
        with pytest.raises(TableFenced):
            new.write([(b"pa", b"3")], 7)
        for store in stores:
            store.close()

    def test_a_table_is_only_to_look_at_until_it_is_claimed(self) -> None:
        if not self.shared:
            return
        stores = [open_store(self.url, GROUP) for _ in range(2)]
        worker, looker = (store.table("board", 0) for store in stores)
        worker.claim()
        worker.write([(b"pa", b"1")], 5)
        assert _all(looker) == {b"pa": b"1"}
        for write in _uses(looker)[-2:]:
            with pytest.raises(TableFenced, match="claim"):
                write()
        worker.write([(b"pa", b"3")], 7)
        assert (looker.get(b"pa"), worker.offset) == (b"3", 7)
        for store in stores:
            store.close()

    # Size

    def test_idle_streams_cost_the_process_no_memory(self) -> None:
        if self.memory is None:
            return
        process = self._run(_IDLE, "idle", str(self.streams))
        told, _ = process.communicate(timeout=500)
        assert process.returncode == 0
        grown, found = map(int, told.split())
        assert found == 1
        assert grown < self.memory

    # Trouble

    def test_a_damaged_or_absent_store_says_so_or_begins_anew_and_never_makes_rows_up(self) -> None:
        rows = [(b"p%04d" % number, b"%d" % number) for number in range(3000)]
        store = open_store(self.url, GROUP)
        with _claimed(store) as table:
            table.write(rows, 17)
        store.close()
        said = "or else it is caught up from the changelog"
        same_or_none: tuple[tuple[int | None, Rows], ...] = ((None, {}), (17, dict(rows)))
        mend = self.spoil()
        try:
            store = open_store(self.url, GROUP)
            with closing(store), _claimed(store) as table:
                assert (table.offset, _all(table)) in same_or_none
        except TableError as error:
            said = str(error)
        finally:
            mend()
        assert "from the changelog" in said
        store = open_store(self.url, GROUP)
        with closing(store), _claimed(store) as table:
            assert (table.offset, _all(table)) in same_or_none
            table.clear()
            table.write(rows, 18)
            assert _all(table) == dict(rows)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a program in a process of its own: it gets the URL, the group and these arguments."""
        command = [sys.executable, "-c", f"import sys\nsys.path[:0] = {sys.path!r}\n{program}"]
        return subprocess.Popen([*command, self.url, GROUP, *arguments], stdout=subprocess.PIPE)


class _claimed:
    """A table that is claimed, for as long as a test needs it."""

    def __init__(self, store: Store, view: str = "board", partition: int = 0) -> None:
        self._table = store.table(view, partition)

    def __enter__(self) -> ViewTable:
        self._table.claim()
        return self._table

    def __exit__(self, *_: object) -> None:
        self._table.close()


def _all(table: ViewTable) -> Rows:
    return dict(table.scan(*ALL))


def _uses(table: ViewTable) -> list[Callable[[], object]]:
    return [
        lambda: table.get(b"pa"),
        lambda: table.get(b"nothing"),
        lambda: list(table.scan(*ALL)),
        lambda: table.write([(b"pa", b"9")], 9),
        table.clear,
    ]


def _state_at(offset: int) -> Rows:
    """What the program `_FILL` has written when it is at an offset."""
    value = b"%d" % offset + b" " * 500
    rows = {b"k%03d" % number: value for number in range(400)} if offset else {}
    rows.update({b"u%06d" % unit: b"x" for unit in range(max(offset - 4, 1), offset + 1)})
    return rows


_FILL = """
from stores.view_stores import open_store
url, group, view, until = sys.argv[1:]
table = open_store(url, group).table(view, 0)
table.claim()
for unit in range((table.offset or 0) + 1, int(until) + 1):
    rows = [(b"k%03d" % number, b"%d" % unit + b" " * 500) for number in range(400)]
    table.write([*rows, (b"u%06d" % unit, b"x"), (b"u%06d" % (unit - 5), None)], unit)
    print(unit, flush=True)
table.close()
"""

_IDLE = """
import resource
from stores.view_stores import open_store
url, group, view, streams = sys.argv[1:]
table = open_store(url, group).table(view, 0)
table.claim()
table.write([(b"bx" + bytes(9), b"waits")], 1)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kilobytes, as Linux counts
before = peak()
for first in range(0, int(streams), 4000):
    table.write([(b"pstream-%d" % n, b"17") for n in range(first, first + 4000)], first + 2)
for n in range(0, int(streams), max(int(streams) // 997, 1)):
    assert table.get(b"pstream-%d" % n) == b"17"
print(peak() - before, sum(1 for _ in table.scan(b"b", b"c")))
"""
