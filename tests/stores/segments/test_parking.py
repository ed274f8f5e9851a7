"""Parked streams: in order and once, whatever fails again, whoever is killed and replaced."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from stores.db.engines import open_engine
from stores.segments import (
    BatchLimits,
    ErrorsAfter,
    InboundMessage,
    OutboundMessage,
    Pair,
    Parking,
    Publisher,
    SegmentConsumer,
    SegmentLedger,
    StaleOwner,
    UnitIntake,
)
from stores.segments.files import FileSegments
from stores.segments.parked_topic import ParkedTopic
from stores.segments.parking import RETRY, WITHOUT, stream_of
from tests.examples import some
from tests.stores.segments.fake_disk import Crash, FakeDisk, Fuse
from tests.stores.segments.fake_transports import LogInbound, MemoryOutbound
from tests.stores.segments.test_crash_machine import STEPS, KilledLedger, at_once, driven

STREAMS = "abc"


class Streams(LogInbound):
    """A topic whose messages name their stream: b"a:0" is the first one of a."""

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        found = await super().poll(most, seconds)
        return [replace(each, stream=(each.value or b"").decode()[0]) for each in found]


class World:
    """A topic, what of it cannot be routed, and where it goes."""

    def __init__(self, ledger: SegmentLedger, disk: FileSegments, fuse: Fuse) -> None:
        self.ledger, self.disk, self.fuse = ledger, disk, fuse
        self.parking = Parking(ledger.engine)
        self.ledger.create()
        self.parking.create()
        self.inbound = Streams(before=fuse.step)
        self.outbound = MemoryOutbound(remembers=True, before=fuse.step)
        self.broken: set[bytes] = set()
        self.sent: dict[str, list[bytes]] = {each: [] for each in STREAMS}

    def send(self, stream: str) -> bytes:
        value = f"{stream}:{len(self.sent[stream])}".encode()
        self.sent[stream].append(value)
        self.inbound.add(0, value)
        return value

    def consumer(self, most: int = 10_000, parks: bool = True) -> SegmentConsumer:
        intake = UnitIntake(
            self.inbound,
            self.route,
            ErrorsAfter("t", attempts=2),
            ["t"],
            limits=BatchLimits(count=3, idle=0),
            site="site",
            parked=ParkedTopic(self.parking, "orders", parks=parks, most=most),
        )
        return SegmentConsumer(intake, self.ledger, self.disk)

    def publisher(self) -> Publisher:
        pair, errors = Pair("orders", "t"), ErrorsAfter("t")
        return Publisher(self.ledger, self.disk, self.outbound, pair, errors)

    def route(self, message: InboundMessage) -> list[OutboundMessage]:
        if message.value in self.broken:
            raise ValueError("what it asks is away")
        return [OutboundMessage("t", "there", message.value)]

    def came(self, destination: str = "there") -> dict[str, list[bytes]]:
        got = [each for each in self.outbound.got if each.destination == destination]
        assert len({each.id for each in got}) == len(got), "nothing comes twice"
        values = [each.value or b"" for each in got]
        return {stream: [v for v in values if v[:1] == stream.encode()] for stream in STREAMS}


class ParkingMachine(RuleBasedStateMachine):
    """A consumer that is killed anywhere, while streams fail, are redriven and unparked."""

    @initialize()
    def begin(self) -> None:
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        fuse = Fuse()
        ledger = KilledLedger(engine, lease_seconds=-1)
        ledger.fuse = fuse
        self.world = World(ledger, FakeDisk(fuse.step), fuse)
        self.consumer = self.world.consumer()
        self.given_up: set[bytes] = set()

    @rule(stream=st.sampled_from(STREAMS), count=st.integers(1, 4), broken=st.booleans())
    def arrive(self, stream: str, count: int, broken: bool) -> None:
        values = [self.world.send(stream) for _ in range(count)]
        if broken:
            self.world.broken.add(values[0])

    @rule()
    def mend(self) -> None:
        self.world.broken.clear()

    @rule(until=STEPS)
    def consume(self, until: int | None) -> None:
        self.world.fuse.left = until
        try:
            driven(self.consumer.step())
        except (Crash, StaleOwner):
            self.consumer = self.world.consumer()
        finally:
            self.world.fuse.left = None

    @rule()
    def replaced(self) -> None:
        old, self.consumer = self.consumer, self.world.consumer()
        driven(self.consumer.step())
        if old._owner is not None:
            with pytest.raises(StaleOwner):
                driven(old.step())

    @rule(stream=st.sampled_from(STREAMS), order=st.sampled_from([RETRY, WITHOUT]))
    def let_go(self, stream: str, order: str) -> None:
        for each in self.world.parking.streams():
            if each.stream == f"={stream}":
                self.world.parking.let_go(each, order, "a test")
                if order == WITHOUT:
                    self.given_up.add(self.world.inbound.partitions[0][each.position])

    def teardown(self) -> None:
        world = self.world
        world.broken.clear()
        for _ in range(100):
            while driven(self.consumer.step()):
                pass
            if not (parked := world.parking.streams()):
                break
            for each in parked:
                world.parking.let_go(each, RETRY, "a test")
        assert world.parking.streams() == []
        publisher = world.publisher()
        while driven(publisher.step()):
            pass
        there, errors = world.came(), world.came("errors")
        for stream, sent in world.sent.items():
            assert there[stream] == [each for each in sent if each not in errors[stream]]
            assert set(errors[stream]) <= self.given_up
            assert sorted(there[stream] + errors[stream]) == sorted(sent)


@pytest.fixture
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.to_thread", at_once)


@pytest.mark.usefixtures("_no_threads")
def test_parked_streams_come_in_order_and_once_whoever_is_killed() -> None:
    run_state_machine_as_test(
        ParkingMachine,
        settings=settings(max_examples=some(25), stateful_step_count=25, deadline=None),
    )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/ledger.db"
    if request.param == "postgres":
        url = request.getfixturevalue("database")
    found = open_engine(url)
    yield found
    found.dispose()


@pytest.fixture
def world(engine: Engine, tmp_path: Path) -> World:
    return World(SegmentLedger(engine, lease_seconds=-1), FileSegments(tmp_path / "s"), Fuse())


def run_both(consumer: SegmentConsumer, publisher: Publisher) -> None:
    """Until nothing is left to do."""

    async def both() -> None:
        while True:
            done = 0
            for each in (consumer, publisher):
                while await each.step(0):
                    done += 1
            if not done:
                break
        await consumer.stop()
        await publisher.stop()

    asyncio.run(both())


def run(world: World, consumer: SegmentConsumer) -> SegmentConsumer:
    run_both(consumer, world.publisher())
    return consumer


def test_a_stream_waits_and_others_go_on_until_it_is_let_go(world: World) -> None:
    for stream in "abab":
        world.send(stream)
    world.broken = {b"a:0", b"b:1"}
    consumer = run(world, world.consumer())
    assert world.came()["a"] == []
    assert world.came()["b"] == [b"b:0"]
    assert consumer.intake.counts["parked"] == 3
    a, b = world.parking.streams()
    assert (a.stream, a.position, a.waiting, b.stream, b.waiting) == ("=a", 0, 2, "=b", 1)
    assert a.reason == "what it asks is away"
    world.parking.let_go(a, RETRY, "me")
    run(world, world.consumer())
    assert [each.stream for each in world.parking.streams()] == ["=b", "=a"], "parked anew"
    for each in world.parking.streams():
        world.parking.let_go(each, WITHOUT, "me")
    world.send("a")
    run(world, world.consumer(parks=False))
    assert world.parking.streams() == []
    assert world.came() == {"a": [b"a:1", b"a:2"], "b": [b"b:0"], "c": []}
    assert world.came("errors") == {"a": [b"a:0"], "b": [b"b:1"], "c": []}
    error = next(each for each in world.outbound.got if each.destination == "errors")
    assert dict(error.headers)["sequitur-failed-reason"] == b"ValueError: what it asks is away"


def test_a_message_that_was_parked_is_routed_as_it_came(world: World) -> None:
    content = b"v", b"k", (("h", b"\xff"),), "s", 3
    messages = [
        InboundMessage("orders", 0, n, n + 1, *content, "p", replayable=False, time=time)
        for n, time in enumerate((0, 1_370_000_000_000))
    ]
    topic = ParkedTopic(world.parking, "orders")
    for each in messages:
        assert topic.park(each, "what it asks is away" if each.offset == 0 else None)
    with world.ledger.engine.begin() as connection:
        topic.note(connection)
    (parked,) = world.parking.streams()
    world.parking.let_go(parked, RETRY, "me")
    found = topic.let_go(10, 10_000)
    assert found is not None
    assert found.messages == tuple(messages)


def test_where_there_is_no_room_what_fails_and_what_is_behind_goes_to_errors(world: World) -> None:
    for stream in "aaabc":
        world.send(stream)
    world.broken = {b"a:0", b"b:0"}
    consumer = run(world, world.consumer(most=80))
    (only,) = world.parking.streams()
    assert (only.stream, only.waiting) == ("=a", 1)
    assert world.came("errors") == {"a": [b"a:1", b"a:2"], "b": [b"b:0"], "c": []}
    assert world.came()["c"] == [b"c:0"]
    assert consumer.intake.parked is not None
    assert consumer.intake.parked.counts["refused"] == 3


def test_what_no_record_can_hold_goes_to_errors(world: World) -> None:
    # It was tried again for ever, as a fault of Sequitur's, and its queue stood still.
    parked = ParkedTopic(world.parking, "in", parks=True)
    message = InboundMessage("in", 0, 0, 1, b"x", stream="a", sequence=-(2**70))
    assert not parked.park(message, "it failed")
    assert not parked.has_any


def test_what_is_parked_comes_back_as_it_was(world: World) -> None:
    headers = (("h", b"\xff"), ("h", b""))
    kept: list[Callable[[], InboundMessage]] = [
        lambda: InboundMessage("orders", 2, 7, 9, None, b"\x00k", headers, None, None, "p", False),
        lambda: InboundMessage("orders", 0, 8, 9, b"", None, (), "s\0" + "x" * 300, 2**40),
    ]
    topic = ParkedTopic(world.parking, "orders")
    topic.start()
    for each in kept:
        assert topic.park(each(), "why\x1b")
    with world.ledger.engine.begin() as connection:
        topic.note(connection)
    for parked in world.parking.streams():
        assert parked.reason == r"why\x1b"
        world.parking.let_go(parked, RETRY, "me")
        gone = topic.let_go(10, 1)
        assert gone is not None
        (found,) = gone.messages
        (sent,) = [each() for each in kept if each().offset == found.offset]
        assert replace(found, behind=sent.behind) == sent
        assert gone.stream == stream_of(sent)
        with world.ledger.engine.begin() as connection:
            topic.went(connection, gone, 1, None)


def test_one_step_lets_go_no_more_than_it_may_have_in_memory(world: World) -> None:
    topic = ParkedTopic(world.parking, "orders")
    topic.start()
    for n in range(3):
        one = InboundMessage("orders", 0, n, n + 1, b"x" * 1_000, stream="s")
        assert topic.park(one, "why" if n == 0 else None)
    with world.ledger.engine.begin() as connection:
        topic.note(connection)
    (parked,) = world.parking.streams()
    world.parking.let_go(parked, RETRY, "me")
    for most, size, count in ((9, 1, 1), (9, 2_500, 2), (9, 9_000, 3), (2, 9_000, 2)):
        gone = topic.let_go(most, size)
        assert gone is not None
        assert [each.offset for each in gone.messages] == [*range(count)]
