"""What every transport has to do: pytest classes for a transport of yours to inherit.

    class TestMyOutbound(OutboundContract):
        @pytest.fixture
        def outbound(self, tmp_path):
            return lambda: MyOutbound(tmp_path)

        @pytest.fixture
        def got(self, tmp_path):
            async def got(count):
                ...  # (value, id) of what the destination `target` has, at least `count` of them

            return got

Each test is given new topics and destinations. It needs pytest, and pytest-asyncio in its mode
"auto".
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from stores.db.engines import open_engine
from stores.segments.batching import BatchLimits
from stores.segments.chain import Segment
from stores.segments.consumer import SegmentConsumer
from stores.segments.errors import DestinationDown, SegmentError, StaleOwner
from stores.segments.failures import ErrorsAfter
from stores.segments.files import FileSegments
from stores.segments.identity import identify
from stores.segments.intake import UnitIntake
from stores.segments.ledger import SegmentLedger
from stores.segments.message import InboundMessage, OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.published_ids import PublishedIds
from stores.segments.publisher import Publisher
from stores.segments.record import decode, length_at, record_at
from stores.segments.transports.transport import Inbound, Outbound
from stores.segments.writer import SegmentWriter

_LOOKS = 600
LEASE_OVER = -1.0
"""Seconds of a lease that the next owner need not wait for."""
Add = Callable[[Sequence[bytes]], Awaitable[None]]
Got = Callable[[int], Awaitable[list[tuple[bytes, str | None]]]]


class _SaveStore:
    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Iterator[SegmentLedger]:
        engine = open_engine(f"sqlite:///{tmp_path}/contract.db")
        found = SegmentLedger(engine, lease_seconds=LEASE_OVER)
        found.create()
        PublishedIds(engine).create()
        yield found
        engine.dispose()

    @pytest.fixture
    def segments(self, tmp_path: Path) -> FileSegments:
        return FileSegments(tmp_path / "contract-segments")


class InboundContract(_SaveStore):
    """Fixtures: `inbound`, which makes one of the same new topic each time, with one partition.

    `add` has values arrive there; a queue's have a stream and a sequence.

    Attributes:
        replays: whether it goes back to any position, as queues do not.
        unreachable: one of a server that is away; None where there is no such thing.
    """

    replays = True

    @pytest.fixture
    def unreachable(self) -> Inbound | None:
        return None

    async def test_it_delivers_in_order_and_goes_on_where_it_is_told(
        self, inbound: Callable[[], Inbound], add: Add
    ) -> None:
        one = inbound()
        await add([b"0", b"1", b"2", b"3"])
        await one.start({})
        found = await polled(one, 3)
        assert [each.value for each in found] == [b"0", b"1", b"2"]
        assert [each.topic for each in found] == [one.topic] * 3
        assert all(each.behind > each.offset for each in found)
        assert [each.replayable for each in found] == [self.replays] * 3
        await one.acknowledge({0: found[0 if self.replays else 1].behind})
        await one.stop()
        await one.stop()
        # SQL's position counts, and what was acknowledged only where there is nothing else.
        await one.start({0: found[1].behind})
        assert [each.value for each in await polled(one, 2)] == [b"2", b"3"]
        assert list(await one.poll(10, 0.05)) == []
        await add([b"4"])
        assert [each.value for each in await polled(one, 1)] == [b"4"]
        await one.stop()

    async def test_a_message_has_the_same_id_when_it_comes_again(
        self, inbound: Callable[[], Inbound], add: Add
    ) -> None:
        await add([b"a", b"b"])
        first, second = inbound(), inbound()
        await first.start({})
        before = await polled(first, 2)
        await first.stop()
        await second.start({})
        after = await polled(second, 2)
        await second.stop()
        assert before == after or not self.replays
        assert [each.value for each in after] == [b"a", b"b"]
        assert [identify(each, "s", 60) for each in after] == [
            identify(each, "s", 60) for each in before
        ]

    async def test_a_poll_that_is_cancelled_loses_nothing(
        self, inbound: Callable[[], Inbound], add: Add
    ) -> None:
        one = inbound()
        await one.start({})
        waiting = asyncio.create_task(one.poll(10, 30))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await one.stop()
        await add([b"a"])
        await one.start({})
        assert [each.value for each in await polled(one, 1)] == [b"a"]
        await one.stop()

    async def test_a_position_behind_the_end_is_of_another_topic(
        self, inbound: Callable[[], Inbound], add: Add
    ) -> None:
        if not self.replays:
            return
        await add([b"a"])
        one = inbound()
        with pytest.raises(SegmentError, match="it is another"):
            await one.start({0: 1000})
        await one.stop()

    @pytest.mark.parametrize("acknowledged", [False, True])
    async def test_a_consumer_that_dies_after_the_promise_consumes_nothing_twice(
        self,
        acknowledged: bool,
        inbound: Callable[[], Inbound],
        add: Add,
        ledger: SegmentLedger,
        segments: FileSegments,
    ) -> None:
        values = [b"%d" % n for n in range(20)]
        await add(values)

        def consumer() -> SegmentConsumer:
            limits = BatchLimits(count=7, seconds=1, idle=0.1)
            intake = UnitIntake(
                inbound(), _route, ErrorsAfter("t"), ["t"], site="s", window=60, limits=limits
            )
            return SegmentConsumer(intake, ledger, segments, ids=PublishedIds(ledger.engine))

        dying = consumer()
        if not acknowledged:
            dying.intake.inbound.acknowledge = _dies  # type: ignore[method-assign]
            with pytest.raises(_Dies):
                await dying.step(120)
        else:
            assert await dying.step(120)
        await dying.stop()  # as the end of a process does to a connection
        second = consumer()
        pair = Pair(second.intake.inbound.topic, "t")
        for _ in range(_LOOKS):
            await second.step(0.2)
            if len(saved := _saved(ledger, segments, pair)) >= len(values):
                break
        await second.step(0.2)
        await second.stop()
        assert [each.value for each in saved] == values
        assert len({each.id for each in _saved(ledger, segments, pair)}) == len(values)

    async def test_what_is_away_is_told_as_such(self, unreachable: Inbound | None) -> None:
        if unreachable is not None:
            with pytest.raises(ConnectionError):
                await unreachable.start({})
            await unreachable.stop()


class OutboundContract(_SaveStore):
    """Fixtures: `outbound`, which makes one each time, of the same place; `target`, `errors`.

    `got(count)`: (value, id) of what the destination `target` has, at least `count` of them;
    the id is None where the destination has no place for it. `refused`: a message that its
    destination refuses. `unreachable`: one that cannot reach its place, or None.

    Attributes:
        once: whether a batch in doubt is there once; else it comes again, with the same ids.
    """

    once = True

    @pytest.fixture
    def target(self) -> str:
        return "target"

    @pytest.fixture
    def errors(self) -> str:
        return "errors"

    @pytest.fixture
    def unreachable(self) -> Outbound | None:
        return None

    async def test_what_is_published_is_there_in_order(
        self, outbound: Callable[[], Outbound], got: Got, target: str
    ) -> None:
        first = outbound()
        await first.start(PAIR)
        await first.publish(batch_of([b"0", b"1"], target, 20))
        await first.publish(batch_of([b"2"], target, 25))
        await first.publish(batch_of([], target, 30))
        await first.stop()
        await first.stop()
        second = outbound()
        assert await second.start(PAIR) in (None, Place(1, 30))
        await second.publish(batch_of([b"3"], target, 40))
        await second.stop()
        third = outbound()
        assert await third.start(Pair("other", "there")) is None, "each pair has its own"
        await third.stop()
        assert [value for value, _ in await got(4)] == [b"0", b"1", b"2", b"3"]

    @pytest.mark.parametrize("dies", ["before", "within", "after"])
    async def test_a_batch_in_doubt_loses_nothing_and_has_the_same_ids(
        self,
        dies: str,
        outbound: Callable[[], Outbound],
        got: Got,
        target: str,
        ledger: SegmentLedger,
        segments: FileSegments,
    ) -> None:
        values = [b"%d" % n for n in range(40)]
        _save(ledger, segments, [_message(value, target) for value in values])
        first = publisher_of(_Dying(outbound(), dies), ledger, segments)
        with pytest.raises((_Dies, asyncio.CancelledError)):
            await first.step()
        await first.stop()
        second = publisher_of(outbound(), ledger, segments)
        while await second.step():
            pass
        await second.stop()
        found = await got(len(values))
        assert list(dict.fromkeys(value for value, _ in found)) == values
        assert len(found) == len(values) or not self.once
        assert {id for _, id in found} <= {None, *(_message(each, target).id for each in values)}
        assert ledger.chain(PAIR).backlog == 0

    async def test_what_is_refused_goes_to_errors_and_the_others_come_once(
        self,
        outbound: Callable[[], Outbound],
        refused: OutboundMessage,
        got: Got,
        target: str,
        errors: str,
        ledger: SegmentLedger,
        segments: FileSegments,
    ) -> None:
        values = [b"%d" % n for n in range(6)]
        messages = [_message(value, target) for value in values]
        _save(ledger, segments, [*messages[:3], refused, *messages[3:]])
        publisher = publisher_of(outbound(), ledger, segments, errors)
        while ledger.chain(PAIR).backlog:
            with suppress(DestinationDown):  # it is tried again
                await publisher.step()
        await publisher.stop()
        assert [value for value, _ in await got(6)] == values
        assert publisher.counts["diverted"] >= 1
        assert publisher.counts["published"] == 7

    async def test_whoever_publishes_a_pair_shuts_out_the_others(
        self, outbound: Callable[[], Outbound], got: Got, target: str
    ) -> None:
        old, new = outbound(), outbound()
        await old.start(PAIR)
        await old.publish(batch_of([b"0"], target, 10))
        try:
            await new.start(PAIR)
        except ConnectionError:  # as long as the other one is there
            await old.stop()
            await new.start(PAIR)
        await new.publish(batch_of([b"1"], target, 30))
        with suppress(StaleOwner, ConnectionError, AssertionError):  # or it is not there
            await old.publish(batch_of([b"1"], target, 30))
        await old.stop()
        await new.publish(batch_of([b"2"], target, 40))
        await new.stop()
        assert [value for value, _ in await got(3)] == [b"0", b"1", b"2"]

    async def test_what_is_away_is_told_as_such(self, unreachable: Outbound | None) -> None:
        if unreachable is not None:
            with pytest.raises(ConnectionError):
                await unreachable.start(PAIR)
            await unreachable.stop()


PAIR = Pair("orders", "there")


async def polled(inbound: Inbound, count: int) -> list[InboundMessage]:
    """Poll until so many messages came."""
    found: list[InboundMessage] = []
    for _ in range(_LOOKS):
        found += await inbound.poll(count - len(found), 0.2)
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} messages came")


class _Dies(BaseException):
    """The process ends here."""


async def _dies(positions: object) -> None:
    raise _Dies


class _Dying:
    """An outbound whose process dies with the first batch, before, within or after it."""

    def __init__(self, outbound: Outbound, dies: str) -> None:
        self._outbound, self._when = outbound, dies
        self.start, self.stop = outbound.start, outbound.stop

    async def publish(self, batch: OutboundBatch) -> None:
        if self._when == "before":
            raise _Dies
        publishing = asyncio.create_task(self._outbound.publish(batch))
        if self._when == "within":
            for _ in range(8):
                await asyncio.sleep(0)
            publishing.cancel()
        await publishing
        raise _Dies


def _route(message: InboundMessage) -> list[OutboundMessage]:
    return [OutboundMessage("t", "there", message.value)]


def _message(value: bytes, target: str) -> OutboundMessage:
    return OutboundMessage("there", target, value, id=f"s/orders/0/{value.decode()}/0")


def batch_of(values: list[bytes], target: str, behind: int) -> OutboundBatch:
    found = tuple(_message(value, target) for value in values)
    offsets = tuple(range(behind - len(values) + 1, behind + 1))
    return OutboundBatch(PAIR, found, Place(1, behind), f"{target}-1.segment", offsets)


def publisher_of(
    outbound: Outbound, ledger: SegmentLedger, segments: FileSegments, errors: str = "errors"
) -> Publisher:
    failures = ErrorsAfter("there", errors)
    limits = BatchLimits(count=25)
    return Publisher(ledger, segments, outbound, PAIR, failures, limits=limits)


def _save(
    ledger: SegmentLedger, segments: FileSegments, messages: Sequence[OutboundMessage]
) -> None:
    owner = ledger.own_end(PAIR.topic, "contract")
    assert owner is not None
    writer = SegmentWriter(ledger, segments, owner)
    writer.recover()
    writer.write(messages, {0: len(messages)})
    owner.let_go()


def _saved(ledger: SegmentLedger, segments: FileSegments, pair: Pair) -> list[OutboundMessage]:
    return [
        message
        for segment in ledger.chain(pair).segments
        for message in _messages(segments, segment)
    ]


def _messages(segments: FileSegments, segment: Segment) -> Iterator[OutboundMessage]:
    data, at = segments.read(segment.name, 0, segment.end), 0
    while at < len(data):
        body = record_at(data, at, at)
        assert body is not None
        yield decode(body, "t")
        at += length_at(data, at)
