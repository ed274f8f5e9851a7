"""A changelog folded down to what a question needs."""

from stores.view_state.memory import MemoryTable
from tests.topology.diagnostics.explain.durable import send
from tests.topology.handled import driver_of
from topology import Event
from topology.diagnostics.explain import (
    Fold,
    of_counts,
    of_lanes,
    of_stream,
    of_waiting,
    waiting_rows,
)
from topology.engine.state.lane_names import lanes_of
from topology.engine.state.rows import (
    COUNTS,
    buffer_key,
    decode_message,
    encode_progress,
    progress_key,
)


def board(event: Event, state: dict[str, int]) -> None:
    state["seen"] = event.sequence


def folded(fold: Fold) -> dict[bytes, bytes]:
    """`b` waits for 2; `a` and the stream with a longer name do not."""
    driver = driver_of(board)
    send(driver, 1, 2)
    send(driver, 1, 3, stream="b")
    send(driver, 1, 3, 2, stream="bb")
    for row in driver._storage.stores["board"].rows.items():
        fold.take(*row)
    return fold.rows


def test_one_stream_is_kept() -> None:
    assert folded(Fold(of_stream("b"))).keys() == {
        progress_key("b"), buffer_key("b", 3), COUNTS,
    }  # fmt: skip


def test_streams_that_wait_are_kept() -> None:
    kept = {progress_key("b"), buffer_key("b", 3), COUNTS}
    assert folded(Fold(of_waiting)).keys() == kept


def test_a_stream_whose_own_state_has_such_a_key_does_not_wait() -> None:
    fold = Fold(of_waiting)
    fold.take(progress_key("a"), encode_progress(3, b'{"since":5}'))
    assert fold.rows == {}
    fold.take(progress_key("a"), b'{"last":3,"since":5,"state":{}}')
    assert fold.rows.keys() == {progress_key("a")}


def test_counts_are_kept() -> None:
    assert folded(Fold(of_counts)).keys() == {COUNTS}


def test_a_row_that_is_deleted_or_not_wanted_any_more_is_gone() -> None:
    fold = Fold(of_waiting)
    fold.take(progress_key("a"), b'{"last":1,"since":5}')
    fold.take(buffer_key("a", 3), b"[]\n")
    fold.take(progress_key("a"), b"3")
    assert progress_key("a") not in fold.rows
    fold.take(buffer_key("a", 3), None)
    assert fold.rows == {}


def test_what_a_torn_unit_left_does_not_wait() -> None:
    fold = Fold(of_waiting)
    fold.take(buffer_key("a", 3), b"[]\n")
    fold.take(progress_key("a"), b"3")
    assert waiting_rows(fold) == {}


def test_bodies_are_left_out_when_there_are_too_many_bytes() -> None:
    fold = Fold(of_waiting, room=300)
    driver = driver_of(board)
    send(driver, *range(2, 8))
    for row in driver._storage.stores["board"].rows.items():
        fold.take(*row)
    rows = [value for key, value in fold.rows.items() if key[:1] == b"b"]
    messages = [decode_message(row) for row in rows]
    assert len(messages) == 6
    bodies = [bool(message.value) for message, _ in messages]
    assert bodies[0]
    assert not bodies[-1]
    assert messages[-1][0].offset == 5


def test_all_lanes_of_a_stream_are_kept() -> None:
    names = ("b|", "b|x", "b|y", "bb|x", "a|b|x", "b%7Cx|z")
    fold, table = Fold(of_lanes("b")), MemoryTable()
    for name in names:
        fold.take(progress_key(name), b"1")
        fold.take(buffer_key(name, 3), b"[]\n")
    table.write(sorted(fold.rows.items()))
    assert lanes_of(table, "b") == ["b|", "b|x", "b|y"]
    assert len(fold.rows) == 6
