"""Segments that the database does not know are nobody's to remove."""

import sqlite3
from pathlib import Path

import pytest

from stores.db.engines import open_engine
from stores.outbox import Message
from stores.segments import (
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    OutboundBatch,
    OutboundMessage,
    Pair,
    Place,
    Publisher,
    SegmentError,
    SegmentLedger,
)
from stores.segments.identity import identify
from stores.segments.transports.sql import LogInbound
from stores.segments.writer import SegmentWriter

PAIR = Pair("queue", "kafka")


class Destination:
    """Keeps what it is given, and no START."""

    def __init__(self) -> None:
        self.got: list[str] = []

    async def start(self, pair: Pair) -> Place | None:
        return None

    async def publish(self, batch: OutboundBatch) -> None:
        self.got += [each.id for each in batch.messages]

    async def stop(self) -> None:
        """Nothing is open."""


def ledger(file: Path) -> SegmentLedger:
    found = SegmentLedger(open_engine(f"sqlite:///{file}"), "router")
    found.create()
    return found


async def published(of: SegmentLedger, store: FileSegments) -> list[str]:
    to = Destination()
    publisher = Publisher(of, store, to, PAIR, ErrorsAfter("kafka"))
    try:
        while await publisher.step():
            pass
    finally:
        await publisher.stop()
    return to.got


@pytest.mark.parametrize("kept", [0, 1, 2])
async def test_a_database_that_is_older_than_the_segments_loses_none_of_them(
    tmp_path: Path, kept: int
) -> None:
    store, one = FileSegments(tmp_path / "segments"), ledger(tmp_path / "ledger.db")
    owner = one.own_end("queue", "consumer")
    assert owner is not None
    writer = SegmentWriter(one, store, owner, segment_bytes=1)
    writer.recover()
    for number in range(3):
        if number == kept:
            with (
                sqlite3.connect(tmp_path / "ledger.db") as now,
                sqlite3.connect(tmp_path / "older.db") as older,
            ):
                if kept:
                    now.backup(older)
        message = OutboundMessage("kafka", "there", b"", id=f"stream/queue/a/{number}/0")
        writer.write([message], {0: number + 1})
    before = store.names()
    assert len(before) == 3

    with pytest.raises(SegmentError, match="restore the later one"):
        await published(ledger(tmp_path / "older.db"), store)
    assert store.names() == before
    owner.let_go()
    ended = one.own_end("queue", "the next consumer")
    assert ended is not None
    one.take_over(ended)
    assert await published(one, store) == [f"stream/queue/a/{n}/0" for n in range(3)]
    assert store.names() == []


def test_streams_of_two_topics_of_a_log_are_two() -> None:
    inbound = LogInbound("orders", open_engine("sqlite:////nowhere/log.db"))
    ids = {
        identify(inbound._message(Message(topic, stream, 1, None, b""), 0), "here").id
        for topic, stream in (
            ("orders", "bills/7"), ("bills", "7"), ("orders", "/bills/7"), ("/bills", "7"),
            ("orders", "//bills/7"), ("bills/", "7"), ("bills%", "7"),
        )
    }  # fmt: skip
    assert len(ids) == 7


@pytest.mark.parametrize("stream", ["a\0b", "long " * 1_000])
def test_an_id_fits_every_database(stream: str) -> None:
    message = InboundMessage("queue", 0, 1, 2, b"", stream=stream, sequence=1, replayable=False)
    found = identify(message, "here").id
    assert len(found) < 500
    assert "\0" not in found
    other = InboundMessage("queue", 0, 1, 2, b"", stream=stream, sequence=2, replayable=False)
    assert identify(other, "here").id != found
