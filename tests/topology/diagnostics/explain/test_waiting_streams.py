"""What a console keeps of waiting streams is what their rows say, however they came to be so."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.diagnostics.explain.durable import send, task_of
from tests.topology.handled import driver_of
from topology import Event, GapTime, adaptive, park, skip
from topology.diagnostics.explain import WaitingStreams, of_waiting, open_gaps
from topology.diagnostics.explain.parked_streams import parked_of
from topology.engine.state.rows import encode_note, note_key, progress_key


def board(event: Event) -> None:
    if event.kind == "Bad":
        raise ValueError("not yet")


DRIVER = driver_of(board)
VIEW = DRIVER.topology.views["board"]
events = st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.sampled_from(["Ok", "Bad"]))


@pytest.mark.parametrize("after", [5, adaptive(start=5.0, at_least=1.0)])
@given(sent=st.lists(events, max_size=25))
def test_it_keeps_up_with_its_changelog(
    after: float | GapTime, sent: list[tuple[str, int, str]]
) -> None:
    driver = driver_of(board, error=park(), gap=skip(after=after), buffer=4)
    view, known, before = driver.topology.views["board"], WaitingStreams(), dict[bytes, bytes]()
    for stream, sequence, kind in sent:
        send(driver, sequence, stream=stream, kind=kind)
        driver.advance(1)
        now = dict(driver._storage.stores["board"].rows)
        for key in {*before, *now}:
            if now.get(key) != before.get(key):
                known.take(key, now.get(key))
        before, task = now, task_of(driver, of_waiting)
        ordering = task.state.ordering
        gaps, aside = known.gaps(view, 0, ordering), known.parked(view, 0, ordering)
        assert sorted(gaps, key=str) == sorted(open_gaps(task, 0, {}), key=str)
        assert sorted(aside, key=str) == sorted(parked_of(task, 0), key=str)


def test_what_waits_in_a_worker_s_memory_is_known_by_its_notes() -> None:
    known = WaitingStreams()

    def gaps() -> list[tuple[int, int]]:
        found = known.gaps(VIEW, 0, VIEW.ordering)
        return [(gap.last, gap.waiting) for gap in found]

    known.take(progress_key("a"), b'{"last":1,"since":7}')
    assert gaps() == []
    known.take(
        note_key(5), encode_note(7, [(5, 0, 0, "a", 3), (6, 0, 0, "a", 4), (7, 0, 0, "gone", 9)])
    )
    known.take(note_key(9), encode_note(8, [(9, 0, 0, "a", 4)]))
    assert gaps() == [(1, 2)]
    known.take(note_key(5), None)
    assert gaps() == [(1, 1)]
    known.take(progress_key("a"), b"4")
    assert gaps() == []


def test_a_stream_that_waits_no_longer_is_let_go_though_the_time_out_is_another_one() -> None:
    known = WaitingStreams()
    known.take(progress_key("a"), b'{"last":1,"since":7}')
    known.take(note_key(5), encode_note(7, [(5, 0, 0, "a", 3)]))
    ordering = VIEW.ordering
    assert len(list(known.gaps(VIEW, 0, ordering))) == 1
    known.take(progress_key("a"), None)
    known.take(note_key(5), None)
    assert list(known.gaps(VIEW, 0, replace(ordering, skip_after=9))) == []
