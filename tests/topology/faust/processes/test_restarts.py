"""A worker that dies is started again ever later, and given up if it never lives for long."""

from topology.faust.processes.restarts import MOST, STEADY, Restarts


def test_the_pause_doubles_and_the_fifth_death_in_a_row_is_the_last() -> None:
    restarts = Restarts()
    assert [restarts.after(0.5) for _ in range(MOST)] == [1, 2, 4, 8, None]


def test_who_has_lived_for_long_begins_a_new_row() -> None:
    restarts = Restarts()
    assert [restarts.after(lived) for lived in (0, 0, 0, STEADY, 0, STEADY * 9)] == [
        1, 2, 4, 1, 2, 1,
    ]  # fmt: skip
