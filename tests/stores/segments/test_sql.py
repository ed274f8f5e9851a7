"""A message log and an inbox as transports: the contract, on SQLite and PostgreSQL."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from stores.db.engines import open_engine
from stores.inbox import Inbox
from stores.outbox import MessageLog, Outbox
from stores.segments import (
    BatchLimits,
    DirectConsumer,
    ErrorsAfter,
    Inbound,
    InboundMessage,
    Outbound,
    OutboundMessage,
    Pair,
    PublishedIds,
    SegmentConsumer,
    SegmentError,
    SegmentLedger,
    UnitIntake,
)
from stores.segments.files import FileSegments
from stores.segments.identity import Known, identify
from stores.segments.published_ids import IDS
from stores.segments.transports.sql import InboxOutbound, LogInbound
from tests.contracts.transports import (
    PAIR,
    Add,
    Got,
    InboundContract,
    OutboundContract,
    batch_of,
    publisher_of,
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/messages.db"
    if request.param == "postgres":
        url = request.getfixturevalue("database")
    found = open_engine(url)
    yield found
    found.dispose()


def captured(engine: Engine, values: Sequence[bytes]) -> None:
    log = MessageLog()
    log.create(engine)
    with engine.begin() as connection:
        for n, value in enumerate(values):
            Outbox(log).capture(connection, "orders", f"s{n % 3}", "Placed", value, {"h": "ü"})


def delivered(engine: Engine, topic: str) -> list[tuple[bytes, str | None]]:
    found: list[tuple[bytes, str | None]] = []
    inbox = Inbox(engine, order="monotonic")
    with engine.connect() as connection:
        while True:
            with inbox.delivery(connection) as message:
                if message is None:
                    return found
                if message.topic == topic:
                    found.append((message.content, message.headers["sequitur-id"]))


class TestLogInbound(InboundContract):
    replays = False

    @pytest.fixture
    def inbound(self, engine: Engine) -> Callable[[], Inbound]:
        return lambda: LogInbound("orders", engine)

    @pytest.fixture
    def unreachable(self) -> Inbound:
        return LogInbound("orders", open_engine("postgresql://me:geheim@127.0.0.1:9/none"))

    @pytest.fixture
    def add(self, engine: Engine) -> Add:
        async def add(values: Sequence[bytes]) -> None:
            captured(engine, values)

        return add


class TestInboxOutbound(OutboundContract):
    @pytest.fixture
    def outbound(self, engine: Engine) -> Callable[[], Outbound]:
        return lambda: InboxOutbound(engine)

    @pytest.fixture
    def unreachable(self) -> Outbound:
        return InboxOutbound(open_engine("postgresql://me:geheim@127.0.0.1:9/none"))

    @pytest.fixture
    def refused(self) -> OutboundMessage:
        return OutboundMessage("there", "x" * 2_000, b"x", id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, engine: Engine) -> Got:
        async def got(count: int) -> list[tuple[bytes, str | None]]:
            return delivered(engine, "target")

        return got


def to_there(message: InboundMessage) -> list[OutboundMessage]:
    assert (("h", "ü".encode()), ("sequitur-kind", b"Placed")) == message.headers
    return [OutboundMessage("sql", "there", message.value, message.key)]


def intake(engine: Engine) -> UnitIntake:
    limits = BatchLimits(count=4, idle=0)
    inbound = LogInbound("orders", engine)
    return UnitIntake(inbound, to_there, ErrorsAfter("sql"), ["sql"], site="s", limits=limits)


async def test_ids_of_a_log_are_forgotten_once_its_messages_are_deleted(
    engine: Engine, tmp_path: Path
) -> None:
    captured(engine, [b"%d" % n for n in range(10)])
    ledger, ids = SegmentLedger(engine, lease_seconds=-1), PublishedIds(engine)
    ledger.create()
    ids.create()
    consumer = SegmentConsumer(intake(engine), ledger, FileSegments(tmp_path / "s"), ids=ids)
    while await consumer.step(0):
        pass
    await consumer.stop()
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(IDS)).scalar_one() == 0
        assert not MessageLog().read_after(connection).messages


async def test_what_is_acknowledged_in_parts_after_a_kill_is_consumed_once(
    engine: Engine, tmp_path: Path
) -> None:
    captured(engine, [b"%d" % n for n in range(4)])
    ledger, ids = SegmentLedger(engine, lease_seconds=-1), PublishedIds(engine)
    ledger.create()
    ids.create()
    store = FileSegments(tmp_path / "s")
    killed = intake(engine)
    killed.inbound.acknowledge = AsyncMock(side_effect=KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        await SegmentConsumer(killed, ledger, store, ids=ids).step(0)
    smaller = intake(engine)
    smaller.limits = BatchLimits(count=2, idle=0)
    consumer = SegmentConsumer(smaller, ledger, store, ids=ids)
    while await consumer.step(0):
        pass
    assert smaller.counts["repeated"] == 4
    assert smaller.counts["consumed"] == 0
    await consumer.stop()
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(IDS)).scalar_one() == 0


async def test_from_a_log_to_an_inbox_in_one_process(engine: Engine) -> None:
    captured(engine, [b"%d" % n for n in range(10)])
    ledger, ids = SegmentLedger(engine, lease_seconds=-1), PublishedIds(engine)
    ledger.create()
    ids.create()
    for _ in range(2):
        outbounds = {"sql": InboxOutbound(engine)}
        consumer = DirectConsumer(intake(engine), ledger, ids, outbounds)
        while await consumer.step(0):
            pass
        await consumer.stop()
        captured(engine, [b"again"])
    assert sorted(value for value, _ in delivered(engine, "there")) == [
        *(b"%d" % n for n in range(10)),
        b"again",
    ]


async def test_an_inbox_that_has_more_than_was_promised_stops_itspublisher_of(
    engine: Engine, tmp_path: Path
) -> None:
    outbound = InboxOutbound(engine)
    await outbound.start(PAIR)
    await outbound.publish(batch_of([b"0"], "target", 3_000_000))
    ledger = SegmentLedger(engine, lease_seconds=-1)
    ledger.create()
    ahead = InboxOutbound(engine)
    known = await ahead.start(PAIR)
    assert known is not None
    assert known.offset == 3_000_000
    publisher = publisher_of(ahead, ledger, FileSegments(tmp_path / "s"))
    owner = ledger.own_end(PAIR.topic, "test")
    assert owner is not None
    ledger.open_segment(owner, PAIR, 1, "shop-1.segment")
    with pytest.raises(SegmentError, match="more than was ever promised"):
        await publisher.step()
    await publisher.stop()


async def test_the_place_of_a_topic_is_not_that_of_one_with_other_capitals(engine: Engine) -> None:
    batch = replace(batch_of([b"x"], "target", 5), pair=Pair("ORDERS", PAIR.transport))
    outbound = InboxOutbound(engine)
    await outbound.start(batch.pair)
    await outbound.publish(batch)
    assert await InboxOutbound(engine).start(batch.pair) == batch.behind
    assert await InboxOutbound(engine).start(Pair("orders", PAIR.transport)) is None


async def test_what_is_parked_at_the_end_of_a_batch_is_behind_start(engine: Engine) -> None:
    """It was sent once more after a restart, though it was parked."""
    batch = batch_of([b"x"], "target", 5)
    _, offset = batch.behind
    batch = replace(batch, behind=batch.behind._replace(offset=offset + 90))
    outbound = InboxOutbound(engine)
    await outbound.start(batch.pair)
    await outbound.publish(batch)
    assert await InboxOutbound(engine).start(batch.pair) == batch.behind


async def test_what_is_damaged_in_a_log_comes_whole_and_holds_nothing_up(tmp_path: Path) -> None:
    """Its content was gone, two of a stream were one, and a text that is none stopped the log."""
    engine = open_engine(f"sqlite:///{tmp_path}/messages.db")
    captured(engine, [b"a", b"b", b"c", b"d"])
    damage = ("kind = CAST(x'ff' AS TEXT)", "sequence = 'one'", "sequence = 'two'")
    with engine.begin() as connection:
        for id, how in enumerate(damage, 1):
            connection.exec_driver_sql(f"UPDATE sequitur_messages SET {how} WHERE id = {id}")
    inbound = LogInbound("orders", engine)
    await inbound.start({})
    found = await inbound.poll(10, 0)
    assert [each.value for each in found] == [b"a", b"b", b"c", b"d"]
    assert [bool(each.damage) for each in found] == [True, True, True, False]
    ids = [identify(each, "here") for each in found]
    assert [each.known for each in ids] == [Known.NOT] * 3 + [Known.STREAM]
    assert len({each.id for each in ids}) == 4
    with engine.connect() as connection, pytest.raises(SQLAlchemyError):
        # Nobody else is to read texts that are none.
        connection.exec_driver_sql("SELECT kind FROM sequitur_messages").all()
