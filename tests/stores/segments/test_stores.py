"""What every store of segments holds to, with the ledger: files, SQLite, PostgreSQL."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from stores.db.engines import open_engine
from stores.segments import (
    ErrorsAfter,
    FileSegments,
    OutboundMessage,
    Pair,
    Place,
    Publisher,
    RowSegments,
    SegmentDamaged,
    SegmentError,
    SegmentLedger,
    SegmentStore,
    StaleOwner,
    skip_damage,
)
from stores.segments.writer import SegmentWriter
from tests.stores.segments.fake_transports import MemoryOutbound

PAIR = Pair("orders", "queue")


def messages(first: int, count: int, transport: str = "queue") -> list[OutboundMessage]:
    return [
        OutboundMessage(transport, "there", b"v%d" % n, b"k", (("h", b"\xff"),), "s", n, f"id/{n}")
        for n in range(first, first + count)
    ]


class SegmentStoreContract:
    """engine, store: fixtures."""

    def test_what_is_appended_is_read_and_what_is_cut_is_gone(self, store: SegmentStore) -> None:
        store.append("a.segment", 0, b"0123")
        store.append("a.segment", 4, b"4567")
        assert store.read("a.segment", 0, 8) == b"01234567"
        assert store.read("a.segment", 2, 6) == b"2345"
        assert store.read("a.segment", 6, 100) == b"67"
        assert (store.size("a.segment"), store.size("b.segment")) == (8, 0)
        store.cut("a.segment", 4)
        assert (store.size("a.segment"), store.read("a.segment", 0, 8)) == (4, b"0123")
        assert store.names() == ["a.segment"]
        store.remove("a.segment")
        store.remove("a.segment")
        assert (store.names(), store.read("a.segment", 0, 8)) == ([], b"")

    def test_what_is_written_is_published_in_order_and_removed(
        self, engine: Engine, store: SegmentStore
    ) -> None:
        ledger = SegmentLedger(engine)
        writer = new_writer(ledger, store)
        writer.write(messages(0, 5), {0: 5, 1: 2})
        writer.write(messages(5, 2, "other") + messages(5, 2), {0: 9})
        assert ledger.positions("orders") == {0: 9, 1: 2}
        outbound = MemoryOutbound()
        publisher = new_publisher(ledger, store, outbound)
        assert asyncio.run(steps(publisher, 2)) == [7, 0]
        assert outbound.got == messages(0, 7)
        assert set(ledger.backlogs("orders")) == {"queue", "other"}
        assert ledger.backlogs("orders")["queue"] == 0
        new_writer(ledger, store).recover()  # who seals what the one before left
        assert len(store.names()) == 2
        asyncio.run(steps(publisher, 1))
        assert [name.split("+")[:3] for name in store.names()] == [["router", "orders", "other"]]

    def test_what_is_beyond_end_is_cut_off(self, engine: Engine, store: SegmentStore) -> None:
        ledger = SegmentLedger(engine)
        writer = new_writer(ledger, store)
        writer.write(messages(0, 1), {0: 1})
        [segment] = ledger.chain(PAIR).segments
        store.append(segment.name, segment.end, b"half a record")
        assert new_writer(ledger, store).recover() == {0: 1}
        assert store.size(segment.name) == segment.end

    def test_a_generation_that_was_replaced_moves_nothing(
        self, engine: Engine, store: SegmentStore
    ) -> None:
        ledger = SegmentLedger(engine)
        first = new_writer(ledger, store)
        first.write(messages(0, 1), {0: 1})
        second = new_writer(ledger, store)
        second.recover()
        with pytest.raises(StaleOwner, match="in turn 2 it is"):
            first.write(messages(1, 1), {0: 2})
        second.write(messages(1, 1), {0: 2})
        outbound = MemoryOutbound()
        asyncio.run(steps(new_publisher(ledger, store, outbound), 3))
        assert outbound.got == messages(0, 2)

    def test_end_goes_forward_only(self, engine: Engine, store: SegmentStore) -> None:
        ledger = SegmentLedger(engine)
        writer = new_writer(ledger, store)
        writer.write(messages(0, 1), {0: 1})
        [segment] = ledger.chain(PAIR).segments
        for wrong in (Place(segment.number, segment.end - 1), Place(2, 60)):
            with pytest.raises(SegmentError, match="END cannot move"):
                ledger.advance(writer.owner, {PAIR: wrong}, {0: 2})
        assert (ledger.chain(PAIR).segments, ledger.positions("orders")) == ((segment,), {0: 1})

    def test_damage_before_end_stops_this_pair_loudly_and_others_go_on(
        self, engine: Engine, store: SegmentStore
    ) -> None:
        ledger = SegmentLedger(engine)
        writer = new_writer(ledger, store)
        writer.write(messages(0, 3) + messages(0, 3, "other"), {0: 3})
        [segment] = ledger.chain(PAIR).segments
        data = bytearray(store.read(segment.name, 0, segment.end))
        data[30] ^= 1
        store.cut(segment.name, 0)
        store.append(segment.name, 0, bytes(data))
        outbound, other = MemoryOutbound(), MemoryOutbound()
        with pytest.raises(SegmentDamaged, match=r"orders → queue.*skip_damage"):
            asyncio.run(steps(new_publisher(ledger, store, outbound), 1))
        asyncio.run(steps(new_publisher(ledger, store, other, "other"), 1))
        assert (outbound.got, other.got) == ([], messages(0, 3, "other"))
        skipped = asyncio.run(skip_damage(ledger, store, PAIR, outbound))
        assert (skipped.start, skipped.name) == (0, segment.name)
        asyncio.run(steps(new_publisher(ledger, store, outbound), 1))
        assert outbound.got == messages(1, 2)

    def test_a_segment_that_ends_before_end_is_damage_too(
        self, engine: Engine, store: SegmentStore
    ) -> None:
        ledger = SegmentLedger(engine)
        writer = new_writer(ledger, store)
        writer.write(messages(0, 3), {0: 3})
        [segment] = ledger.chain(PAIR).segments
        store.cut(segment.name, 0)
        with pytest.raises(SegmentDamaged):
            asyncio.run(steps(new_publisher(ledger, store, MemoryOutbound()), 1))
        skipped = asyncio.run(skip_damage(ledger, store, PAIR, MemoryOutbound()))
        assert skipped.behind == segment.end

    def test_what_a_replaced_consumer_left_is_told_of_and_neither_published_nor_removed(
        self, engine: Engine, store: SegmentStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        ledger = SegmentLedger(engine)
        new_writer(ledger, store).write(messages(0, 1), {0: 1})
        [segment] = ledger.chain(PAIR).segments
        left = "router+orders+queue+19990101T000000-1.segment"
        store.append(left, 0, b"finished long ago")
        others = [f"{name}+19990101T000000-1.segment" for name in OTHER_PAIRS]
        for name in others:
            store.append(name, 0, b"of another pair")
        asyncio.run(steps(new_publisher(ledger, store, MemoryOutbound()), 1))
        assert store.names() == sorted([left, *others, segment.name])
        assert left in caplog.text


OTHER_PAIRS = [
    "router+orders+other",
    "router2+orders+queue",
    "router+orders+queue-",
    "a+router+orders",
]


def new_writer(ledger: SegmentLedger, store: SegmentStore) -> SegmentWriter:
    ledger.create()
    ledger._seconds = -1  # a lease that is over at once
    owner = ledger.own_end("orders", "test")
    assert owner is not None
    return SegmentWriter(ledger, store, owner)


def new_publisher(
    ledger: SegmentLedger, store: SegmentStore, outbound: MemoryOutbound, to: str = "queue"
) -> Publisher:
    return Publisher(ledger, store, outbound, Pair("orders", to), ErrorsAfter(to))


async def steps(publisher: Publisher, count: int) -> list[int]:
    return [await publisher.step() for _ in range(count)]


class TestFiles(SegmentStoreContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        yield from closed(open_engine(f"sqlite:///{tmp_path}/ledger.db"))

    @pytest.fixture
    def store(self, tmp_path: Path) -> SegmentStore:
        return FileSegments(tmp_path / "new" / "segments")


class TestSqliteRows(SegmentStoreContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        yield from closed(open_engine(f"sqlite:///{tmp_path}/ledger.db"))

    @pytest.fixture
    def store(self, engine: Engine) -> SegmentStore:
        return rows(engine)


@pytest.mark.integration
class TestPostgresRows(SegmentStoreContract):
    @pytest.fixture
    def engine(self, database: str) -> Iterator[Engine]:
        yield from closed(open_engine(database))

    @pytest.fixture
    def store(self, engine: Engine) -> SegmentStore:
        return rows(engine)


def closed(engine: Engine) -> Iterator[Engine]:
    yield engine
    engine.dispose()


def rows(engine: Engine) -> RowSegments:
    found = RowSegments(engine)
    found.create()
    return found


def test_routers_of_one_database_and_folder_keep_apart(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/ledger.db")
    store = FileSegments(tmp_path / "segments")
    ledgers = [SegmentLedger(engine, name) for name in ("one", "two")]
    for at, ledger in enumerate(ledgers):
        new_writer(ledger, store).write(messages(at, 1), {0: at + 1})
    for at, ledger in enumerate(ledgers):
        outbound = MemoryOutbound()
        assert asyncio.run(steps(new_publisher(ledger, store, outbound), 1)) == [1]
        assert outbound.got == messages(at, 1)
        assert ledger.positions("orders") == {0: at + 1}
    engine.dispose()
