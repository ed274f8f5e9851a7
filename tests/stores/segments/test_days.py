"""End of day: each destination has all of a day before its end, once, over kills and moves."""

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random

import orjson
import pytest
from sqlalchemy import Engine, update

from stores.segments import (
    BatchLimits,
    DayMarks,
    Days,
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    OutboundMessage,
    Pair,
    Place,
    Publisher,
    SegmentConsumer,
    SegmentError,
    SegmentLedger,
    UnitIntake,
)
from stores.segments.day_of import DAY, day_of
from stores.segments.days import DayState, Passing
from stores.segments.ledger import SEGMENTS
from tests.stores.segments.fake_transports import LogInbound, MemoryOutbound

TOPICS, DESTINATIONS, ENDS = ("bills", "orders"), ("a", "b"), ("2013-01-01", "2013-01-02")


class Killed(BaseException):
    """A step that was not finished."""


class Partitions(LogInbound):
    """A topic whose partitions can be held; an end of day is a message of one header."""

    def __init__(self, topic: str, fuse: "Fuse") -> None:
        super().__init__(topic, fuse)
        self._on_hold: set[int] = set()

    async def start(self, positions: Mapping[int, int]) -> None:
        await super().start(positions)
        self._on_hold.clear()

    def partition_numbers(self) -> Collection[int]:
        return sorted(self.partitions)

    def hold(self, partition: int, position: int) -> None:
        self._on_hold.add(partition)
        self._at[partition] = position

    def release(self, partition: int) -> None:
        self._on_hold.discard(partition)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        every = self.partitions
        self.partitions = {n: of for n, of in every.items() if n not in self._on_hold}
        try:
            return await super().poll(most, seconds)
        finally:
            self.partitions = every


class TwoPartitions(MemoryOutbound):
    """Each destination has two partitions."""

    async def partition_numbers(self, destination: str) -> Collection[int]:
        return (0, 1)


class Fuse:
    """Kills the step in which it burns down."""

    def __init__(self) -> None:
        self.left: int | None = None

    def __call__(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Killed


@pytest.fixture(autouse=True)
def _follows(monkeypatch: pytest.MonkeyPatch) -> None:
    # SQL's START is as far behind the destination's as it may be.
    monkeypatch.setattr("stores.segments.publisher.FOLLOWS", math.inf)


def end(day: str) -> bytes:
    return orjson.dumps({DAY: day})


def route(message: InboundMessage) -> list[OutboundMessage]:
    return [OutboundMessage("queue", each, message.value) for each in DESTINATIONS]


class Router:
    """Two topics, each with a consumer and a publisher, any of which may die and come again."""

    def __init__(self, engine: Engine, folder: Path, remembers: bool, held: bool = True) -> None:
        self.fuse, self._engine = Fuse(), engine
        self._store = FileSegments(folder / "segments")
        self.inbounds = {
            topic: (Partitions if held else LogInbound)(topic, self.fuse) for topic in TOPICS
        }
        self.outbounds = {
            topic: TwoPartitions(remembers=remembers, before=self.fuse) for topic in TOPICS
        }
        self.got: list[OutboundMessage] = []
        for each in self.outbounds.values():
            each.got = self.got  # one destination, fed by both
        self.works: dict[tuple[str, str], SegmentConsumer | Publisher] = {}

    def work(self, kind: str, topic: str) -> SegmentConsumer | Publisher:
        if (kind, topic) not in self.works:
            ledger = SegmentLedger(self._engine, lease_seconds=0.01)
            days = Days(ledger, TOPICS, ["queue"])
            policy = ErrorsAfter("queue")
            limits = BatchLimits(count=2, idle=0)
            if kind == "consumer":
                intake = UnitIntake(
                    *(self.inbounds[topic], route, policy, ["queue"]), site="s", limits=limits
                )
                self.works[kind, topic] = SegmentConsumer(intake, ledger, self._store, days=days)
            else:
                marks = DayMarks(days, "s", {"queue": DESTINATIONS})
                self.works[kind, topic] = Publisher(
                    *(ledger, self._store, self.outbounds[topic], Pair(topic, "queue"), policy),
                    days=marks,
                    limits=limits,
                )
        return self.works[kind, topic]

    async def step(self, kind: str, topic: str) -> None:
        try:
            await self.work(kind, topic).step(0)
        except Killed:
            del self.works[kind, topic]  # another process takes its place

    async def settle(self, most: int) -> None:
        for _ in range(most):
            for kind in ("consumer", "publisher"):
                for topic in TOPICS:
                    await self.step(kind, topic)


def check(got: Sequence[OutboundMessage], sent: Sequence[tuple[int, bytes]]) -> None:
    """Each message is between the ends of its day, and each end came once to each partition."""
    for destination in DESTINATIONS:
        seen: dict[str, OutboundMessage] = {}
        for each in got:
            if each.destination == destination:
                seen.setdefault(each.id, each)
        days, at = dict[int, list[bytes]](), 0
        ends: dict[int, list[str]] = {0: [], 1: []}
        for each in seen.values():
            if each.headers and each.headers[0][0] == DAY:
                assert each.partition is not None
                ends[each.partition].append(each.headers[0][1].decode())
                at = max(map(len, ends.values()))
            else:
                assert len({len(of) for of in ends.values()}) == 1, "between two ends of one day"
                days.setdefault(at, []).append(each.value or b"")
        assert ends == {0: list(ENDS), 1: list(ENDS)}
        for number in range(len(ENDS) + 1):
            wanted = sorted(value for day, value in sent if day == number)
            assert sorted(days.get(number, [])) == wanted


@pytest.mark.parametrize(("seed", "remembers"), [(n, n % 2 == 0) for n in range(8)])
async def test_a_day_ends_once_behind_all_of_it_over_kills(
    engine: Engine, tmp_path: Path, seed: int, remembers: bool
) -> None:
    random, router, numbers = Random(seed), Router(engine, tmp_path, remembers), count()
    sent = []
    for inbound in router.inbounds.values():
        for partition in (0, 1):
            for day in range(len(ENDS) + 1):
                for _ in range(random.randrange(5)):
                    value = b"%d" % next(numbers)
                    inbound.add(partition, value)
                    sent.append((day, value))
                if day < len(ENDS):
                    for _ in range(random.choice([1, 1, 2])):  # a repetition is one
                        inbound.add(partition, end(ENDS[day]))
    for _ in range(150):
        if random.random() < 0.3:
            router.fuse.left = random.randrange(6)
        await router.step(random.choice(["consumer", "publisher"]), random.choice(TOPICS))
    router.fuse.left = None
    wanted = (len(sent) + 2 * len(ENDS)) * len(DESTINATIONS)
    for _ in range(200):
        await router.settle(2)
        if len({each.id for each in router.got}) >= wanted:
            break
        await asyncio.sleep(0.002)  # leases of what was killed end
    check(router.got, sent)


async def test_a_silent_partition_is_named_and_never_passed_over(
    engine: Engine, tmp_path: Path
) -> None:
    router = Router(engine, tmp_path, True)
    for inbound in router.inbounds.values():
        for partition in (0, 1):
            inbound.add(partition, b"%s %d" % (inbound.topic.encode(), partition))
    for topic, partition in (("bills", 0), ("bills", 1), ("orders", 0)):
        router.inbounds[topic].add(partition, end(ENDS[0]))
        router.inbounds[topic].add(partition, b"the next day")
    await router.settle(30)
    state = Days(SegmentLedger(engine), TOPICS, ["queue"]).state()
    assert (state.open, state.missing) == (ENDS[0], ["orders/1"])
    assert len(router.got) == 8
    assert b"the next day" not in {each.value for each in router.got}
    router.inbounds["orders"].add(1, end(ENDS[0]))
    await router.settle(30)
    assert [each.value for each in router.got].count(b"the next day") == 6
    assert not Days(SegmentLedger(engine), TOPICS, ["queue"]).state().missing


async def test_an_end_out_of_sequence_goes_to_errors_with_the_reason(
    engine: Engine, tmp_path: Path
) -> None:
    router = Router(engine, tmp_path, True)
    orders, bills = router.inbounds["orders"], router.inbounds["bills"]
    for value in (end(ENDS[1]), end(ENDS[0]), end("no day"), b"after it"):
        orders.add(0, value)
    bills.add(0, end(ENDS[1]))
    await router.settle(60)
    errors = [each for each in router.got if each.destination == "errors"]
    why = [dict(each.headers)["sequitur-failed-reason"].decode() for each in errors]
    assert f"the end of {ENDS[0]} comes after that of {ENDS[1]}" in why[0]
    assert len(why) == 2
    assert "the id of a day has" in why[1]
    assert b"after it" in {each.value for each in router.got}


async def test_a_source_that_cannot_be_held_in_part_waits_as_a_whole(
    engine: Engine, tmp_path: Path
) -> None:
    router, sent = Router(engine, tmp_path, True, held=False), []
    for inbound in router.inbounds.values():
        for day in range(3):
            for number in range(3):
                value = f"{inbound.topic} {day} {number}".encode()
                inbound.add(0, value)
                sent.append((day, value))
            if day < 2:
                inbound.add(0, end(ENDS[day]))
    await router.settle(60)
    check(router.got, sent)


def ended(
    ledger: SegmentLedger, topics: Sequence[str], transports: Sequence[str] = ("kafka",)
) -> Days:
    """The days of a router in which ENDS[0] has ended, and no publisher has passed it."""
    days = Days(ledger, topics, transports)
    for topic in topics:
        days.know(topic, [0])
    for topic in topics:
        with ledger.engine.begin() as connection:
            days.reach(connection, topic, {0: ENDS[0]})
    for topic in topics:
        written(ledger, days, topic, transports)
    return days


def written(ledger: SegmentLedger, days: Days, topic: str, transports: Sequence[str]) -> None:
    with ledger.engine.begin() as connection:
        days.write(connection, ENDS[0], {Pair(topic, t): (Place(1, 0), 10) for t in transports})


def passing(days: Days, *topics: str, transport: str = "kafka") -> list[Passing]:
    return [days.passing(Pair(topic, transport), ENDS[0]) for topic in topics]


LEADS, FOLLOWS, WAITS = Passing.LEADS, Passing.FOLLOWS, Passing.WAITS


def test_a_source_that_is_added_in_front_of_the_others_holds_up_no_day_that_has_ended(
    engine: Engine,
) -> None:
    ledger = SegmentLedger(engine)
    ended(ledger, ["b", "c"])
    later = Days(ledger, ["a", "b", "c"], ["kafka"])
    later.know("a", [0])
    assert passing(later, "b", "c") == [LEADS, FOLLOWS]


def test_a_day_is_told_by_the_same_topic_though_its_source_is_taken_out(engine: Engine) -> None:
    ledger = SegmentLedger(engine)
    assert passing(ended(ledger, ["a", "b"]), "a", "b") == [LEADS, FOLLOWS]
    assert passing(Days(ledger, ["b"], ["kafka"]), "b") == [FOLLOWS]


def test_a_transport_that_is_added_while_a_day_is_written_waits_for_nobody_who_lacks_it(
    engine: Engine,
) -> None:
    ledger = SegmentLedger(engine)
    days = Days(ledger, ["a", "b"], ["kafka"])
    for topic in ("a", "b"):
        days.know(topic, [0])
        with ledger.engine.begin() as connection:
            days.reach(connection, topic, {0: ENDS[0]})
    written(ledger, days, "b", ["kafka"])
    assert passing(days, "b") == [WAITS]
    more = Days(ledger, ["a", "b"], ["files", "kafka"])
    written(ledger, more, "a", ["files", "kafka"])
    assert passing(more, "a", "b") == [LEADS, FOLLOWS]
    assert passing(more, "a", transport="files") == [LEADS]


def test_a_day_ends_though_the_topic_that_had_not_written_it_is_taken_out(engine: Engine) -> None:
    ledger = SegmentLedger(engine)
    days = Days(ledger, ["a", "b"], ["kafka"])
    for topic in ("a", "b"):
        days.know(topic, [0])
    with ledger.engine.begin() as connection:
        days.reach(connection, "a", {0: ENDS[0]})
    written(ledger, days, "a", ["kafka"])
    days.close(ENDS[0])
    assert days.state().last is None, "b may have it yet"
    left = Days(ledger, ["a"], ["kafka"])
    left.close(ENDS[0])
    assert left.state().last == ENDS[0]
    assert passing(left, "a") == [LEADS]


@pytest.mark.parametrize("value", [b"", b'{"sequitur-day": "2013-01-01"}'])
def test_what_a_replay_published_again_ends_no_day(value: bytes) -> None:
    replayed = ("sequitur-replay", b"r")
    for headers in ((replayed,), ((DAY, b"2013-01-01"), replayed)):
        assert day_of(InboundMessage("orders", 0, 0, 1, value, headers=headers)) is None
    assert day_of(InboundMessage("orders", 0, 0, 1, value, headers=((DAY, b"d"),))) == "d"


@pytest.mark.parametrize("value", [b"null", b"5", b'["2013-01-01"]', b'{"a": 1}'])
def test_what_names_no_day_is_a_message_like_any_other(value: bytes) -> None:
    line = b'{"sequitur-day": ' + value + b"}"
    assert day_of(InboundMessage("orders", 0, 0, 1, line)) is None


@pytest.mark.parametrize("held", [True, False])
async def test_an_open_day_is_withdrawn_and_its_partitions_go_on(
    held: bool, engine: Engine, tmp_path: Path
) -> None:
    router = Router(engine, tmp_path, True, held)
    days = Days(SegmentLedger(engine), TOPICS, ["queue"])
    orders, bills = router.inbounds["orders"], router.inbounds["bills"]
    bills.add(0, b"before it")
    for value in (end("2031-01-01"), b"behind it"):
        orders.add(0, value)
    await router.settle(30)
    assert days.state().open == "2031-01-01"
    days.withdraw("2031-01-01", "mistyped")
    for value in (end(ENDS[0]), b"the next day"):
        orders.add(0, value)
    for value in (end("2031-01-01"), end(ENDS[0]), b"the next day"):
        bills.add(0, value)
    await router.settle(40)
    got = [each.value for each in router.got]
    assert [got.count(each) for each in (b"behind it", b"the next day")] == [2, 4]
    assert days.state().last == ENDS[0]
    failed = next(each for each in router.got if each.destination == "errors")
    assert b"2031-01-01 was withdrawn" in dict(failed.headers)["sequitur-failed-reason"]


def test_the_last_day_is_withdrawn_once_it_is_published_everywhere(engine: Engine) -> None:
    ledger = SegmentLedger(engine)
    days = Days(ledger, ["a"], ["kafka"])
    days.know("a", [0])
    with pytest.raises(SegmentError, match="the open day is none, and the last one none"):
        days.withdraw(ENDS[0], "mistyped")
    owner, pair = ledger.own_end("a", "test"), Pair("a", "kafka")
    assert owner is not None
    ledger.open_segment(owner, pair, 1, "router-1.segment")
    with ledger.engine.begin() as connection:
        days.reach(connection, "a", {0: ENDS[0]})
    written(ledger, days, "a", ["kafka"])
    assert days.state().last == ENDS[0]
    with pytest.raises(SegmentError, match="on its way"):
        days.withdraw(ENDS[0], "mistyped")
    with ledger.engine.begin() as connection:
        connection.execute(update(SEGMENTS).values(start_offset=10, end_offset=10))
    days.withdraw(ENDS[0], "mistyped")
    state = days.state()
    assert (state.last, state.reached) == (None, {("a", 0): ""})
    assert state.doubt(ENDS[0]) == f"{ENDS[0]} was withdrawn"
    with pytest.raises(SegmentError, match="withdrawn"), ledger.engine.begin() as connection:
        days.reach(connection, "a", {0: ENDS[0]})
    days.allow(ENDS[0])
    assert days.state().doubt(ENDS[0]) is None


@pytest.mark.parametrize(
    ("day", "doubt"),
    [
        ("2013-01-31", None),
        ("2013-02-01", None),
        ("2013-01-30", "2013-01-30 is before 2013-01-31"),
        ("2031-01-31", "2031-01-31 is more than a year behind 2013-01-31"),
        ("2013-02-01a", "2013-02-01a is not written as 2013-01-31 is"),
        ("None", "None is not written as 2013-01-31 is"),
    ],
)
def test_a_day_unlike_the_one_before_is_doubted(day: str, doubt: str | None) -> None:
    assert DayState(frozenset(), last="2013-01-31").doubt(day) == doubt
    assert DayState(frozenset()).doubt(day) is None
