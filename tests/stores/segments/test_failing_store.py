"""The disk is full, a commit's answer is lost, a destination refuses or is down: what goes on."""

import asyncio
import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from stores.segments import (
    BatchLimits,
    DestinationDown,
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    OutboundMessage,
    Pair,
    Publisher,
    SegmentConsumer,
    SegmentLedger,
    UnitIntake,
)
from stores.segments import consumer as consumers
from tests.stores.segments.fake_transports import LogInbound, MemoryOutbound

FAILURES = ErrorsAfter("queue", attempts=2)


def to_queue(message: InboundMessage) -> list[OutboundMessage]:
    if message.value == b"poison":
        raise ValueError("no key in it")
    return [OutboundMessage("queue", "there", message.value)]


def consumer(
    ledger: SegmentLedger, store: FileSegments, inbound: LogInbound, backlog: int = 10_000
) -> SegmentConsumer:
    limits = BatchLimits(count=4, idle=0)
    intake = UnitIntake(inbound, to_queue, FAILURES, ["queue"], limits=limits, site="site")
    return SegmentConsumer(intake, ledger, store, backlog=backlog)


def publisher(ledger: SegmentLedger, store: FileSegments, outbound: MemoryOutbound) -> Publisher:
    return Publisher(ledger, store, outbound, Pair("orders", "queue"), FAILURES)


def filled(*values: bytes) -> LogInbound:
    inbound = LogInbound()
    for value in values:
        inbound.add(0, value)
    return inbound


async def published(one: Publisher) -> int:
    total = 0
    while count := await one.step():
        total += count
    return total


class SmallDisk(FileSegments):
    """Whose files may have `room` bytes, by the system's own limit."""

    room: int | None = None

    def write(self, name: str, offset: int, data: bytes) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft if self.room is None else self.room, hard))
        try:
            super().write(name, offset, data)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class QueueInbound(LogInbound):
    """Gives what is not acknowledged back, and counts how often."""

    started = 0

    async def start(self, positions: Mapping[int, int]) -> None:
        self.started += 1
        await super().start(positions)

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        return [replace(one, replayable=False) for one in await super().poll(most, seconds)]


async def test_while_the_disk_is_full_a_queue_s_messages_are_not_given_back(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count that, and drop them in the end."""
    monkeypatch.setattr(consumers, "AGAIN", 0.001)
    ledger, store = SegmentLedger(engine), SmallDisk(tmp_path / "segments")
    inbound = QueueInbound()
    for number in range(4):
        inbound.add(0, b"%d" % number + b"x" * 1000)
    one, store.room = consumer(ledger, store, inbound), 2000
    step = asyncio.create_task(one.step())
    while one.failing is None:
        await asyncio.sleep(0.01)
    assert not step.done()
    assert "File too large" in one.failing
    store.room = None
    assert await step == 4
    assert (inbound.started, ledger.positions("orders")) == (1, {0: 4})
    monkeypatch.setattr(consumers, "FULL", 0)
    store.room = 2000
    inbound.add(0, b"x" * 3000)
    with pytest.raises(OSError, match="File too large"):
        await one.step()


async def test_a_full_disk_promises_nothing_and_goes_on_when_there_is_room(
    engine: Engine, tmp_path: Path
) -> None:
    ledger, store = SegmentLedger(engine), SmallDisk(tmp_path / "segments")
    inbound = filled(*(b"%d" % n + b"x" * 1000 for n in range(8)))
    one = consumer(ledger, store, inbound)
    assert await one.step() == 4
    for store.room in (6000, 2000):  # of a segment that has some already, and of a new one
        with pytest.raises(OSError, match="File too large"):
            await one.step()
        assert (inbound.acknowledged, ledger.positions("orders")) == ({0: 4}, {0: 4})
    store.room = None
    assert await one.step() == 4
    outbound = MemoryOutbound()
    two = publisher(ledger, store, outbound)
    assert await published(two) == 8
    assert [each.value for each in outbound.got] == inbound.partitions[0]
    assert len(store.names()) == 1, "what the full disk left behind is gone"


class LostAnswers(SegmentLedger):
    """Whose next commit of END is done, and its answer is lost."""

    lose = True

    def advance(self, *given: Any) -> None:
        super().advance(*given)
        if self.lose:
            self.lose = False
            raise ConnectionError("the connection broke")


async def test_a_commit_whose_answer_is_lost_is_neither_repeated_nor_written_over(
    engine: Engine, tmp_path: Path
) -> None:
    ledger, store = LostAnswers(engine), FileSegments(tmp_path / "segments")
    inbound = filled(*(b"%d" % n for n in range(8)))
    one = consumer(ledger, store, inbound)
    with pytest.raises(ConnectionError):
        await one.step()
    assert await one.step() == 4
    outbound = MemoryOutbound()
    two = publisher(ledger, store, outbound)
    await published(two)
    assert [each.value for each in outbound.got] == inbound.partitions[0]
    # The writer by itself, too: nothing is written to a segment whose END it does not know.
    ledger.lose = True
    writer = one._writer
    assert writer is not None
    for value in (b"a", b"b"):
        message = OutboundMessage("queue", "there", value, id=value.decode())
        try:
            writer.write([message], {})
        except ConnectionError:
            continue
    await published(two)
    assert [each.value for each in outbound.got][8:] == [b"a", b"b"]


async def test_what_is_refused_goes_to_errors_with_its_trail_and_others_go_on(
    engine: Engine, tmp_path: Path
) -> None:
    ledger, store = SegmentLedger(engine), FileSegments(tmp_path / "segments")
    one = consumer(ledger, store, filled(b"a", b"poison", b"big", b"b"))
    assert await one.step() == 4
    assert one.intake.counts["failed"] == 1
    outbound = MemoryOutbound()
    outbound.refused.add(b"big")
    two = publisher(ledger, store, outbound)
    with pytest.raises(DestinationDown, match="it is too large"):
        await two.step()
    assert await two.step() == 4
    found = [(each.destination, each.value) for each in outbound.got]
    assert found == [
        ("there", b"a"),
        ("errors", b"poison"),
        ("errors", b"big"),
        ("there", b"b"),
    ]
    assert outbound.got[1].headers == (
        ("sequitur-failed-from", b"orders/0/1"),
        ("sequitur-failed-reason", b"ValueError: no key in it"),
        ("sequitur-failed-attempts", b"2"),
    )
    assert ("sequitur-failed-reason", b"it is too large") in outbound.got[2].headers
    assert outbound.got[2].id == "site/orders/0/2/0"


async def test_a_destination_that_is_down_pauses_its_own_sources_only(
    engine: Engine, tmp_path: Path
) -> None:
    ledger, store = SegmentLedger(engine), FileSegments(tmp_path / "segments")
    one = consumer(ledger, store, filled(*[b"x" * 100] * 40), backlog=1500)
    outbound = MemoryOutbound()
    outbound.down = True
    two = publisher(ledger, store, outbound)
    taken = await one.step()
    with pytest.raises(DestinationDown):
        await two.step()
    while some := await one.step():
        taken += some
    assert taken == 12
    assert set(one.backpressure.full) == {"queue"}
    elsewhere = filled(b"y")
    elsewhere.topic = "other"
    assert await consumer(ledger, store, elsewhere, backlog=1500).step() == 1
    outbound.down = False
    assert await published(two) == taken
    assert await one.step() == 4
    assert not one.backpressure.paused


async def test_a_redelivery_without_an_id_is_counted(engine: Engine, tmp_path: Path) -> None:
    intake = UnitIntake(LogInbound(), to_queue, FAILURES, ["queue"], site="site")
    for redelivered in (True, False):
        message = InboundMessage("q", 0, 1, 2, b"", replayable=False, redelivered=redelivered)
        intake.outputs(message)
    assert intake.counts["redelivered without an id"] == 1


async def test_both_run_until_they_are_cancelled(engine: Engine, tmp_path: Path) -> None:
    ledger, store = SegmentLedger(engine), FileSegments(tmp_path / "segments")
    inbound, outbound = filled(*(b"%d" % n for n in range(30))), MemoryOutbound()
    outbound.down = True
    both = [
        asyncio.create_task(consumer(ledger, store, inbound).run(pause=0.01, retry=0.01)),
        asyncio.create_task(publisher(ledger, store, outbound).run(pause=0.01, retry=0.01)),
    ]
    for _ in range(6000):
        await asyncio.sleep(0.02)
        outbound.down = False
        if len(outbound.got) >= 30:
            break
    for task in both:
        task.cancel()
    ended = await asyncio.gather(*both, return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2
    assert [each.value for each in outbound.got] == inbound.partitions[0]
    assert ledger.own_end("orders", "next") is not None, "it let go at once"


def test_what_errors_refuse_for_its_key_or_headers_goes_there_without_them() -> None:
    """Refused in each form, it held its pair up for ever."""
    headers = (("own", b"x"), ("sequitur-failed-reason", b"no"))
    message: OutboundMessage | None = OutboundMessage(
        "queue", "errors", b"z" * 3_000, b"\x00", headers, "a", 4, "id"
    )
    forms: list[OutboundMessage] = []
    while message is not None:
        forms.append(message)
        message = FAILURES.refused(message, "refused", 2)
    *_, last = forms
    assert [len(each.value or b"") for each in forms] == [3_000, 4_000, 1_200, 1_200]
    assert (last.key, last.stream, last.sequence, last.id) == (None, None, None, "id")
    assert [name for name, _ in last.headers] == [
        "sequitur-failed-reason", "sequitur-failed-bytes",
    ]  # fmt: skip
