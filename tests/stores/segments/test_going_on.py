"""Whatever comes in, whoever is interrupted or replaced: what is behind it goes on, and once."""

import asyncio
import fcntl
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import Engine, select, update

from stores.locks.lease import LEASES
from stores.segments import (
    BatchLimits,
    DestinationDown,
    DirectConsumer,
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    OutboundBatch,
    OutboundMessage,
    Pair,
    Place,
    PublishedIds,
    Publisher,
    PublishRefused,
    SegmentConsumer,
    SegmentDamaged,
    SegmentError,
    SegmentLedger,
    StaleOwner,
    UnitIntake,
    skip_damage,
)
from stores.segments.files import LocalFolder
from stores.segments.published_ids import IDS
from stores.segments.transports.files import FileInbound, FileOutbound
from tests.stores.segments.fake_transports import LogInbound, MemoryOutbound

PAIR = Pair("orders", "queue")


def to_queue(message: InboundMessage) -> list[OutboundMessage]:
    return [OutboundMessage("queue", "there", message.value)]


def consumer(
    engine: Engine, store: FileSegments, *values: bytes, route: Callable[..., Any] = to_queue
) -> SegmentConsumer:
    inbound = LogInbound()
    for value in values:
        inbound.add(0, value)
    limits = BatchLimits(count=4, idle=0)
    intake = UnitIntake(inbound, route, ErrorsAfter("queue"), ["queue"], limits=limits, site="site")
    return SegmentConsumer(intake, SegmentLedger(engine), store)


def publisher(engine: Engine, store: FileSegments, outbound: Any, **settings: Any) -> Publisher:
    lease = settings.pop("lease_seconds", 10.0)
    ledger = SegmentLedger(engine, lease_seconds=lease)
    return Publisher(ledger, store, outbound, PAIR, ErrorsAfter("queue"), **settings)


async def all_published(one: Publisher) -> None:
    for _ in range(20):
        try:
            if not await one.step():
                return
        except DestinationDown:
            continue
    raise AssertionError("the pair does not get on")


async def test_a_line_may_have_any_byte_but_its_end(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\rb\nc\r\n\r\n\x0b\x85\nd\n")
    inbound = FileInbound("lines", tmp_path / "lines")
    await inbound.start({})
    found = [await inbound.poll(3, 0), await inbound.poll(3, 0)]
    assert [[m.value for m in some] for some in found] == [
        [b"a\rb", b"c\r", b"\r"],
        [b"\x0b\x85", b"d"],
    ]


async def test_what_errors_refuse_as_well_does_not_hold_up_the_pair(
    engine: Engine, store: FileSegments, tmp_path: Path
) -> None:
    one = consumer(engine, store, b"a", b"two\nlines", b"b")
    await one.step()
    await all_published(publisher(engine, store, FileOutbound(tmp_path / "out")))
    assert (tmp_path / "out" / "there+orders.lines").read_bytes() == b"a\nb\n"
    assert (tmp_path / "out" / "errors+orders.lines").read_bytes() == b"dHdvCmxpbmVz\n"


class SmallMessages(MemoryOutbound):
    """Whose destinations all refuse what is too large."""

    async def publish(self, batch: OutboundBatch) -> None:
        for at, message in enumerate(batch.messages):
            if len(message.value or b"") > 5_000:
                raise PublishRefused(at, "it is too large")
        await super().publish(batch)


async def test_what_is_too_large_for_errors_too_leaves_its_beginning_and_its_trail(
    engine: Engine, store: FileSegments
) -> None:
    one = consumer(engine, store, b"a", b"x" * 9_000, b"b")
    await one.step()
    outbound = SmallMessages()
    await all_published(publisher(engine, store, outbound))
    large = outbound.got[1]
    assert [each.value for each in outbound.got[::2]] == [b"a", b"b"]
    assert (large.destination, large.value, large.id) == (
        "errors",
        b"eHh4" * 300,
        "site/orders/0/1/0",
    )
    assert ("sequitur-failed-from", b"there") in large.headers
    assert ("sequitur-failed-bytes", b"9000") in large.headers


@pytest.mark.parametrize("remembers", [False, True])
async def test_damage_that_was_skipped_stays_skipped(
    remembers: bool, engine: Engine, store: FileSegments
) -> None:
    one = consumer(engine, store, *(b"%d" % n for n in range(6)))
    while await one.step():
        pass
    outbound = MemoryOutbound(remembers=remembers)
    first = publisher(engine, store, outbound, limits=BatchLimits(count=2))
    await first.step()
    await first.stop()
    [segment] = SegmentLedger(engine).chain(PAIR).segments
    damaged = bytearray(store.read(segment.name, segment.start, segment.end))
    damaged[30] ^= 1
    store.cut(segment.name, segment.start)
    store.append(segment.name, segment.start, bytes(damaged))
    await skip_damage(SegmentLedger(engine), store, PAIR, outbound)
    await all_published(publisher(engine, store, outbound))
    assert [each.value for each in outbound.got] == [b"0", b"1", b"3", b"4", b"5"]


class StuckOutbound(MemoryOutbound):
    """Which has a batch, and does not say so until it is cancelled."""

    stuck = True

    async def publish(self, batch: OutboundBatch) -> None:
        await super().publish(batch)
        while self.stuck:
            await asyncio.sleep(1)


async def test_a_step_that_is_cancelled_neither_loses_nor_repeats(
    engine: Engine, store: FileSegments
) -> None:
    one = consumer(engine, store, b"a", b"b")
    stuck = asyncio.Event()

    async def polled(most: int, seconds: float) -> Sequence[InboundMessage]:
        found = await LogInbound.poll(inbound, most, seconds)
        if found and not stuck.is_set():
            stuck.set()
            await asyncio.sleep(3600)
        return found

    inbound: Any = one.intake.inbound
    inbound.poll = polled
    task = asyncio.create_task(one.step())
    await stuck.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    inbound.add(0, b"c")
    assert await one.step() == 3, "what it had polled comes again"
    outbound = StuckOutbound(remembers=True)
    two = publisher(engine, store, outbound)
    task = asyncio.create_task(two.step())
    for _ in range(6000):
        if outbound.got:
            break
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    outbound.stuck = False
    await all_published(two)
    assert [each.value for each in outbound.got] == [b"a", b"b", b"c"]


async def test_a_publisher_that_was_replaced_asks_before_it_publishes(
    engine: Engine, store: FileSegments
) -> None:
    outbound = MemoryOutbound()
    old = publisher(engine, store, outbound, lease_seconds=-1)
    new = publisher(engine, store, outbound)
    assert await old.step() == 0
    old._ledger._seconds = 3600  # by its own clock nothing is over: that one may have stood still
    assert old._owner is not None
    old._owner.lease.seconds = 3600
    assert await new.step() == 0
    await consumer(engine, store, b"a").step()
    with pytest.raises(StaleOwner):
        await old.step()
    assert outbound.got == []
    assert await new.step() == 1


async def test_one_process_that_was_replaced_asks_before_it_publishes(engine: Engine) -> None:
    PublishedIds(engine).create()
    outbound, inbound = MemoryOutbound(), LogInbound()
    intake = UnitIntake(inbound, to_queue, ErrorsAfter("queue"), ["queue"], site="site")
    ids, ledger = PublishedIds(engine), SegmentLedger(engine, lease_seconds=-1)
    old = DirectConsumer(intake, ledger, ids, {"queue": outbound})
    assert await old.step(0) == 0
    assert old._owner is not None
    old._owner.lease.seconds = 3600  # by its own clock nothing is over
    assert SegmentLedger(engine).own_end("orders", "another") is not None
    inbound.add(0, b"a")
    with pytest.raises(StaleOwner):
        await old.step(0)
    assert outbound.got == []


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_whatever_routing_raises_the_message_goes_to_errors(error: BaseException) -> None:
    def failing(message: InboundMessage) -> list[OutboundMessage]:
        raise error

    failures = ErrorsAfter("queue", attempts=2)
    intake = UnitIntake(LogInbound(), failing, failures, ["queue"], site="site")
    (sent,) = intake.outputs(InboundMessage("orders", 0, 0, 1, b"a"))
    assert sent.destination == "errors"
    assert type(error).__name__.encode() in dict(sent.headers)["sequitur-failed-reason"]
    assert intake.counts["failed"] == 1


async def test_a_publisher_with_nothing_to_do_keeps_its_lease(
    engine: Engine, store: FileSegments
) -> None:
    one = publisher(engine, store, MemoryOutbound())
    await one.step()
    with engine.begin() as connection:
        connection.execute(update(LEASES).values(until=1))  # over
    assert one._owner is not None
    one._owner._renewed -= 5
    await one.step()
    assert SegmentLedger(engine).own_start(PAIR, "another") is None


def test_an_owner_that_died_is_replaced_though_the_database_s_clock_was_set_back(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("stores.locks.lease.time.monotonic", lambda: now)
    SegmentLedger(engine).own_start(PAIR, "who died")
    with engine.begin() as connection:
        connection.execute(update(LEASES).values(until=LEASES.c.until + 86_400_000))
    ledger = SegmentLedger(engine)
    assert ledger.own_start(PAIR, "next") is None
    now += 61
    assert ledger.own_start(PAIR, "next") is not None


class SlowFolder(LocalFolder):
    """Whose writes begin and wait."""

    begun, go_on = threading.Event(), threading.Event()

    def write(self, name: str, offset: int, data: bytes) -> None:
        self.begun.set()
        self.go_on.wait(60)
        super().write(name, offset, data)


async def test_a_folder_is_not_handed_over_while_a_write_goes_on(tmp_path: Path) -> None:
    one, two = FileOutbound(tmp_path), FileOutbound(tmp_path)
    await one.start(PAIR)
    slow = one._files = SlowFolder(tmp_path)
    slow.begun.clear()
    slow.go_on.clear()
    message = OutboundMessage("queue", "a", b"1")
    task = asyncio.create_task(one.publish(OutboundBatch(PAIR, (message,), Place(1, 9))))
    await asyncio.to_thread(slow.begun.wait, 60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    stopping = asyncio.create_task(one.stop())
    await asyncio.sleep(0.05)
    with pytest.raises(DestinationDown):
        await two.start(PAIR)
    await two.stop()
    slow.go_on.set()
    await stopping
    assert await two.start(PAIR) == Place(1, 9)
    await two.stop()


async def test_a_store_that_cannot_be_read_for_a_while_does_not_end_the_publisher(
    engine: Engine, store: FileSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    await consumer(engine, store, b"a").step()
    outbound, tries = MemoryOutbound(), []

    def failing(*_: Any) -> bytes:
        tries.append(1)
        monkeypatch.undo()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(store, "read", failing)
    task = asyncio.create_task(publisher(engine, store, outbound).run(retry=0.01))
    for _ in range(6000):
        if outbound.got or task.done():
            break
        await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (tries, [each.value for each in outbound.got]) == ([1], [b"a"])


class Deliveries(LogInbound):
    """A queue, whose positions begin anew with each connection."""

    def __init__(self, *batches: Sequence[Mapping[str, Any]]) -> None:
        super().__init__("q")
        self._batches = list(batches)

    async def poll(self, most: int, seconds: float) -> list[InboundMessage]:
        some = self._batches.pop(0) if self._batches else []
        return [InboundMessage("q", 0, n, n + 1, replayable=False, **m) for n, m in enumerate(some)]


async def test_a_repetition_is_skipped_in_a_batch_too_and_what_says_nothing_never(
    engine: Engine,
) -> None:
    PublishedIds(engine).create()
    known = {"value": b"s", "stream": "s", "sequence": 1}
    inbound = Deliveries([known, known, {"value": b"1"}], [{"value": b"2"}, known, {"value": b"3"}])
    outbound = MemoryOutbound()
    limits = BatchLimits(count=3)
    intake = UnitIntake(
        inbound, to_queue, ErrorsAfter("queue"), ["queue"], limits=limits, site="site"
    )
    one = DirectConsumer(intake, SegmentLedger(engine), PublishedIds(engine), {"queue": outbound})
    await one.step()
    await one.step()
    await one.stop()
    assert [each.value for each in outbound.got] == [b"s", b"1", b"2", b"3"]
    assert len({each.id for each in outbound.got}) == 4
    assert one.counts["skipped"] == 2
    with engine.connect() as connection:
        assert [row.id for row in connection.execute(IDS.select())] == ["stream/q/s/1/0"]


async def test_a_publisher_s_small_limit_is_no_damage(engine: Engine, store: FileSegments) -> None:
    await consumer(engine, store, b"a", b"b").step()
    outbound = MemoryOutbound()
    await all_published(publisher(engine, store, outbound, limits=BatchLimits(size=1)))
    assert [each.value for each in outbound.got] == [b"a", b"b"]


@pytest.mark.parametrize(
    "wrong",
    [{"value": "text"}, {"key": "text"}, {"destination": 7}, {"headers": (("h", 7),)}],
)
async def test_a_route_that_returns_nonsense_stops_nobody(
    wrong: dict[str, Any], engine: Engine, store: FileSegments
) -> None:
    def route(message: InboundMessage) -> list[OutboundMessage]:
        usual = {"transport": "queue", "destination": "there", "value": message.value}
        return [OutboundMessage(**usual | (wrong if message.value == b"b" else {}))]

    one = consumer(engine, store, b"a", b"b", b"c", route=route)
    assert await one.step() == 3
    assert one.intake.counts["failed"] == 1
    outbound = MemoryOutbound()
    await all_published(publisher(engine, store, outbound))
    found = [(each.destination, each.value) for each in outbound.got]
    assert found == [("there", b"a"), ("errors", b"b"), ("there", b"c")]


async def test_what_no_record_can_hold_leaves_its_beginning_in_errors(
    engine: Engine, store: FileSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.segments.record.MAX_BODY", 3_000)
    one = consumer(engine, store, b"a", b"x" * 9_000, b"b")
    assert await one.step() == 3
    outbound = MemoryOutbound()
    await all_published(publisher(engine, store, outbound))
    assert [each.value for each in outbound.got] == [b"a", b"eHh4" * 300, b"b"]
    headers = dict(outbound.got[1].headers)
    assert headers["sequitur-failed-bytes"] == b"9000"
    assert b"3000 are the limit" in headers["sequitur-failed-reason"]


async def test_errors_without_a_transport_end_the_consumer_and_say_so(
    engine: Engine, store: FileSegments
) -> None:
    def route(message: InboundMessage) -> list[OutboundMessage]:
        return [OutboundMessage("elsewhere", "there", message.value)]

    one = consumer(engine, store, b"a", route=route)
    one.intake.failures = ErrorsAfter("nowhere")
    with pytest.raises(ValueError, match="there is no transport 'nowhere'"):
        await one.step()


async def test_a_record_of_another_version_is_named_with_its_place(
    engine: Engine, store: FileSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.segments.record._meta", lambda _: b"[1]")
    await consumer(engine, store, b"a").step()
    with pytest.raises(SegmentDamaged, match=r"segment router\+orders\+queue.* at 0: .*version"):
        await publisher(engine, store, MemoryOutbound()).step()


async def test_a_database_that_is_older_than_the_destination_is_told_of_at_once(
    engine: Engine, store: FileSegments
) -> None:
    outbound = MemoryOutbound(remembers=True)
    outbound.behind = Place(3_000_000, 1)
    await consumer(engine, store).step()
    with pytest.raises(SegmentError, match="the database is older than the destination"):
        await publisher(engine, store, outbound).step()


async def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    pair = Pair("t" * 190, "files")
    one = FileOutbound(tmp_path)
    await one.start(pair)
    message = OutboundMessage("files", "d" * 90, b"1")
    with pytest.raises(PublishRefused):
        await one.publish(OutboundBatch(pair, (message,), Place(1, 9)))
    await one.stop()


async def test_a_file_that_was_taken_away_gets_no_hole(tmp_path: Path) -> None:
    one = FileOutbound(tmp_path)
    await one.start(PAIR)
    batch = OutboundBatch(PAIR, (OutboundMessage("queue", "a", b"1"),), Place(1, 9))
    await one.publish(batch)
    file = tmp_path / "a+orders.lines"
    file.rename(tmp_path / "elsewhere")
    with pytest.raises(DestinationDown, match=r"a\+orders.lines has 0 bytes, and 2 .* put it back"):
        await one.publish(batch)
    (tmp_path / "elsewhere").rename(file)
    await one.publish(batch)
    assert file.read_bytes() == b"1\n1\n"
    await one.stop()


async def test_who_works_for_longer_than_the_lease_keeps_it(
    engine: Engine, store: FileSegments
) -> None:
    await consumer(engine, store, b"a").step()
    outbound = StuckOutbound()
    task = asyncio.create_task(publisher(engine, store, outbound, lease_seconds=0.3).run())
    for _ in range(6000):
        if outbound.got:
            break
        await asyncio.sleep(0.01)
    with engine.begin() as connection:
        connection.execute(update(LEASES).values(until=1))  # over
    renewed = 1
    for _ in range(6000):
        await asyncio.sleep(0.02)
        with engine.connect() as connection:
            renewed = max(connection.execute(select(LEASES.c.until)).scalars())
        if renewed > 1:
            break
    assert renewed > 1, "nobody renews it while the batch is under way"
    outbound.stuck = False
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_who_hangs_is_replaced(
    engine: Engine, store: FileSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.segments.owned_work.PATIENCE", 0.0)
    await consumer(engine, store, b"a").step()
    outbound = StuckOutbound()
    task = asyncio.create_task(publisher(engine, store, outbound, lease_seconds=0.3).run())
    other, found = SegmentLedger(engine), None
    for _ in range(6000):
        await asyncio.sleep(0.02)
        if outbound.got and (found := await asyncio.to_thread(other.own_start, PAIR, "another")):
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert found is not None


async def test_a_batch_that_was_not_confirmed_is_cut_off(tmp_path: Path) -> None:
    pair = Pair("lines", "files")
    outbound = FileOutbound(tmp_path)
    assert await outbound.start(pair) is None
    batch = OutboundBatch(pair, (OutboundMessage("files", "a", b"1"),), Place(7, 10))
    await outbound.publish(batch)
    (tmp_path / "a+lines.lines").write_bytes(b"1\nhalf of what")
    (tmp_path / "b+lines.lines").write_bytes(b"of nobody that is known")
    (tmp_path / "a+other.lines").write_bytes(b"of another topic")
    await outbound.stop()
    again = FileOutbound(tmp_path)
    assert await again.start(pair) == Place(7, 10)
    assert (tmp_path / "a+lines.lines").read_bytes() == b"1\n"
    assert (tmp_path / "b+lines.lines").read_bytes() == b"of nobody that is known"
    assert (tmp_path / "a+other.lines").read_bytes() == b"of another topic"
    with pytest.raises(ConnectionError):
        await FileOutbound(tmp_path).start(pair)
    await again.stop()


async def test_routers_of_one_folder_have_their_own_starts(tmp_path: Path) -> None:
    one, two = FileOutbound(tmp_path, "shop"), FileOutbound(tmp_path, "copy")
    await one.start(PAIR)
    await one.publish(OutboundBatch(PAIR, (OutboundMessage("queue", "a", b"1"),), Place(7, 10)))
    assert await two.start(PAIR) is None, "what the other one has is not its own"
    await two.publish(OutboundBatch(PAIR, (OutboundMessage("queue", "b", b"2"),), Place(3, 5)))
    with pytest.raises(DestinationDown, match=r"another router's .*\.shop\+orders\+queue\.conf"):
        await two.publish(OutboundBatch(PAIR, (OutboundMessage("queue", "a", b"3"),), Place(3, 9)))
    await one.stop()
    await two.stop()
    other = FileOutbound(tmp_path, "shop")
    assert await other.start(Pair("orders", "other")) is None, "nor another transport's"
    await other.stop()
    assert await one.start(PAIR) == Place(7, 10)
    assert await two.start(PAIR) == Place(3, 5)
    assert (tmp_path / "a+orders.lines").read_bytes() == b"1\n"
    assert (tmp_path / "b+orders.lines").read_bytes() == b"2\n"
    await one.stop()
    await two.stop()


async def test_what_an_earlier_version_confirmed_in_the_topic_s_name_is_taken_once(
    tmp_path: Path,
) -> None:
    former, lines = tmp_path / ".orders.confirmed", tmp_path / "a+orders.lines"
    lines.write_bytes(b"1\nhalf")
    (tmp_path / "b+orders.lines").write_bytes(b"of a new file")
    former.write_bytes(b'{"place":[7,10],"lengths":{"a+orders.lines":2}}')
    one, two = FileOutbound(tmp_path, "shop"), FileOutbound(tmp_path, "copy")
    with (tmp_path / ".orders.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(DestinationDown):
            await one.start(PAIR)  # one of that version still writes
        await one.stop()
    assert await one.start(PAIR) == Place(7, 10)
    assert lines.read_bytes() == b"1\n"
    assert (tmp_path / "b+orders.lines").read_bytes() == b""
    assert not former.exists()
    assert await two.start(PAIR) is None
    await one.stop()
    await two.stop()


async def test_lines_are_not_cut_off_where_nobody_knows_which_are_published(
    tmp_path: Path,
) -> None:
    pair, lines = Pair("lines", "files"), tmp_path / "a+lines.lines"
    first = FileOutbound(tmp_path)
    assert await first.start(pair) is None
    broken = first._files = SlowFolder(tmp_path)
    broken.sync = Mock(side_effect=[None, OSError("the disk is full")])  # type: ignore[method-assign]
    message = OutboundMessage("files", "a", b"of a first batch that was not confirmed")
    with pytest.raises(DestinationDown):
        await first.publish(OutboundBatch(pair, (message,), Place(7, 10)))
    assert lines.read_bytes()
    await first.stop()
    second = FileOutbound(tmp_path)
    assert await second.start(pair) is None
    assert lines.read_bytes() == b""
    message = OutboundMessage("files", "a", b"1")
    await second.publish(OutboundBatch(pair, (message,), Place(7, 10)))
    await second.stop()
    confirmed = (tmp_path / ".router+lines+files.confirmed").read_bytes()
    for damaged in (None, b"", b"[1]", b'{"lengths": 1, "place": null}', confirmed[:-9]):
        (tmp_path / ".router+lines+files.confirmed").unlink(missing_ok=True)
        if damaged is not None:
            (tmp_path / ".router+lines+files.confirmed").write_bytes(damaged)
        third = FileOutbound(tmp_path)
        with pytest.raises(SegmentError, match=r"confirmed is (not there|damaged)"):
            await third.start(pair)
        await third.stop()
        assert lines.read_bytes() == b"1\n"
    (tmp_path / ".router+lines+files.confirmed").write_bytes(confirmed)
    assert await second.start(pair) == Place(7, 10)
    await second.stop()
