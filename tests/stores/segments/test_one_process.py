"""One process across transports: whatever step it dies at, what is published is skipped."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select

from stores.db.engines import open_engine
from stores.segments import (
    BatchLimits,
    DestinationDown,
    DirectConsumer,
    ErrorsAfter,
    InboundMessage,
    OutboundMessage,
    Parking,
    PublishedIds,
    SegmentLedger,
    UnitIntake,
)
from stores.segments.parked_topic import ParkedTopic
from stores.segments.published_ids import IDS, KeptId
from tests.stores.segments.fake_disk import Crash, Fuse
from tests.stores.segments.fake_transports import LogInbound, MemoryOutbound

LEASE_OVER = -1


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    found = open_engine(f"sqlite:///{tmp_path}/ledger.db")
    SegmentLedger(found).create()
    PublishedIds(found).create()
    yield found
    found.dispose()


def to_both(message: InboundMessage) -> list[OutboundMessage]:
    return [OutboundMessage(name, "there", message.value) for name in ("a", "b")]


class DirectWorld:
    def __init__(self, engine: Engine) -> None:
        self.engine, self.fuse = engine, Fuse()
        self.inbound = LogInbound(before=self.fuse.step)
        self.outbound = {name: MemoryOutbound(before=self.fuse.step) for name in ("a", "b")}
        for n in range(6):
            self.inbound.add(n % 2, b"%d" % n)

    def consumer(self) -> DirectConsumer:
        limits = BatchLimits(count=4, idle=0)
        intake = UnitIntake(
            self.inbound, to_both, ErrorsAfter("a"), ["a", "b"], limits=limits, site="site"
        )
        ledger = SegmentLedger(self.engine, lease_seconds=LEASE_OVER)
        return DirectConsumer(intake, ledger, PublishedIds(self.engine), self.outbound)

    def ids(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(IDS)).scalar_one())


@pytest.mark.parametrize("until", range(20))
async def test_it_dies_at_any_step_and_only_what_is_in_doubt_comes_again(
    until: int, engine: Engine
) -> None:
    world = DirectWorld(engine)
    world.fuse.left = until
    consumer = world.consumer()
    for _ in range(4):
        try:
            await consumer.step()
        except Crash:
            consumer = world.consumer()
    world.fuse.left = None
    while await consumer.step():
        pass
    for outbound in world.outbound.values():
        ids = [each.id for each in outbound.got]
        once = list(dict.fromkeys(each.value or b"" for each in outbound.got))
        assert sorted(once) == [b"%d" % n for n in range(6)]
        for partition in (0, 1):
            assert [v for v in once if int(v) % 2 == partition] == world.inbound.partitions[
                partition
            ]
        assert len(ids) - len(set(ids)) <= 4, "one batch at most"
    twice = [len(o.got) > 6 for o in world.outbound.values()]
    assert sum(twice) <= 1, "what was stored as published is skipped"
    world.inbound.add(0, b"6")
    await consumer.step()
    assert world.ids() == 0, "positions are behind them all, and the next unit clears up"


async def test_a_transport_that_is_down_does_not_repeat_what_the_other_has(engine: Engine) -> None:
    world = DirectWorld(engine)
    world.outbound["b"].down = True
    consumer = world.consumer()
    for _ in range(3):
        with pytest.raises(DestinationDown):
            await consumer.step()
    assert world.inbound.acknowledged == {}
    world.outbound["b"].down = False
    while await consumer.step():
        pass
    assert [len(each.got) for each in world.outbound.values()] == [6, 6]
    assert consumer.counts["skipped"] == 4 * 3


class TurningInbound(LogInbound):
    """Which partition comes first is another one after each start, as in Kafka."""

    starts = 0

    async def start(self, positions: Mapping[int, int]) -> None:
        self.starts += 1
        await super().start(positions)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        found: list[InboundMessage] = []
        for number in sorted(self.partitions, reverse=self.starts % 2 == 0):
            values, at = self.partitions[number], self._at.get(number, 0)
            for offset in range(at, min(len(values), at + most - len(found))):
                where = (self.topic, number, offset, offset + 1)
                found.append(InboundMessage(*where, values[offset]))
                self._at[number] = offset + 1
        return found


async def test_a_transport_that_was_down_repeats_nothing_where_other_partitions_come_first(
    engine: Engine,
) -> None:
    world = DirectWorld(engine)
    world.inbound = TurningInbound()
    for n in range(8):
        world.inbound.add(n % 2, b"%d" % n)
    world.outbound["b"].down = True
    consumer = world.consumer()
    with pytest.raises(DestinationDown):
        await consumer.step()
    world.outbound["b"].down = False
    while await consumer.step():
        pass
    for outbound in world.outbound.values():
        assert sorted(each.value or b"" for each in outbound.got) == [b"%d" % n for n in range(8)]
    assert world.ids() == 0


async def test_what_is_refused_goes_to_errors_and_others_go_on(engine: Engine) -> None:
    world = DirectWorld(engine)
    world.outbound["b"].refused = {b"0", b"3"}
    consumer = world.consumer()
    while await consumer.step():
        pass
    assert len(world.outbound["a"].got) == 6
    where = {each.value: each.destination for each in world.outbound["b"].got}
    assert where == {b"%d" % n: "errors" if n in (0, 3) else "there" for n in range(6)}
    failed = next(each for each in world.outbound["b"].got if each.value == b"0")
    assert dict(failed.headers)["sequitur-failed-attempts"] == b"3"
    assert consumer.counts["diverted"] == 2


class RedeliveringQueue(LogInbound):
    """A queue: positions mean nothing, and everything comes again."""

    async def poll(self, most: int, seconds: float) -> list[InboundMessage]:
        return [
            InboundMessage("q", 0, 0, 1, b"s", stream="s", sequence=1, replayable=False),
            InboundMessage("q", 0, 1, 2, b"p", producer_id="p", replayable=False),
            InboundMessage("q", 0, 2, 3, b"n", replayable=False, redelivered=True),
        ]


async def test_a_queue_s_messages_are_known_by_stream_or_by_their_producer_s_id(
    engine: Engine,
) -> None:
    outbound = MemoryOutbound()
    limits = BatchLimits(count=3, idle=0)

    def to_a(message: InboundMessage) -> list[OutboundMessage]:
        return [OutboundMessage("a", "there", message.value)]

    for window in (60.0, 60.0):
        inbound = RedeliveringQueue("q")
        intake = UnitIntake(
            inbound, to_a, ErrorsAfter("a"), ["a"], window=window, limits=limits, site="site"
        )
        ledger = SegmentLedger(engine, lease_seconds=LEASE_OVER)
        consumer = DirectConsumer(intake, ledger, PublishedIds(engine), {"a": outbound})
        await consumer.step()
        await consumer.step()
        assert intake.counts["redelivered without an id"] == 2

    assert [each.value for each in outbound.got].count(b"s") == 1
    assert [each.value for each in outbound.got].count(b"p") == 1


def test_a_producer_s_id_is_known_within_its_window_only(engine: Engine) -> None:
    ids = PublishedIds(engine)
    owner = SegmentLedger(engine, lease_seconds=LEASE_OVER).own_end("q", "test")
    assert owner is not None
    ids.add(
        owner, [KeptId("long", 60, None), KeptId("short", -1, None), KeptId("ever", None, None)]
    )
    ids.add(owner, [])
    assert ids.among(["long", "short", "ever", "other"]) == {"long", "ever"}


def test_a_stream_cannot_be_parked_without_segments(engine: Engine) -> None:
    parking = Parking(engine)
    parking.create()
    errors, parked = ErrorsAfter("a"), ParkedTopic(parking, "orders")
    intake = UnitIntake(LogInbound(), to_both, errors, ["a", "b"], site="s", parked=parked)
    with pytest.raises(ValueError, match="only a SegmentConsumer parks streams"):
        DirectConsumer(intake, SegmentLedger(engine), PublishedIds(engine), {})
