"""Whatever happens, in whatever order: nothing is lost, doubled, overtaken, or stuck."""

import math
from typing import Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.examples import some
from tests.topology.ordered_commit.runtime import Attempt, Runtime
from topology.ordered_commit import (
    CommitRules,
    OpenEvent,
    WhenOlderIsOpen,
    wait_and_commit,
    wait_and_roll_back,
)

STREAMS = st.sampled_from(["a", "b", "c", None])
KEYS = st.sampled_from(["k", "l", "m"])
POLICIES: list[WhenOlderIsOpen] = [
    wait_and_roll_back(10),
    wait_and_roll_back(10, cancel_older=True),
    wait_and_roll_back(0),
    wait_and_commit(10),
    wait_and_commit(0),
    wait_and_commit(1),
]
DEEDS = [
    *["finish", "finish_newest"] * 3,
    *["sleep", "commit"] * 2,
    *["fail", "settle", "end_old", "take", "break_unit"],
]


def newest(event: OpenEvent) -> float:
    return -event.offset


class AnyCourse(RuleBasedStateMachine):
    runtime: Runtime

    @initialize(
        order=st.sampled_from(["arrival", "arrival", "stream"]),
        within=st.sampled_from(["sequence", "parallel"]),
        start=st.sampled_from(["arrival", "any", newest]),
        policy=st.sampled_from(POLICIES),
        batch=st.sampled_from([1, 1, 3]),
        batch_of=st.sampled_from(["stream", "any"]),
        limit=st.sampled_from([None, 30.0]),
        most=st.sampled_from([4, 12, 50]),
        size=st.sampled_from([5, 1 << 20, 1 << 20]),
        by_function=st.booleans(),
        unit=st.sampled_from([math.inf, 4]),
    )
    def begin_with(
        self,
        order: Literal["arrival", "stream"],
        within: Literal["sequence", "parallel"],
        start: Literal["arrival", "any"],
        policy: WhenOlderIsOpen,
        batch: int,
        batch_of: Literal["stream", "any"],
        limit: float | None,
        most: int,
        size: int,
        by_function: bool,
        unit: float,
    ) -> None:
        if by_function and hasattr(policy, "critical"):
            policy = wait_and_commit(policy.wait, self.critical)
        rules = CommitRules(
            order=order,
            within_stream=within,
            start=start,
            when_older_is_open=policy,
            batch=1 if within == "parallel" else batch,
            batch_of=batch_of,
            time_limit=limit,
            max_events=most,
            max_bytes=size,
        )
        self.runtime = Runtime(rules, workers=4, unit=unit)

    def critical(self, older: OpenEvent, later: OpenEvent) -> bool:
        log = self.runtime.log
        return log[older.offset].key == log[later.offset].key

    def pick(self, which: int, *, open_only: bool = False) -> Attempt | None:
        found = list(self.runtime.attempts.values())
        if open_only:
            found = [attempt for attempt in found if self.runtime.counts(attempt)]
        return found[which % len(found)] if found else None

    @rule(
        events=st.lists(st.tuples(STREAMS, KEYS, st.integers(0, 2)), min_size=3, max_size=9),
        deeds=st.lists(
            st.tuples(st.sampled_from(DEEDS), st.integers(0, 9)), min_size=9, max_size=30
        ),
    )
    def work(self, events: list[tuple[str | None, str, int]], deeds: list[tuple[str, int]]) -> None:
        for stream, key, gap in events:
            self.runtime.publish(stream, key, gap)
        for deed, number in deeds:
            self.runtime.feed()
            while self.runtime.begin():
                pass
            getattr(self, deed)(number)

    def finish(self, which: int) -> None:
        if attempt := self.pick(which):
            counts = self.runtime.counts(attempt)
            assert self.runtime.finish(attempt) == counts, "effects under an old grant are dropped"
            if attempt.core is not self.runtime.core:
                self.runtime.core.ended(attempt.grant, self.runtime.now)

    def finish_newest(self, number: int) -> None:
        if len(self.runtime.attempts) > 1:
            self.finish(-1)

    def fail(self, which: int) -> None:
        if attempt := self.pick(which, open_only=True):
            self.runtime.fail(attempt)

    def settle(self, which: int) -> None:
        found = list(self.runtime.unsettled.values())
        if found:
            attempt = found[which % len(found)]
            if which > 7:
                self.runtime.retry(attempt, 1.0)
            else:
                assert self.runtime.finish(attempt)

    def end_old(self, which: int) -> None:
        runtime = self.runtime
        old = [attempt for attempt in runtime.attempts.values() if not runtime.counts(attempt)]
        if old:
            runtime.stop(old[which % len(old)])

    def sleep(self, number: int) -> None:
        self.runtime.sleep((0.0, 0.0, 0.2, 1.0, 1.0, 5.0, 10.0, 10.0, 11.0, 31.0)[number])

    def commit(self, number: int) -> None:
        self.runtime.commit()

    def take(self, number: int) -> None:
        self.runtime.take()

    def break_unit(self, which: int) -> None:
        self.runtime.break_unit(which)

    @rule(
        what=st.sampled_from(["crash", "revoke", "retention"]),
        durable=st.booleans(),
        part=st.floats(0, 0.5),
    )
    def disturb(self, what: str, durable: bool, part: float) -> None:
        runtime = self.runtime
        runtime.take()
        if durable:
            runtime.make_durable()
        if what == "crash":
            runtime.crash()
        elif what == "revoke":
            runtime.revoke()
        else:
            runtime.eat(runtime.position + int(part * (runtime.end - runtime.position)))

    @invariant()
    def no_overtaking(self) -> None:
        if not hasattr(self, "runtime"):
            return
        log, rules = self.runtime.log, self.runtime.rules
        ahead = hasattr(rules.when_older_is_open, "critical")
        highest: dict[object, int] = {}
        for offset in self.runtime.commits:
            event = log[offset]
            names: list[object] = [("stream", event.stream)] if event.stream is not None else []
            if rules.order == "arrival":
                names.append(("key", event.key) if ahead else "all")
            for name in names:
                assert highest.get(name, -1) < offset, f"{offset} was overtaken"
                highest[name] = offset

    def teardown(self) -> None:
        if hasattr(self, "runtime"):
            self.runtime.drain()
            self.no_overtaking()
            assert self.runtime.core.in_hand == 0
            assert len(self.runtime.core.done) == 0


TestAnyCourse = AnyCourse.TestCase
TestAnyCourse.settings = settings(stateful_step_count=8, max_examples=some(150))
