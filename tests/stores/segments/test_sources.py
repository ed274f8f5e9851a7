"""A source that is another of its name is noticed; its long lines and deletions are not lost."""

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete

from stores.locks.lease import LEASES
from stores.segments import (
    BatchLimits,
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    OutboundMessage,
    Pair,
    Publisher,
    SegmentConsumer,
    SegmentDamaged,
    SegmentError,
    SegmentLedger,
    UnitIntake,
    record,
    skip_damage,
)
from stores.segments.transports.files import FileInbound, FileOutbound
from stores.segments.transports.kafka import KafkaInbound
from tests.stores.segments.fake_transports import LogInbound, MemoryOutbound

PAIR = Pair("orders", "queue")


def to_queue(message: InboundMessage) -> list[OutboundMessage]:
    return [OutboundMessage("queue", "there", message.value, message.key, message.headers)]


def consumer(engine: Engine, store: FileSegments, inbound: Any, site: str = "s") -> SegmentConsumer:
    limits, errors = BatchLimits(count=4, idle=0), ErrorsAfter("queue")
    intake = UnitIntake(inbound, to_queue, errors, ["queue"], limits=limits, site=site)
    return SegmentConsumer(intake, SegmentLedger(engine), store)


def publisher(engine: Engine, store: FileSegments, outbound: Any) -> Publisher:
    return Publisher(SegmentLedger(engine), store, outbound, PAIR, ErrorsAfter("queue", attempts=1))


LINES = "".join(f"{n}\n" for n in range(30))


@pytest.mark.parametrize("other", [LINES.replace("3", "x"), LINES.replace("0", "x") + "more\n"])
@pytest.mark.parametrize("running", [True, False])
async def test_a_file_that_was_replaced_is_noticed_however_long_it_is(
    running: bool, other: str, engine: Engine, store: FileSegments, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_text(LINES[:20])
    one = consumer(engine, store, FileInbound("orders", file))
    assert await one.step(0) == 4
    file.write_text(LINES)
    assert await one.step(0) == 4, "it has only grown"
    if not running:
        await one.stop()
        one = consumer(engine, store, FileInbound("orders", file))
    (tmp_path / "new").write_text(other)
    (tmp_path / "new").rename(file)
    with pytest.raises(SegmentError, match="it is another file"):
        await one.step(0)
    assert SegmentLedger(engine).positions("orders") == {0: 16}, "nothing of it is promised"
    file.write_text(LINES)
    assert await one.step(0) == 4


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, partial(os.symlink, "/dev/zero")])
async def test_what_is_no_file_of_lines_is_said_and_one_that_is_missing_is_waited_for(
    make: Callable[[Path], None],
    engine: Engine,
    store: FileSegments,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "lines"
    one = consumer(engine, store, FileInbound("orders", file))
    assert await one.step(0) == 0
    assert f"orders: {file} is not there yet" in caplog.text
    make(file)
    with pytest.raises(SegmentError, match="is no file of lines"):
        await one.step(0)
    file.rmdir() if file.is_dir() else file.unlink()
    file.write_text(LINES)
    assert await one.step(0) == 4


async def test_a_line_that_is_too_long_goes_to_errors_and_the_others_go_on(
    engine: Engine, store: FileSegments, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"a\n" + b"x" * 2_500_000)
    one = consumer(engine, store, FileInbound("orders", file, longest=1_000))
    assert [await one.step(0), await one.step(0)] == [1, 0], "it has no end yet"
    with file.open("ab") as more:
        more.write(b"x" * 7 + b"\n" + b"y" * 1_000 + b"\nb\n")
    while await one.step(0):
        pass
    outbound = MemoryOutbound()
    assert await publisher(engine, store, outbound).step() == 4
    values = [(each.destination, each.value) for each in outbound.got]
    good = [("there", b"a"), ("there", b"y" * 1_000), ("there", b"b")]
    assert [values[0], *values[2:]] == good
    assert values[1] == ("errors", b"x" * 1_001)
    headers = dict(outbound.got[1].headers)
    assert headers["sequitur-failed-from"] == b"orders/0/2"
    assert b"a line of 2500008 bytes" in headers["sequitur-failed-reason"]


class Deletions(LogInbound):
    """Each message has a key and no value, and headers of one name."""

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        headers = (("h", b"1"), ("g", b"\xff"), ("h", b"2"))
        found = await super().poll(most, seconds)
        return [InboundMessage(*_where(each), None, b"k", headers) for each in found]


def _where(message: InboundMessage) -> tuple[str, int, int, int]:
    return message.topic, message.partition, message.offset, message.behind


async def test_a_deletion_stays_one_and_headers_keep_their_order_and_number(
    engine: Engine, store: FileSegments, tmp_path: Path
) -> None:
    inbound, outbound = Deletions(), MemoryOutbound()
    inbound.add(0, b"")
    await consumer(engine, store, inbound).step()
    await publisher(engine, store, outbound).step()
    [got] = outbound.got
    assert (got.value, got.key) == (None, b"k")
    assert got.headers == (("h", b"1"), ("g", b"\xff"), ("h", b"2"))


async def test_a_deletion_into_a_file_goes_to_errors(
    engine: Engine, store: FileSegments, tmp_path: Path
) -> None:
    inbound = Deletions()
    inbound.add(0, b"")
    await consumer(engine, store, inbound).step()
    assert await publisher(engine, store, FileOutbound(tmp_path / "out")).step() == 1
    assert (tmp_path / "out" / "errors+orders.lines").read_bytes() == b"\n"


def test_a_site_is_named(engine: Engine, store: FileSegments) -> None:
    with pytest.raises(ValueError, match="a site has a name"):
        consumer(engine, store, LogInbound(), site="")


async def test_acknowledging_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Coordinatorless:
        async def commit(self, offsets: Any) -> None:
            await asyncio.sleep(3600)

    monkeypatch.setattr("stores.segments.transports.kafka._WAIT", 0.01)
    inbound = KafkaInbound("orders", {})
    inbound._consumer = Coordinatorless()
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(inbound.acknowledge({0: 1}), 120)


async def test_kafka_s_group_is_told_of_all_in_the_end_and_not_of_each_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, now = [], 100.0

    class Group:
        async def commit(self, offsets: Any) -> None:
            told.append({where.partition: at for where, at in offsets.items()})

        def partitions_for_topic(self, topic: str) -> set[int]:
            return set()

        async def getmany(self, **_: Any) -> dict[Any, Any]:
            return {}

    monkeypatch.setattr("stores.segments.transports.kafka.time.monotonic", lambda: now)
    inbound = KafkaInbound("orders", {})
    inbound._consumer = Group()
    for position in (1, 2, 3):
        await inbound.acknowledge({0: position, position: 7})
    assert told == [{0: 1, 1: 7}]
    now += 1.0
    await inbound.poll(10, 0)
    await inbound.poll(10, 0)
    assert told == [{0: 1, 1: 7}, {0: 3, 2: 7, 3: 7}]


def test_a_database_that_was_replaced_has_owners_again(engine: Engine) -> None:
    ledger = SegmentLedger(engine)
    first = ledger.own_end("orders", "one")
    assert first is not None
    with engine.begin() as connection:
        connection.execute(delete(LEASES))
    assert ledger.own_end("orders", "one") is None
    assert ledger.own_end("orders", "one") is not None
    LEASES.drop(engine)
    with pytest.raises(Exception, match="no such table"):
        ledger.own_end("orders", "one")
    assert ledger.own_end("orders", "one") is not None


async def test_who_stands_by_asks_once_a_second(
    engine: Engine, store: FileSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SegmentLedger(engine).own_start(PAIR, "another") is not None
    one, slept, sleep = publisher(engine, store, MemoryOutbound()), [], asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0.01)

    monkeypatch.setattr("stores.segments.owned_work.asyncio.sleep", noted)
    task = asyncio.create_task(one.run())
    while len([each for each in slept if each == 1.0]) < 3:
        assert not task.done()
        await sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert set(slept) <= {1.0, 0.1}, "and 0.1 s for its own clock, which asks nobody"


async def test_a_record_of_another_version_is_skipped_if_that_is_asked_for(
    engine: Engine, store: FileSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound, outbound = LogInbound(), MemoryOutbound()
    inbound.add(0, b"a")
    one = consumer(engine, store, inbound)
    with monkeypatch.context() as older:
        older.setattr("stores.segments.record._meta", lambda _: b'["id","there",[],null,null]')
        await one.step()
    inbound.add(0, b"b")
    await one.step()
    stopped = publisher(engine, store, outbound)
    with pytest.raises(SegmentDamaged, match="intact=True"):
        await stopped.step()
    await stopped.stop()
    ledger = SegmentLedger(engine)
    with pytest.raises(SegmentError, match="is intact"):
        await skip_damage(ledger, store, PAIR, outbound)
    await skip_damage(ledger, store, PAIR, outbound, intact=True)
    with pytest.raises(SegmentError, match="is intact"):
        await skip_damage(ledger, store, PAIR, outbound, intact=True)
    assert await publisher(engine, store, outbound).step() == 1
    assert [each.value for each in outbound.got] == [b"b"]


async def test_what_is_before_a_record_of_another_version_goes_and_that_can_be_skipped(
    engine: Engine, store: FileSegments, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound, outbound = LogInbound(), MemoryOutbound()
    for value in (b"a", b"old", b"b"):
        inbound.add(0, value)
    ours = record._meta

    def meta(message: OutboundMessage) -> bytes:
        return b'["id","there",[],null,null]' if message.value == b"old" else ours(message)

    with monkeypatch.context() as older:
        older.setattr(record, "_meta", meta)
        await consumer(engine, store, inbound).step()
    stopped = publisher(engine, store, outbound)
    assert await stopped.step() == 1
    with pytest.raises(SegmentDamaged, match="intact=True"):
        await stopped.step()
    await stopped.stop()
    await skip_damage(SegmentLedger(engine), store, PAIR, outbound, intact=True)
    assert await publisher(engine, store, outbound).step() == 1
    assert [each.value for each in outbound.got] == [b"a", b"b"]
