"""Steps grow in a backlog, unless they are slow."""

from topology.faust.worker.reading.pace import Pace

NOW = [0.0]


def after(pace: Pace, records: int, seconds: float) -> int:
    """The size of the step that follows one with so many records, which took so long."""
    pace.took(records)
    NOW[0] += seconds
    return pace.next()


def test_full_and_quick_steps_grow_to_the_most() -> None:
    pace = Pace(10_000, lambda: NOW[0])
    assert pace.next() == 4_000
    assert [after(pace, size, 0.1) for size in (4_000, 8_000, 10_000)] == [8_000, 10_000, 10_000]
    # A step of less says nothing of how quick a full one would be, unless there is hardly any more.
    assert after(pace, 2_000, 0.1) == 10_000
    assert after(pace, 10, 0.1) == 4_000


def test_slow_steps_shrink_to_the_usual_size() -> None:
    pace = Pace(16_000, lambda: NOW[0])
    assert [after(pace, size, 0.1) for size in (4_000, 8_000)] == [8_000, 16_000]
    assert after(pace, 16_000, 1.0) == 16_000
    assert [after(pace, size, 9.0) for size in (16_000, 8_000, 4_000)] == [8_000, 4_000, 4_000]


def test_no_step_takes_more_than_it_may() -> None:
    pace = Pace(100, lambda: NOW[0])
    assert pace.next() == 100
    assert [after(pace, 100, seconds) for seconds in (0.1, 9.0, 0.1)] == [100, 100, 100]
