"""Between any two steps a process dies, or the machine loses power: nothing is lost, nothing is out
of order, and nothing comes twice but a batch in doubt, with its ids."""

import math
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from stores.segments import (
    BatchLimits,
    ErrorsAfter,
    InboundMessage,
    OutboundMessage,
    Pair,
    Publisher,
    SegmentConsumer,
    SegmentLedger,
    StaleOwner,
    UnitIntake,
)
from stores.segments.record import HEAD, decode, record_at
from tests.examples import some
from tests.stores.segments.fake_disk import Crash, FakeDisk, Fuse
from tests.stores.segments.fake_transports import LogInbound, MemoryOutbound

TRANSPORTS = ("kafka", "queue")
FAILURES = ErrorsAfter("kafka")
STEPS = st.one_of(st.none(), st.integers(0, 14))


def driven(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.to_thread", at_once)


def route(message: InboundMessage) -> list[OutboundMessage]:
    """Each to both, every third to one of them twice, every fifth to nobody."""
    number = int((message.value or b"").split(b":")[1])
    if number % 5 == 4:
        return []
    found = [OutboundMessage(name, "there", message.value) for name in TRANSPORTS]
    return found + [OutboundMessage("queue", "other", message.value)] * (number % 3 == 2)


class KilledLedger(SegmentLedger):
    """Whose user dies before or behind a transaction."""

    fuse: Fuse


def _killed(name: str) -> Callable[..., Any]:
    original = getattr(SegmentLedger, name)

    def call(self: KilledLedger, *arguments: Any) -> Any:
        self.fuse.step()
        found = original(self, *arguments)
        self.fuse.step()
        return found

    return call


for _name in ("take_over", "open_segment", "advance", "resume", "published"):
    setattr(KilledLedger, _name, _killed(_name))


class SaveStoreMachine(RuleBasedStateMachine):
    """One consumer and two publishers, each with one before it that lives on."""

    @initialize(count=st.integers(1, 5), segment=st.sampled_from([1, 300, 100_000]))
    def begin(self, count: int, segment: int) -> None:
        self.count, self.segment = count, segment
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        self.fuse = Fuse()
        # A lease that is over at once: whoever comes takes over, and the one before lives on.
        self.ledger = KilledLedger(engine, lease_seconds=-1)
        self.ledger.fuse = self.fuse
        self.ledger.create()
        self.disk = FakeDisk(self.fuse.step)
        self.inbound = LogInbound(before=self.fuse.step)
        self.outbound = {
            name: MemoryOutbound(remembers=name == "kafka", before=self.fuse.step)
            for name in TRANSPORTS
        }
        self.doubted: set[str] = set()
        self.consumer = self.new_consumer()
        self.publisher = {name: self.new_publisher(name) for name in TRANSPORTS}
        self.old_consumer: SegmentConsumer | None = None
        self.old_publisher: dict[str, Publisher] = {}

    def new_consumer(self) -> SegmentConsumer:
        limits = BatchLimits(count=self.count, idle=0)
        intake = UnitIntake(self.inbound, route, FAILURES, TRANSPORTS, limits=limits, site="site")
        return SegmentConsumer(intake, self.ledger, self.disk, segment_bytes=self.segment)

    def new_publisher(self, name: str) -> Publisher:
        pair, limits = Pair("orders", name), BatchLimits(count=self.count)
        return Publisher(self.ledger, self.disk, self.outbound[name], pair, FAILURES, limits=limits)

    def step(self, work: Coroutine[Any, Any, Any], until: int | None) -> bool:
        """Whether it lived."""
        self.fuse.left = until
        try:
            driven(work)
        except Crash:
            return False
        except StaleOwner:
            pass
        finally:
            self.fuse.left = None
        return True

    @rule(partition=st.integers(0, 1), count=st.integers(1, 6))
    def arrive(self, partition: int, count: int) -> None:
        for _ in range(count):
            number = len(self.inbound.partitions.get(partition, ()))
            self.inbound.add(partition, f"{partition}:{number}:{'x' * (number % 40)}".encode())

    @rule(until=STEPS)
    def consume(self, until: int | None) -> None:
        if not self.step(self.consumer.step(), until):
            self.old_consumer, self.consumer = None, self.new_consumer()

    @rule(name=st.sampled_from(TRANSPORTS), until=STEPS)
    def publish(self, name: str, until: int | None) -> None:
        self.outbound[name].handed = []
        if not self.step(self.publisher[name].step(), until):
            self.doubted |= set(self.outbound[name].handed)
            self.publisher[name] = self.new_publisher(name)

    @rule(name=st.sampled_from(TRANSPORTS))
    def replaced_while_it_lives(self, name: str) -> None:
        self.old_consumer, self.consumer = self.consumer, self.new_consumer()
        self.old_publisher[name] = self.publisher[name]
        self.publisher[name] = self.new_publisher(name)
        self.step(self.consumer.step(), None)
        self.step(self.publisher[name].step(), None)

    @rule(until=STEPS)
    def the_one_before_writes_on(self, until: int | None) -> None:
        if self.old_consumer is not None and self.old_consumer._writer is not None:
            messages = driven(self.old_consumer.intake.batch(0))
            outputs = [m for each in messages for m in self.old_consumer.intake.outputs(each)]
            self.fuse.left = until
            try:
                self.old_consumer._writer.write(outputs, {0: 99, 1: 99})
                raise AssertionError("a generation that was replaced has moved END")
            except (StaleOwner, Crash):
                self.old_consumer = None
            finally:
                self.fuse.left = None
                # What it took from the topic, the present one takes by itself.
                self.inbound._at = self.ledger.positions("orders")

    @rule(name=st.sampled_from(TRANSPORTS))
    def the_publisher_before_goes_on(self, name: str) -> None:
        if name in self.old_publisher:
            self.step(self.old_publisher[name].step(), None)

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.disk.lose_power(Random(seed))
        self.consumer, self.old_consumer = self.new_consumer(), None
        self.publisher = {name: self.new_publisher(name) for name in TRANSPORTS}
        self.old_publisher.clear()

    @invariant()
    def nothing_is_acknowledged_that_sql_does_not_have(self) -> None:
        if hasattr(self, "inbound"):
            positions = self.ledger.positions("orders")
            for partition, position in self.inbound.acknowledged.items():
                assert position <= positions[partition]

    @invariant()
    def what_is_promised_is_there(self) -> None:
        if not hasattr(self, "ledger"):
            return
        for name in TRANSPORTS:
            for segment in self.ledger.chain(Pair("orders", name)).segments:
                at = segment.start
                while at < segment.end:
                    data = self.disk.read(segment.name, at, segment.end)
                    body = record_at(data, 0, at)
                    assert body is not None, (segment, at)
                    assert decode(body, name).transport == name
                    at += HEAD.size + len(body)

    def teardown(self) -> None:
        if not hasattr(self, "ledger"):
            return
        arrived = sum(len(each) for each in self.inbound.partitions.values())
        for _ in range(3 * arrived + 5):
            self.step(self.consumer.step(), None)
            for name in TRANSPORTS:
                self.step(self.publisher[name].step(), None)
        for name in TRANSPORTS:
            self.all_came_in_order(name)
            assert not self.ledger.chain(Pair("orders", name)).backlog
        kept = {s.name for n in TRANSPORTS for s in self.ledger.chain(Pair("orders", n)).segments}
        assert len(kept) <= len(TRANSPORTS), "finished segments are removed"

    def all_came_in_order(self, name: str) -> None:
        got = self.outbound[name].got
        ids = [each.id for each in got]
        once = dict(zip(ids, got, strict=True))
        again = {each for each in ids if ids.count(each) > 1}
        if name == "kafka":
            assert not again, "its transaction has START in it"
        else:
            assert again <= self.doubted, "only what was in doubt comes again"
        for partition, values in self.inbound.partitions.items():
            sent = [
                (each.destination, each.value)
                for offset, value in enumerate(values)
                for each in route(InboundMessage("orders", partition, offset, offset + 1, value))
                if each.transport == name
            ]
            begin = f"site/orders/{partition}/"
            found = [(m.destination, m.value) for id, m in once.items() if id.startswith(begin)]
            assert found == sent


SaveStoreMachine.TestCase.settings = settings(max_examples=some(40), stateful_step_count=25)


class TestSaveStore(SaveStoreMachine.TestCase):  # type: ignore[misc, valid-type]
    """See the module."""

    @pytest.fixture(autouse=True)
    def _no_threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("asyncio.to_thread", at_once)
        # SQL's START is as far behind the destination's as it may be.
        monkeypatch.setattr("stores.segments.publisher.FOLLOWS", math.inf)
