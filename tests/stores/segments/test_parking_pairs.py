"""What a destination refuses waits with its stream: in order and once, whoever is killed."""

import math
from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from stores.segments import (
    BatchLimits,
    ErrorsAfter,
    InboundMessage,
    OutboundBatch,
    OutboundMessage,
    Pair,
    ParkedPair,
    Parking,
    Place,
    Publisher,
    PublishRefused,
    SegmentConsumer,
    SegmentLedger,
    UnitIntake,
)
from stores.segments.chain import SegmentChain
from stores.segments.ledger import SegmentOwner
from stores.segments.parked_topic import ParkedTopic
from stores.segments.parking import RETRY, WITHOUT, ParkedUnits, stream_at
from tests.stores.segments.fake_disk import Crash, FakeDisk, Fuse
from tests.stores.segments.fake_transports import MemoryOutbound
from tests.stores.segments.test_crash_machine import KilledLedger, at_once, driven
from tests.stores.segments.test_parking import Streams, engine, run_both

__all__ = ["engine"]
STREAMS, PAIR = "abc", Pair("orders", "t")


class PositionOutbound(MemoryOutbound):
    """As RabbitMQ's streams and inboxes do it: per segment, nothing at or below a position that is
    there is taken again. It keeps no START."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__(before=before)
        self.last: dict[str, int] = {}

    async def publish(self, batch: OutboundBatch) -> None:
        assert sorted(set(batch.offsets)) == list(batch.offsets), "each has a position of its own"
        assert batch.offsets[-1:] <= (batch.behind.offset,)
        for at, message in enumerate(batch.messages):
            if message.value in self.refused and message.destination != "errors":
                raise PublishRefused(at, "it is too large")
        for message, offset in zip(batch.messages, batch.offsets, strict=True):
            self._before()
            if offset > self.last.get(batch.segment, 0):
                self.got.append(message)
                self.last[batch.segment] = offset
        self._before()


class PairWorld:
    """A topic, a destination that refuses some of what comes of it, and who carries it there."""

    def __init__(self, ledger: SegmentLedger, fuse: Fuse, kind: str, together: int = 3) -> None:
        self.ledger, self.fuse, self.together = ledger, fuse, together
        self.parking = Parking(ledger.engine)
        ledger.create()
        self.parking.create()
        self.disk, self.inbound = FakeDisk(fuse.step), Streams(before=fuse.step)
        self.outbound = MemoryOutbound(remembers=kind == "transaction", before=fuse.step)
        if kind == "positions":
            self.outbound = PositionOutbound(fuse.step)
        self.sent: dict[str, list[bytes]] = {each: [] for each in STREAMS}
        self.once = kind != "nothing"

    def send(self, stream: str) -> bytes:
        value = f"{stream}:{len(self.sent[stream])}".encode()
        self.sent[stream].append(value)
        self.inbound.add(0, value)
        return value

    def consumer(self, segment_bytes: int = 600) -> SegmentConsumer:
        def route(message: InboundMessage) -> list[OutboundMessage]:
            return [OutboundMessage("t", "there", message.value, stream=message.stream)]

        intake = UnitIntake(
            self.inbound,
            route,
            ErrorsAfter("t"),
            ["t"],
            limits=BatchLimits(count=self.together, idle=0),
            site="site",
            parked=ParkedTopic(self.parking, "orders"),
        )
        return SegmentConsumer(intake, self.ledger, self.disk, segment_bytes=segment_bytes)

    def publisher(self, most: int = 10_000, parks: bool = True) -> Publisher:
        return Publisher(
            self.ledger,
            self.disk,
            self.outbound,
            PAIR,
            ErrorsAfter("t", attempts=1),
            limits=BatchLimits(count=self.together),
            parked=ParkedPair(self.parking, PAIR, parks=parks, most=most),
        )

    def run(self, consumer: SegmentConsumer, publisher: Publisher) -> None:
        """Until nothing is left to do."""
        run_both(consumer, publisher)

    def streams(self) -> dict[str, ParkedUnits]:
        return {each.stream: each for each in self.parking.streams()}

    def came(self, destination: str = "there") -> dict[str, list[bytes]]:
        got = {each.id: each for each in self.outbound.got if each.destination == destination}
        if self.once:
            assert len(got) == sum(m.destination == destination for m in self.outbound.got)
        values = [each.value or b"" for each in got.values()]
        return {stream: [v for v in values if v[:1] == stream.encode()] for stream in STREAMS}


def memory() -> Engine:
    arguments = {"check_same_thread": False}
    return create_engine("sqlite://", poolclass=StaticPool, connect_args=arguments)


@pytest.fixture(autouse=True)
def _asks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.segments.parked_pair._ASK", 0.0)
    monkeypatch.setattr("stores.segments.publisher.FOLLOWS", math.inf)


@pytest.fixture
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.to_thread", at_once)


def story(world: PairWorld, deaths: Sequence[int]) -> bool:
    """Messages are refused, redriven, refused again, unparked, while processes are killed.

    deaths: after how many steps each time. Returns whether there were as many steps.
    """
    left = list(deaths)
    works = [world.consumer(), world.publisher()]

    def run() -> None:
        while True:
            if world.fuse.left is None and left:
                world.fuse.left = left.pop(0)
            try:
                if not sum([driven(work.step()) for work in works]):
                    return
            except Crash:
                works[:] = world.consumer(), world.publisher()

    def let_go(order: str) -> None:
        for each in world.parking.streams():
            world.parking.let_go(each, order, "a test")
        run()

    def send(streams: str) -> None:
        for each in streams:
            world.send(each)

    send("abcaab")
    world.outbound.refused = {b"a:0", b"a:2", b"b:1"}
    run()
    send("aab")
    let_go(RETRY)
    world.outbound.refused.discard(b"a:0")
    send("cab")
    let_go(RETRY)
    send("a")
    let_go(WITHOUT)
    send("abc")
    run()
    through = world.fuse.left is None and not left
    world.fuse.left = None
    return through


@pytest.mark.usefixtures("_no_threads")
@pytest.mark.parametrize(("kind", "begin"), [("transaction", 0), ("positions", 2), ("nothing", 4)])
def test_what_is_refused_comes_in_order_and_once_whoever_is_killed(kind: str, begin: int) -> None:
    for step in range(begin, 1_000, 13):  # all of them take minutes
        fuse = Fuse()
        ledger = KilledLedger(memory(), lease_seconds=-1)
        ledger.fuse = fuse
        world = PairWorld(ledger, fuse, kind)
        through = story(world, (step, step % 5))
        assert world.parking.streams() == [], step
        there, errors = world.came(), world.came("errors")
        sent = world.sent
        assert errors == {"a": [b"a:2"], "b": [b"b:1"], "c": []}, step
        assert there == {s: [v for v in sent[s] if v not in errors[s]] for s in sent}, step
        if not through:
            assert step > 100
            return
    raise AssertionError("it never ends")


def test_a_stream_waits_and_others_go_on_until_it_is_let_go(engine: Engine) -> None:
    world = PairWorld(SegmentLedger(engine, lease_seconds=-1), Fuse(), "positions")
    for stream in "abab":
        world.send(stream)
    world.outbound.refused = {b"a:0", b"b:1"}
    publisher = world.publisher()
    world.run(world.consumer(), publisher)
    assert world.came() == {"a": [], "b": [b"b:0"], "c": []}
    assert publisher.counts["parked"] == 3
    a, b = world.streams()["there=a"], world.streams()["there=b"]
    assert (a.topic, a.transport, a.waiting, b.waiting) == ("orders", "t", 2, 1)
    assert a.reason == "it is too large"
    world.parking.let_go(a, RETRY, "me")
    world.run(world.consumer(), world.publisher())
    again = world.streams()["there=a"]
    assert (again.waiting, again.since > a.since) == (2, True), "it is refused again"
    for each in world.parking.streams():
        world.parking.let_go(each, WITHOUT, "me")
    world.send("a")
    world.run(world.consumer(), world.publisher(parks=False))
    assert world.parking.streams() == []
    assert world.came() == {"a": [b"a:1", b"a:2"], "b": [b"b:0"], "c": []}
    assert world.came("errors") == {"a": [b"a:0"], "b": [b"b:1"], "c": []}
    error = next(each for each in world.outbound.got if each.destination == "errors")
    assert dict(error.headers)["sequitur-failed-reason"] == b"it is too large"


def test_more_than_fits_into_one_record_goes_on_with_several(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.segments.parked_pair.TOGETHER", 4)
    world = PairWorld(SegmentLedger(engine, lease_seconds=-1), Fuse(), "positions")
    sent = [world.send("a") for _ in range(10)]
    world.outbound.refused = {sent[0], sent[6]}
    world.run(world.consumer(), world.publisher())
    assert world.streams()["there=a"].waiting == 10
    world.outbound.refused = {sent[6]}
    world.parking.let_go(world.streams()["there=a"], RETRY, "me")
    world.run(world.consumer(), world.publisher())
    assert world.came()["a"] == sent[:6]
    (left,) = world.parking.streams()
    assert (left.waiting, left.reason) == (4, "it is too large")


def test_where_there_is_no_room_what_is_refused_and_what_is_behind_goes_to_errors(
    engine: Engine,
) -> None:
    world = PairWorld(SegmentLedger(engine, lease_seconds=-1), Fuse(), "transaction")
    for stream in "aaabc":
        world.send(stream)
    world.outbound.refused = {b"a:0", b"b:0"}
    publisher = world.publisher(most=120)
    world.run(world.consumer(), publisher)
    (only,) = world.parking.streams()
    assert (only.stream, only.waiting) == ("there=a", 1)
    assert world.came("errors") == {"a": [b"a:1", b"a:2"], "b": [b"b:0"], "c": []}
    assert world.came()["c"] == [b"c:0"]
    assert publisher.counts["diverted"] == 3


def test_sql_follows_a_destination_that_keeps_start_and_is_asked_for_no_more_than_it_has_to_be(
    engine: Engine,
) -> None:
    asked: list[str] = []

    class Asked(SegmentLedger):
        def chain(self, pair: Pair) -> SegmentChain:
            asked.append("chain")
            return super().chain(pair)

        def published(self, owner: SegmentOwner, pair: Pair, behind: Place | None) -> list[str]:
            asked.append("published")
            return super().published(owner, pair, behind)

    world = PairWorld(Asked(engine, lease_seconds=-1), Fuse(), "transaction", together=1)
    sent = [world.send("a") for _ in range(20)]
    world.run(world.consumer(segment_bytes=10_000), world.publisher())
    assert world.came()["a"] == sent
    assert not world.ledger.chain(PAIR).backlog, "it has all, once there is nothing to publish"
    assert asked.count("published") < 10 > asked.count("chain")


def test_a_stream_is_one_at_its_destination_and_of_its_partition() -> None:
    def at(destination: str, id: str, key: bytes | None = None) -> tuple[int, str]:
        return stream_at(OutboundMessage("t", destination, b"", key, id=id))

    assert at("a=b", "s/orders/3/7/0", b"k") == (3, "a%3Db=k")
    assert at("a", "s/orders/3/7/0", b"b=k") == (3, "a=b=k")
    assert at("a", "s/orders/3/7/1") == (3, "a-")
    assert at("a", "stream/orders/3/7/0", b"k")[0] == 0, "no partition: a queue's stream"
    assert at("a", "digest/0f/0", b"k" * 300)[1].startswith("#")
    assert at("a", "delivery/orders/0f/0", b"k\0")[1].startswith("#")
