"""A stream that is held: its events wait in order, others go on, nothing is lost or repeated."""

from collections import Counter
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.topology.held import Held, event
from tests.topology.model import Model
from topology import Event
from topology.progress import Progress, Retry, last_of
from topology.sequencer import Gap, Ordering, Step, hold, hold_all

STREAMS = ("a", "b", "c")


class HoldModel(Model):
    """A stream whose handler fails for the sequences in `bad`."""

    def __init__(self, after: int | None) -> None:
        super().__init__(after=after)
        self.bad: set[int] = set()
        self.held = False

    def arrive(self, sequence: int, at: int) -> None:
        if self.held and sequence not in self.given_up and sequence > self.last:
            self.received += 1
            if sequence in self.waiting:
                self.duplicates += 1
            self.waiting.setdefault(sequence, at)
        else:
            super().arrive(sequence, at)

    def advance(self, at: int) -> None:
        """As ever, but one gap at a time, as the event behind it may fail."""
        while not self.held and self.waiting and self.after is not None:
            if min(self.waiting.values()) + self.after > at:
                return
            head = min(self.waiting)
            missing = range(self.last + 1, head)
            self.given_up.update(missing)
            self.skipped += len(missing)
            self.last = head - 1
            self._handle_the_run()

    def redrive(self) -> None:
        self.held = False
        self._handle_the_run()

    def _handle_the_run(self) -> None:
        while self.last + 1 in self.waiting and not self.held:
            if self.last + 1 in self.bad:
                self.held = True
                # The gaps behind it are looked at when it is released.
                return
            self.last += 1
            del self.waiting[self.last]
            self.handled.append(self.last)


class Machine(RuleBasedStateMachine):
    """Three streams; which events fail changes as time goes by."""

    ordering: ClassVar[Ordering]

    def __init__(self) -> None:
        super().__init__()
        self.held = Held(self.ordering)
        self.models = {stream: HoldModel(self.ordering.skip_after) for stream in STREAMS}
        self.now = 0
        self.came: Counter[str] = Counter()

    def step(self, batch: list[Event], now: int | None = None) -> Step:
        """A step of which the first bad event of each stream fails."""
        result = self.held.decide(batch, now)
        failed: dict[str, tuple[Event, Retry | None]] = {}
        for one in result.ready:
            if one.sequence in self.models[one.stream].bad:
                failed.setdefault(one.stream, (one, None))
        hold_all(self.ordering, self.held, self.held.timers, result, failed)
        return self.held.keep(result)

    def finish(self, now: int | None = None) -> None:
        while self.held.unfinished:
            self.step([], now)

    @rule(
        sent=st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(-1, 9)), max_size=8),
        lift=st.booleans(),
    )
    def events_come(self, sent: list[tuple[str, int]], lift: bool) -> None:
        batch = []
        for stream, ahead in sent:
            base = self.models[stream].last if lift else len(self.models[stream].handled)
            batch.append(event(stream, max(1, base + ahead), self.now))
        self.step(batch)
        self.finish()
        for one in batch:
            self.came[one.stream] += 1
            self.models[one.stream].arrive(one.sequence, self.now)

    @rule(stream=st.sampled_from(STREAMS), ahead=st.integers(1, 4))
    def a_handler_breaks(self, stream: str, ahead: int) -> None:
        self.models[stream].bad.add(self.models[stream].last + ahead)

    @rule(stream=st.sampled_from(STREAMS), pick=st.integers(0, 9), mend=st.booleans())
    def a_stream_is_redriven(self, stream: str, pick: int, mend: bool) -> None:
        model = self.models[stream]
        if not model.held:
            return
        if mend:
            model.bad.discard(model.last + 1)
        progress = self.held.known[stream]
        assert isinstance(progress, Progress)
        copy = progress.copy()
        copy.held = False
        self.held.known[stream] = copy
        self.held.unfinished.append(stream)
        self.step([])
        self.finish()
        model.redrive()

    @precondition(lambda self: self.ordering.skip_after is not None)
    @rule(by=st.sampled_from([1, 500, 1000, 2500]))
    def time_passes(self, by: int) -> None:
        self.now += by
        self.step([], self.now)
        self.finish(self.now)
        for model in self.models.values():
            model.advance(self.now)

    @rule()
    def the_process_restarts(self) -> None:
        before = self.held.meaning()
        self.held.rebuild()
        assert self.held.meaning() == before
        self.finish()

    @invariant()
    def every_stream_is_where_the_model_is(self) -> None:
        for stream, model in self.models.items():
            progress = self.held.progress(stream)
            assert self.held.handled.get(stream, []) == model.handled
            assert last_of(progress) == model.last
            assert sorted(self.held.rows.get(stream, ())) == sorted(model.waiting)
            assert (isinstance(progress, Progress) and progress.held) == model.held
            waits = progress.waiting if isinstance(progress, Progress) else 0
            assert waits == len(model.waiting)

    @invariant()
    def everything_is_accounted_for(self) -> None:
        steps = self.held.steps
        late = Counter(one.stream for step in steps for one in step.late)
        assert sum(self.came.values()) == sum(
            len(step.ready) + step.duplicates + len(step.late) for step in steps
        ) + sum(map(len, self.held.rows.values()))
        for stream, model in self.models.items():
            assert late[stream] == model.late
        skipped = sum(gap.count for step in steps for gap in step.skipped)
        assert skipped == sum(model.skipped for model in self.models.values())


class Patient(Machine):
    ordering = Ordering()


class Small(Machine):
    ordering = Ordering(size=2)


class Slow(Machine):
    ordering = Ordering(size=3, drain=2)


class Hasty(Machine):
    ordering = Ordering(skip_after=1000)


_SETTINGS = settings(stateful_step_count=30)
TestPatient, TestSmall = Patient.TestCase, Small.TestCase
TestSlow, TestHasty = Slow.TestCase, Hasty.TestCase
for case in (TestPatient, TestSmall, TestSlow, TestHasty):
    case.settings = _SETTINGS


def fail(held: Held, result: Step, sequence: int, retry: Retry | None = None) -> Step:
    """The event of stream `a` with that sequence fails."""
    (failed,) = (one for one in result.ready if one.sequence == sequence)
    hold(held.ordering, held, held.timers, result, "a", failed, retry)
    return held.keep(result)


def test_what_came_in_the_same_batch_waits_and_what_had_waited_goes_on_waiting() -> None:
    held = Held(Ordering())
    held.take(event("a", 4), event("a", 5))
    batch = [event("a", 1), event("a", 2), event("a", 3)]
    result = fail(held, held.decide(batch), 2)

    assert [one.sequence for one in result.ready] == [1]
    assert [one.sequence for one in result.buffered] == [2, 3]
    assert result.released == []
    progress = held.known["a"]
    assert isinstance(progress, Progress)
    assert (progress.last, progress.held, progress.waiting) == (1, True, 4)


def test_a_gap_behind_the_failed_event_is_not_given_up() -> None:
    held = Held(Ordering(skip_after=1000))
    held.take(event("a", 3), event("a", 6))
    result = fail(held, held.decide([], now=1000), 3)

    assert result.skipped == [Gap("a", 1, 2, since=0, count=2)]
    assert held.rows["a"].keys() == {3, 6}
    assert held.take(now=10_000).ready == []
    held.release("a")
    assert held.handled == {"a": [3]}
    held.take(now=10_000)
    assert held.handled == {"a": [3, 6]}


def test_a_retry_goes_on_by_itself_when_it_is_due_and_is_forgotten_when_it_succeeds() -> None:
    held = Held(Ordering())
    fail(held, held.decide([event("a", 1), event("a", 2)]), 1, Retry(1, due=5000))
    held.take(event("a", 3, at=100), now=4999)
    assert held.handled == {}
    held.rebuild()
    assert held.timers.next == 5000

    again = held.decide([], now=5000)
    before = held.known["a"]
    assert isinstance(before, Progress)
    assert before.retry == Retry(1, 5000)
    fail(held, again, 1, Retry(2, due=9000))
    held.take(now=9000)

    assert held.handled == {"a": [1, 2, 3]}
    assert held.known == {"a": 3}


def test_a_held_stream_spills_what_another_would_have_redelivered() -> None:
    held = Held(Ordering(size=2, full="redeliver"))
    fail(held, held.decide([event("a", 1)]), 1)
    result = held.take(*(event("a", sequence) for sequence in range(2, 7)))
    assert result.redelivered == []
    held.release("a")

    assert held.handled == {"a": [1, 2, 3, 4, 5, 6]}


def test_beyond_the_ring_an_event_comes_again_and_leaves_nothing_behind() -> None:
    held = Held(Ordering(size=2, full="redeliver"))
    result = held.take(event("a", 2), event("a", 3), event("a", 4))
    assert [one.sequence for one in result.redelivered] == [3, 4]
    assert [one.sequence for one in result.buffered] == [2]
    held.take(event("a", 1), event("a", 3), event("a", 4))

    assert held.handled == {"a": [1, 2, 3, 4]}
    assert held.known["a"] == 4


def test_but_the_lowest_event_waits_even_there() -> None:
    """A gap that is longer than the ring would not show otherwise, nor ever be given up."""
    held = Held(Ordering(size=2, skip_after=100, full="redeliver"))
    result = held.take(event("a", 9, at=5), event("a", 10, at=6), event("a", 8, at=7))
    assert [one.sequence for one in result.buffered] == [9, 8]
    assert [one.sequence for one in result.redelivered] == [10]
    assert held.timers.next == 105
    held.take(event("a", 10, at=90), now=105)
    assert held.handled == {"a": [8, 9]}
    held.take(event("a", 10, at=110))
    assert held.handled == {"a": [8, 9, 10]}
    assert held.known["a"] != 10  # the gap that was given up is remembered


def test_beyond_the_ring_of_a_view_that_halts_an_event_is_kept_and_the_step_says_so() -> None:
    held = Held(Ordering(size=2, full="halt"))
    assert not held.take(event("a", 2)).full
    result = held.take(event("a", 9))

    assert result.full
    assert [one.sequence for one in result.buffered] == [9]


def test_a_gap_that_closes_says_how_long_it_lasted_if_asked() -> None:
    for learn in (True, False):
        held = Held(Ordering(learn=learn))
        held.take(event("a", 4, at=1000), event("a", 2, at=1500), event("a", 6, at=1500))
        assert held.take(event("a", 1, at=2000)).filled == ([1000] if learn else [])
        assert held.take(event("a", 3, at=4000)).filled == ([3000] if learn else [])
        assert held.take(event("a", 7, at=4000)).filled == []
        assert held.take(event("a", 5, at=2000)).filled == ([500] if learn else [])
