"""The rows of a stream in a state store, against a table in memory."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from topology.spark.cells import INLINE, StreamCells


class Value:
    def __init__(self) -> None:
        self.stored: bytes | None = None
        self.writes = 0

    def get(self) -> bytes | None:
        return self.stored

    def set(self, value: bytes) -> None:
        self.stored, self.writes = value, self.writes + 1

    def clear(self) -> None:
        assert self.stored is not None
        self.stored = None


class Cells:
    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.looks = 0

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        self.looks += 1
        return list(self.stored.items())

    def put(self, key: bytes, value: bytes) -> None:
        self.stored[key] = value

    def remove(self, key: bytes) -> None:
        self.stored.pop(key, None)


KEYS = st.sampled_from([b"p", b"ps", b"b\0\x01", b"b\0\x02", b"b\0\x03", b"r\xff", b"o"])
ROWS = st.none() | st.binary(max_size=8) | st.integers(0, 2 * INLINE).map(bytes)
BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(["one", "other"]), st.lists(st.tuples(KEYS, ROWS))))
)


@given(BATCHES)
def test_it_holds_what_a_table_in_memory_holds(
    batches: list[list[tuple[str, list[tuple[bytes, bytes | None]]]]],
) -> None:
    value, cells = Value(), Cells()
    tables = {name: MemoryTable() for name in ("one", "other")}
    for batch in batches:
        stream = StreamCells(value, cells)
        views = {name: stream.view(name) for name in tables}
        for name, rows in batch:
            views[name].write(rows)
            tables[name].write(rows)
            for key, _ in rows:
                assert views[name].get(key) == tables[name].get(key)
        stream.timer, stream.partition = len(batch), 3
        stream.save()
        again = StreamCells(value, cells)
        for name, table in tables.items():
            assert list(again.view(name).scan(b"", b"\xff" * 9)) == list(
                table.scan(b"", b"\xff" * 9)
            )
            assert list(again.view(name).scan(b"b", b"c")) == list(table.scan(b"b", b"c"))
        assert again.timer == (len(batch) if any(t.rows for t in tables.values()) or batch else 0)
        assert len(value.stored or b"") <= INLINE + 64 * 7
        assert all(key not in again_inline(value) for key in cells.stored)


def again_inline(value: Value) -> set[bytes]:
    """The keys that the value itself holds."""
    return set(StreamCells(value, Cells()).rows)


def test_a_stream_without_rows_leaves_nothing_behind() -> None:
    value, cells = Value(), Cells()
    for row in (b"1", bytes(2 * INLINE), None):
        stream = StreamCells(value, cells)
        stream.view("v").write([(b"p", row)])
        stream.save()
    assert value.stored is None
    assert not cells.stored


def test_what_does_not_change_is_not_written() -> None:
    value, cells = Value(), Cells()
    for _ in range(3):
        stream = StreamCells(value, cells)
        stream.view("v").write([(b"p", b"17")])
        stream.save()
    assert value.writes == 1
    assert cells.looks == 0
