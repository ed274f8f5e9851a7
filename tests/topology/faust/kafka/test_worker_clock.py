"""A worker's clock: whatever is done to the machine's, it neither jumps nor goes back."""

from hypothesis import given
from hypothesis import strategies as st

from topology.faust.kafka.worker_clock import SLEW, Clock


class Machine:
    """A machine's clocks: one is set by people, the other goes on."""

    def __init__(self, wall: float) -> None:
        self.wall, self.steady = wall, 50.0

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.steady)

    def passes(self, seconds: float, jump: float) -> None:
        self.wall += seconds + jump
        self.steady += seconds


steps = st.lists(
    st.tuples(st.floats(0, 10_000), st.one_of(st.just(0.0), st.floats(-1e6, 1e6))), max_size=50
)


@given(steps=steps)
def test_durations_are_right_whatever_jumps(steps: list[tuple[float, float]]) -> None:
    machine = Machine(1_700_000_000)
    clock = machine.clock()
    began, real = clock(), 0.0
    before = began
    for seconds, jump in steps:
        machine.passes(seconds, jump)
        now, real = clock(), real + seconds
        assert now >= before
        assert abs(now - began - real * 1000) <= real * 1000 * SLEW + 1
        before = now


def test_a_wrong_clock_is_followed_slowly() -> None:
    machine = Machine(1_700_000_000)
    clock = machine.clock()
    machine.passes(0, 3.0)
    for _ in range(4000):
        machine.passes(1, 0)
        clock()
    assert abs(clock() - machine.wall * 1000) <= 1


def test_a_clock_that_nobody_sets_is_the_machines() -> None:
    machine = Machine(1_700_000_000.25)
    clock = machine.clock()
    for _ in range(10):
        machine.passes(0.5, 0)
        assert abs(clock() - machine.wall * 1000) <= 1


def test_another_clock_is_gone_by_whatever_the_machines_says() -> None:
    machine = Machine(1_700_000_000)
    clock = machine.clock()
    assert round(clock.go_by(1_600_000_000)) == 100_000_000
    for jump in (0, 3600, -7200):
        before = clock()
        machine.passes(10, jump)
        assert abs(clock() - before - 10_000) <= 1
    assert abs(clock() - 1_600_000_030_000) <= 1
