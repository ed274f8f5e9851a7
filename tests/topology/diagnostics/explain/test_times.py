"""Durations are told in their two largest units."""

from topology.diagnostics.explain.times import lasting


def test_durations_are_told_in_two_units() -> None:
    told = [lasting(ms) for ms in (0, 400, 7_000, 61_000, 600_000, 7_500_000, 259_200_000)]
    assert told == ["0 ms", "400 ms", "7 s", "1 min 1 s", "10 min", "2 h 5 min", "3 d"]
