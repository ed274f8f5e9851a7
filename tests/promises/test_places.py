"""What became of each event: in one place, its messages sent once, and told truly by everybody."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.partition import INSPECTOR
from topology import (
    Emit,
    Event,
    Topology,
    TopologyTestDriver,
    Upsert,
    advance,
    contiguous,
    earliest_seen,
    late_topic,
    linked,
    monotonic,
    park,
    rebuild_stream,
    redeliver,
    retry,
    skip,
    spill,
    wait,
)
from topology.diagnostics.explain import StreamContext
from topology.diagnostics.explain.went_on_without import Passed, passed
from topology.sequencer.progress import Progress, last_of
from topology.testing.driver.explain import context_of

STREAMS = "ab"
ORDERS: dict[str, Any] = {
    "contiguous": contiguous(),
    "linked": linked(previous="before"),
    "monotonic": monotonic(settle=2),
}
ERRORS = [advance(), park(), retry(1, 1), retry(1, 1, park())]
Steps = list[tuple[Any, ...]]


@dataclass
class Run:
    """A view, its driver, and the sequences that its handler fails at now."""

    order: str
    policies: dict[str, Any]
    broken: set[int] = field(default_factory=set)
    arrived: int = 0
    came: dict[str, set[int]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    began: dict[str, int] = field(default_factory=dict)
    """Stream → how many messages had been sent when it was dropped last."""

    def __post_init__(self) -> None:
        topology = Topology("shop")
        orders = topology.source("orders", inspector=INSPECTOR, sequence=ORDERS[self.order])
        topology.view("board", of=orders, handler=self.handle, **self.policies)
        self.driver = TopologyTestDriver(topology)

    def handle(self, event: Event, state: dict[str, Any]) -> Any:
        if event.sequence in self.broken:
            raise ConnectionError("down")
        state["seen"] = [*state.get("seen", []), event.sequence]
        yield Upsert("rows", key={"id": event.stream}, values={"seen": len(state["seen"])})
        lane = event.lane
        stream = event.stream if lane is None else f"{event.stream}|{lane}"
        yield Emit("log", event.stream, {"stream": stream, "n": event.sequence})

    def stream(self, name: str) -> str:
        return f"{name}|x" if "lane" in self.policies else name

    def step(self, what: str, *more: Any) -> None:
        driver = self.driver
        if what == "came":
            stream, n = more
            body = {"stream": stream, "sequence": n, "kind": "Is", "part": "x"}
            driver.pipe("orders", body | {"before": n - 1 if n > 1 else None})
            self.arrived += 1
            self.came.setdefault(self.stream(stream), set()).add(n)
        elif what == "passes":
            driver.advance(more[0])
        elif what == "breaks":
            self.broken ^= {more[0]}
        elif what == "mends":
            self.broken.clear()
        elif what == "restart":
            driver.restart()
        elif what == "redrive-dead":
            driver.redrive_dead("board")
        else:
            self.command(what, *more)

    def command(self, name: str, stream: str | None = None, *more: Any) -> None:
        stream = None if stream is None else self.stream(stream)
        sequence, force = more if more else (None, True)
        sent = len(self.driver._storage.topics["log"])
        done = self.driver.command(name, "board", stream, sequence, force=force).done
        if name == "drop" and done and stream is not None:
            self.dropped.add(stream)
            self.began[stream] = sent

    def ends(self) -> None:
        """Nothing is halted, and all that is due is done."""
        self.driver.command("resume", "board")
        self.driver.advance(100)

    def told(self, stream: str) -> Passed:
        driver = self.driver
        task = driver._runner.view("board")
        progress = task.state.progress(stream)
        context = StreamContext(**context_of(driver._storage, task, stream, now=driver.now))  # type: ignore[arg-type]
        waits = {event.sequence for event in task.state.waits(stream)}
        here = waits | {each.sequence for each in context.redelivering}
        return passed(progress, last_of(progress), here, context, task.state.ordering)

    def check(self) -> None:
        driver = self.driver
        counts = driver.counts("board")
        read = self.arrived - len(driver._runner.missed["board"])
        assert counts.accounted == counts.received == read + counts.redriven, counts
        audit = driver.audit()
        assert not audit.violations, str(audit)
        broken, self.broken = self.broken, set()
        contents = driver.audit(contents=True)
        self.broken = broken
        assert not contents.violations, str(contents)
        (view,) = audit.views
        if not view.unsure:
            places = "waiting", "parked", "late", "failed", "dead", "redelivering"
            for place in places:
                assert getattr(view.found, place) == getattr(counts, place), (place, str(audit))
        every = 0
        for name in STREAMS:
            every += self.check_stream(self.stream(name))
        if not self.dropped:
            assert counts.processed == every, (counts, every)

    def check_stream(self, stream: str) -> int:
        """How many of its events are in its rows."""
        driver = self.driver
        seen = driver.state("board", stream).get("seen", [])
        assert seen == sorted(set(seen))
        progress = driver._runner.view("board").state.progress(stream)
        log = driver._storage.topics["log"][self.began.get(stream, 0) :]
        sent = Counter(body["n"] for body in map(_json, log) if body["stream"] == stream)
        later_failed = set(progress.sent) if isinstance(progress, Progress) else set()
        assert sent == Counter({*seen, *later_failed}), (seen, sent, later_failed)
        told = self.told(stream)
        without = {each.sequence for each in (*told.lost, *told.failed)} | set(told.late)
        skipped = {
            n for first, last in told.skipped for n in range(max(first, 0), min(last, 50) + 1)
        }
        if stream in self.dropped and self.policies["late"] == late_topic():
            # What is told of it may be of before it was dropped.
            return len(seen)
        assert not without & set(seen), (seen, told)
        assert not skipped & set(seen), (seen, told)
        plain = stream not in self.dropped and self.order != "monotonic"
        if plain and not driver._runner.missed["board"]:
            asked = set(driver._runner.view("board").late_events.streams.get(stream, ()))
            away = {int(dict(r.headers)["sequitur-sequence"]) for r in self.away(stream)}
            passed_by = {n for n in self.came.get(stream, ()) if n <= last_of(progress)}
            assert passed_by - set(seen) <= without | skipped | asked | away, (seen, told)
        return len(seen)

    def away(self, stream: str) -> list[Any]:
        view = self.driver._runner.view("board")
        records = self.driver._storage.topics[view.view.redeliver_topic]
        return [
            record
            for record in records[view.state.positions.redelivered :]
            if record.key == stream.encode()
        ]


def _json(record: Any) -> Any:
    return orjson.loads(record.value)


@st.composite
def policies(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    order = draw(st.sampled_from(["contiguous", "contiguous", "linked", "monotonic"]))
    late = draw(
        st.sampled_from([rebuild_stream(), rebuild_stream(), rebuild_stream(4), late_topic()])
    )
    found: dict[str, Any] = {"late": late, "error": draw(st.sampled_from(ERRORS))}
    if order != "monotonic":
        found["gap"] = draw(st.sampled_from([skip(after=4), wait()]))
        if draw(st.booleans()):
            limits = [1, 4] if found["gap"] == wait() else [8]
            found |= {"buffer": 2, "full": redeliver(delay=1, limit=draw(st.sampled_from(limits)))}
    if "full" not in found:
        found |= {"full": spill(), "buffer": draw(st.sampled_from([1, 64]))}
    if order == "contiguous" and draw(st.integers(0, 3)) == 3:
        found["start"] = earliest_seen(after=1)
    if draw(st.integers(0, 3)) == 3:
        found["lane"] = "part"
    return order, found


_streams = st.sampled_from(STREAMS)
_numbers = st.integers(1, 8)
_came = st.tuples(st.just("came"), _streams, _numbers)
_passes = st.tuples(st.just("passes"), st.sampled_from([1, 5, 20]))
STEPS = st.lists(
    st.one_of(
        _came, _came, _came, _came, _came, _came, _passes, _passes,
        st.tuples(st.just("breaks"), _numbers),
        st.sampled_from([("mends",), ("restart",), ("redrive-dead",), ("halt",), ("resume",)]),
        st.tuples(st.sampled_from(["redrive", "unpark", "unpark", "drop"]), _streams),
        st.tuples(st.just("skip"), _streams, _numbers, st.booleans()),
    ),
    max_size=40,
)  # fmt: skip


@given(policies=policies(), steps=STEPS)
def test_each_event_is_in_one_place_is_sent_once_and_told_truly(
    policies: tuple[str, dict[str, Any]], steps: Steps
) -> None:
    run = Run(*policies)
    for step in steps:
        run.step(*step)
    run.check()
    run.ends()
    run.check()
