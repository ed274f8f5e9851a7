"""Anything that may happen to streams whose handlers fail, against a plain model of each."""

from collections import Counter
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.topology.plain_model import Model
from tests.topology.sequencer.held import Held, event
from topology import Event
from topology.sequencer.progress import PendingRetry, Progress, last_of
from topology.sequencer.sequencer import Ordering, Step, hold_all

STREAMS = ("a", "b", "c")


LIMIT = 400
"""Events per stream, at most."""


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
    """Three streams; which events fail changes as time goes by.

    Models count their events from 1; `sequence` says what the sequencer sees of the nth.
    """

    ordering: ClassVar[Ordering]
    gap_counts_once: ClassVar[bool] = False
    memory: ClassVar[int] = 0

    def model(self) -> Any:
        return HoldModel(self.ordering.skip_after)

    def sequence(self, nth: int) -> int:
        return nth

    def is_behind(self, last: int, nth: int) -> bool:
        """Whether the nth event is the last one that progress says is processed or given up."""
        return last == self.sequence(nth)

    def value(self, nth: int) -> bytes:
        return b""

    def __init__(self) -> None:
        super().__init__()
        self.held = Held(self.ordering, self.memory)
        self.models = {stream: self.model() for stream in STREAMS}
        self.nths: dict[int, int] = {self.sequence(nth): nth for nth in range(LIMIT)}
        self.now = 0
        self.came: Counter[str] = Counter()

    def step(self, batch: list[Event], now: int | None = None) -> Step:
        """A step of which the first bad event of each stream fails."""
        result = self.held.decide(batch, now)
        failed: dict[str, tuple[Event, PendingRetry | None]] = {}
        for one in result.ready:
            if self.nths[one.sequence] in self.models[one.stream].bad:
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
        came = []
        for stream, ahead in sent:
            base = self.models[stream].last if lift else len(self.models[stream].handled)
            came.append((stream, max(1, base + ahead)))
        self.step([event(s, self.sequence(nth), self.now, self.value(nth)) for s, nth in came])
        self.finish()
        for stream, nth in came:
            self.came[stream] += 1
            self.models[stream].arrive(nth, self.now)

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
            handled = [self.nths[each] for each in self.held.handled.get(stream, [])]
            assert handled == model.handled
            assert self.is_behind(last_of(progress), model.last)
            assert sorted(self.held.rows.get(stream, ())) == [
                self.sequence(nth) for nth in sorted(model.waiting)
            ]
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
        if self.gap_counts_once:
            return
        skipped = sum(gap.count for step in steps for gap in step.skipped)
        assert skipped == sum(model.skipped for model in self.models.values())
