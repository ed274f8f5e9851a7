"""Stored times of another clock: nothing waits for hours by mistake, and nothing is lost by it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from tests.topology.handled import driver_of, order
from topology import Event, Inspector, Topology, monotonic, park, retry, skip
from topology.engine.state.plausible import bound
from topology.engine.stream_task import StreamTask
from topology.model.event import Record
from topology.sequencer.progress import PendingRetry, Progress

NOW = 1_700_000_000_000
AFTER = 120
times = st.integers(0, 2 * NOW)


@given(since=times, rejected=times, due=times, attempts=st.integers(1, 2000), now=times)
def test_no_stored_time_is_further_away_than_the_policy_itself(
    since: int, rejected: int, due: int, attempts: int, now: int
) -> None:
    policy: Any = retry(1000, backoff=1.0, limit=60.0) if attempts < 1000 else park()
    progress = Progress(
        3, since=since, rejected=rejected, held=True, retry=PendingRetry(attempts, due)
    )
    before = progress.copy()
    changed = bound(progress, now, policy)
    assert progress.since == min(since, now)
    assert progress.rejected == min(rejected, now)
    assert progress.retry is not None
    assert progress.retry.attempts == attempts
    assert progress.retry.due <= due
    assert progress.retry.due <= now + 60_000
    assert changed == (before != progress)
    assert not bound(progress, now, policy), "twice is once"


def test_what_a_policy_of_ones_own_has_said_stands_after_a_hand_over() -> None:
    # It was due at once, so that a few hand-overs used up all retries.
    progress = Progress(3, held=True, retry=PendingRetry(1, NOW + 600_000))
    policy: Any = object()
    assert not bound(progress, NOW, policy)
    assert progress.retry == PendingRetry(1, NOW + 600_000)
    progress.retry = PendingRetry(1, 2 * NOW)
    assert bound(progress, NOW, policy)
    assert progress.retry == PendingRetry(1, NOW + 86_400_000)


def test_and_is_the_bound_where_the_clock_went_back() -> None:
    """It was up to a day away then."""
    progress = Progress(3, held=True, retry=PendingRetry(1, 2 * NOW, 600_000))
    policy: Any = object()
    assert bound(progress, NOW, policy)
    assert progress.retry == PendingRetry(1, NOW + 600_000, 600_000)


class Own:
    def on_error(self, event: Event, error: BaseException) -> Any:
        return retry(3, backoff=1)


def test_a_retry_of_a_policy_of_ones_own_is_due_in_its_own_time_when_the_clock_went_back() -> None:
    broken, seen = {1}, []

    def handler(event: Event) -> None:
        if event.sequence in broken:
            raise ValueError("broken")
        seen.append(event.sequence)

    driver = driver_of(handler, error=Own())
    driver.pipe("orders", order(1))
    broken.clear()
    driver.now -= 10 * 86_400_000
    driver.restart()
    driver.advance(1)
    assert seen == [1]


def topology(**policies: Any) -> Topology:
    made = Topology("clocks")
    sequence = policies.pop("sequence", None)
    source = made.source("in", inspector=Inspector("id", "n"), keyed=True, sequence=sequence)
    made.view("v", of=source, handler=lambda event: None, **policies)
    return made


def record(offset: int, number: int) -> Record:
    body = b'{"id": "a", "n": %d}' % number
    return Record("in", 0, offset, b"a", body, (), 0)


class Machines:
    """One partition, which goes from machine to machine; each has a clock of its own."""

    def __init__(self, made: Topology) -> None:
        self.made, self.table, self.offset = made, MemoryTable(), 0

    def start(self, now: int) -> None:
        source = self.made.sources["in"]
        self.task = StreamTask(self.made, source, 0, {"v": self.table}, now=now)

    def take(self, *numbers: int, now: int, horizon: int | None = None) -> None:
        records = [record(self.offset + at, number) for at, number in enumerate(numbers)]
        self.offset += len(records)
        unit = self.task.process(records, now, horizon)
        self.table.write(unit.rows.get("v", ()))

    @property
    def counts(self) -> Any:
        return self.task.views["v"].state.counts


@given(ahead=st.integers(-100_000_000_000, 100_000_000_000), waited=st.integers(0, AFTER * 1000))
def test_a_gap_lasts_at_most_twice_its_time_over_a_hand_over(ahead: int, waited: int) -> None:
    """ahead: of the machine that had the partition, in ms."""
    machines = Machines(topology(gap=skip(after=AFTER)))
    machines.start(NOW + ahead)
    machines.take(1, 3, now=NOW + ahead)
    machines.start(NOW + waited)
    due = machines.task.due
    assert due <= NOW + waited + AFTER * 1000
    machines.take(now=int(max(due, NOW + waited)), horizon=int(max(due, NOW + waited)))
    assert (machines.counts.processed, machines.counts.skipped) == (2, 1)


@given(ahead=st.integers(0, 100_000_000_000))
def test_what_settles_does_not_wait_for_another_machines_clock(ahead: int) -> None:
    machines = Machines(topology(sequence=monotonic(settle=5)))
    machines.start(NOW + ahead)
    machines.take(7, now=NOW + ahead)
    machines.start(NOW)
    assert machines.task.due <= NOW + 5000
    machines.take(now=NOW + 5000, horizon=NOW + 5000)
    assert machines.counts.processed == 1


def test_a_bounded_time_is_kept_so_that_the_next_start_goes_on_from_it() -> None:
    """Or each start would begin anew, and a gap would never be given up."""
    machines = Machines(topology(gap=skip(after=AFTER)))
    machines.start(NOW + 3_600_000)
    machines.take(1, 3, now=NOW + 3_600_000)
    for seconds in range(0, AFTER, 30):
        machines.start(NOW + seconds * 1000)
        machines.take(now=NOW + seconds * 1000)
    assert machines.task.due == NOW + AFTER * 1000


def test_who_knows_no_clock_believes_what_is_stored() -> None:
    """Such as the test driver, whose clock stands still."""
    progress = Progress(3, since=NOW)
    assert not bound(progress, 1 << 62, park())
    assert progress.since == NOW
