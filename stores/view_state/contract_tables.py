"""The contract of one table: rows, scans, offsets; and that no table is another one."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores.view_state.by_url import open_store
from stores.view_state.contract_kit import ALL, GROUP, StoreUnderTest, all_rows, claimed
from stores.view_state.table import Store
from topology.model.partition_table import KEY_BYTES, Row

_keys = st.one_of(
    st.sampled_from([b"c", b"pa", b"pa\0", b"pb", b"p\xff", b"ba\0\x80", b"ba\0\x7f", b"\xff\xff"]),
    st.binary(min_size=1, max_size=3).filter(lambda key: key[0] > 0),
)
_rows = st.lists(st.tuples(_keys, st.one_of(st.none(), st.binary(max_size=20))), max_size=12)


class TablesContract(StoreUnderTest):
    """Needs no other process."""

    # Rows

    def test_a_new_table_is_empty_and_has_no_offset(self, store: Store) -> None:
        with claimed(store) as table:
            assert (table.offset, table.get(b"pa"), list(table.scan(*ALL))) == (None, None, [])

    def test_what_is_written_is_read_and_what_is_deleted_is_gone(self, store: Store) -> None:
        with claimed(store) as table:
            table.write([(b"pa", b"1"), (b"pb", b""), (b"pc", bytes(range(256)))], 5)
            assert table.get(b"pa") == b"1"
            assert table.get(b"pb") == b""
            assert table.get(b"pc") == bytes(range(256))
            table.write([(b"pa", None), (b"never", None), (b"pb", b"2")], 6)
            assert (table.get(b"pa"), table.get(b"never"), table.get(b"pb")) == (None, None, b"2")
            assert all_rows(table) == {b"pb": b"2", b"pc": bytes(range(256))}

    def test_of_a_key_s_rows_in_one_write_the_last_one_counts(self, store: Store) -> None:
        with claimed(store) as table:
            table.write([(b"pa", b"1"), (b"pa", None), (b"pb", None), (b"pb", b"2")], 5)
            assert all_rows(table) == {b"pb": b"2"}

    def test_a_scan_goes_by_bytes_from_its_first_key_to_before_its_end(self, store: Store) -> None:
        keys = [b"b", b"ba\0\x00", b"ba\0\x7f", b"ba\0\x80", b"ba\0\xff", b"bb", b"c", b"p\xc3\xa4"]
        with claimed(store) as table:
            table.write([(key, key) for key in reversed(keys)], 1)
            assert [key for key, _ in table.scan(*ALL)] == keys
            assert [key for key, _ in table.scan(b"ba\0", b"bb")] == keys[1:5]
            assert [key for key, _ in table.scan(b"ba\0\x80", b"ba\0\xff")] == keys[3:4]
            assert list(table.scan(b"c", b"c")) == list(table.scan(b"d", b"b")) == []

    def test_a_scan_of_many_rows_may_be_left_and_read_beside(self, store: Store) -> None:
        rows = [(b"p%05d" % number, b"%d" % number) for number in range(2500)]
        with claimed(store) as table:
            table.write(rows, 1)
            assert list(table.scan(b"p", b"q")) == rows
            for (key, value), _ in zip(table.scan(b"p", b"q"), range(700), strict=False):
                assert table.get(key) == value
            assert next(table.scan(b"p01", b"q")) == rows[1000]

    def test_a_long_key_and_a_large_value_fit(self, store: Store) -> None:
        # What no index can make shorter.
        key = b"b" + random.Random(1).randbytes(KEY_BYTES) + b"\0" + b"\x80" * 8
        value = b"\0\xff" * (2 << 20)
        with claimed(store) as table:
            table.write([(key, value), (key + b"\1", value)], 1)
            assert table.get(key) == value
            assert [found for found, _ in table.scan(key, key + b"\2")] == [key, key + b"\1"]

    # Offset

    def test_the_offset_is_that_of_the_last_write_that_had_one(self, store: Store) -> None:
        with claimed(store) as table:
            table.write([], 0)
            assert table.offset == 0
            table.write([(b"pa", b"1")], 2**40)
            table.write([(b"pb", b"1")])
            assert table.offset == 2**40

    def test_a_cleared_table_is_a_new_one(self, store: Store) -> None:
        with claimed(store) as table:
            table.write([(b"pa", b"1")], 5)
            table.clear()
            assert (table.offset, all_rows(table)) == (None, {})
            table.write([(b"pb", b"2")], 6)
            assert (table.offset, all_rows(table)) == (6, {b"pb": b"2"})

    def test_a_write_that_cannot_be_is_none_at_all(self, store: Store) -> None:
        with claimed(store) as table:
            table.write([(b"pa", b"1")], 5)

            def rows() -> Iterator[Row]:
                yield b"pa", b"2"
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                table.write(rows(), 6)
            assert (table.offset, all_rows(table)) == (5, {b"pa": b"1"})

    # Views and partitions

    def test_views_and_partitions_and_groups_are_apart(self, store: Store) -> None:
        names = [("a", 1), ("a", 11), ("a:1", 1), ("a/1", 1), ("A", 1), ("a", 0)]
        tables = [store.table(view.replace("/", "-"), number) for view, number in names]
        for at, table in enumerate(tables):
            table.claim()
            table.write([(b"pa", b"%d" % at), (b"p%d" % at, b"x")], at)
        for at, table in enumerate(tables):
            expected = {b"pa": b"%d" % at, b"p%d" % at: b"x"}
            assert (table.offset, all_rows(table)) == (at, expected)
        tables[0].clear()
        assert [table.offset for table in tables] == [None, 1, 2, 3, 4, 5]
        assert all_rows(tables[1]) == {b"pa": b"1", b"p1": b"x"}
        if self.durable:
            other = open_store(self.url, GROUP + "2")
            with claimed(other, "a", 11) as table:
                assert (table.offset, all_rows(table)) == (None, {})
            other.close()
        for table in tables:
            table.close()

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
