"""Anything that may happen to a topology, in any order, against the plain model."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.topology.partition import shop
from tests.topology.plain_model import Model
from topology import Topology, TopologyTestDriver, skip

STREAMS = st.sampled_from(["a", "b"])


class Machine(RuleBasedStateMachine):
    """Two streams in one view; `size` slots, gaps given up after `after` seconds or never."""

    size: int
    after: float | None

    def __init__(self) -> None:
        super().__init__()
        self.driver = TopologyTestDriver(self.topology(), now=0)
        after = None if self.after is None else round(self.after * 1000)
        self.models = {stream: Model(after=after) for stream in "ab"}
        self.rows: dict[str, list[int]] = {"a": [], "b": []}

    def topology(self) -> Topology:
        gap = None if self.after is None else skip(after=self.after)
        return shop(keyed=False, buffer=self.size, gap=gap)

    def pipe(self, stream: str, sequence: int) -> None:
        self.driver.pipe("orders", {"stream": stream, "sequence": sequence, "kind": "Placed"})
        self.models[stream].arrive(sequence, self.driver.now)

    @rule(stream=STREAMS)
    def the_next_event_comes(self, stream: str) -> None:
        self.pipe(stream, self.models[stream].last + 1)

    @rule(stream=STREAMS, ahead=st.integers(2, 12))
    def an_event_comes_too_early(self, stream: str, ahead: int) -> None:
        self.pipe(stream, self.models[stream].last + ahead)

    @rule(stream=STREAMS, back=st.integers(0, 12))
    def an_old_event_comes(self, stream: str, back: int) -> None:
        self.pipe(stream, max(1, self.models[stream].last - back))

    @rule(stream=STREAMS, pick=st.integers(0, 100))
    def a_waiting_event_comes_again(self, stream: str, pick: int) -> None:
        if waiting := sorted(self.models[stream].waiting):
            self.pipe(stream, waiting[pick % len(waiting)])

    @rule(stream=STREAMS)
    def the_missing_events_come(self, stream: str) -> None:
        model = self.models[stream]
        for sequence in range(model.last + 1, max(model.waiting, default=0)):
            self.pipe(stream, sequence)

    @rule(seconds=st.sampled_from([0.001, 0.5, 1.0, 1.5, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.driver.advance(seconds)
        for model in self.models.values():
            model.advance(self.driver.now)

    @rule()
    def the_process_restarts(self) -> None:
        self.driver.restart()

    @invariant()
    def progress_and_buffers_are_the_model_s(self) -> None:
        for stream, model in self.models.items():
            assert self.driver.last("board", stream) == model.last
            near = [n for n in model.waiting if n - model.last <= self.size]
            assert self.driver.buffer("board", stream) == {n % self.size: n for n in near}

    @invariant()
    def everything_is_counted(self) -> None:
        counts, models = self.driver.counts("board"), self.models.values()
        assert counts.accounted == counts.received == sum(m.received for m in models)
        assert counts.processed == sum(len(m.handled) for m in models)
        assert counts.duplicate == sum(m.duplicates for m in models)
        assert counts.waiting == sum(len(m.waiting) for m in models)
        assert (counts.late, counts.skipped) == (
            sum(m.late for m in models),
            sum(m.skipped for m in models),
        )

    @invariant()
    def outputs_are_in_sequence(self) -> None:
        for value in self.driver.read_json("shop.board"):
            self.rows[value["stream"]].append(value["sequence"])
        for stream, model in self.models.items():
            assert self.rows[stream] == model.handled
            row = self.driver.table("board").get((stream,), {"count": 0})
            assert row["count"] == len(model.handled)


class PatientMachine(Machine):
    size, after = 4, None


class HastyMachine(Machine):
    size, after = 64, 1.0


class HastySmallMachine(Machine):
    size, after = 2, 1.0


TestPatient = PatientMachine.TestCase
TestHasty = HastyMachine.TestCase
TestHastySmall = HastySmallMachine.TestCase
