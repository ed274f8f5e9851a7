"""The inbox in PostgreSQL, where any number of consumers deliver at once."""

import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from stores.db.engines import open_engine
from stores.inbox.async_delivery import adelivery
from stores.inbox.inbox import Inbox
from stores.inbox.rows import ReadRange, move_offsets
from tests.contracts.inbox import InboxContract
from tests.contracts.inbox.parts import consume, done, make_table, message, named, write

pytestmark = pytest.mark.integration


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = open_engine(database, pool_size=20)
    yield engine
    engine.dispose()


class TestPostgresInbox(InboxContract):
    pass


def test_several_consumers_share_the_streams_and_keep_their_order(engine: Engine) -> None:
    make_table(engine)
    inbox = Inbox(engine)
    streams = [f"{letter}-" for letter in "abcdefgh"]
    inbox.receive([message(n, stream) for n in range(1, 41) for stream in streams])
    came: dict[int, list[str]] = defaultdict(list)
    order: list[str] = []
    together = threading.Barrier(4)

    def work(number: int) -> None:
        with engine.connect() as connection:
            while True:
                with inbox.delivery(connection) as found:
                    if found is None:
                        return
                    if number not in came:  # each has a stream at the same time
                        together.wait(240)
                    write(connection, found)
                    came[number].append(found.stream)
                    # Noted while the stream is locked, so this is the order of processing.
                    order.append(found.content.decode())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert consume(inbox) == []
    assert len(done(engine)) == 320
    for stream in streams:
        assert [each for each in order if each.startswith(stream)] == named(stream, range(1, 41))
    assert len(came) == 4


def test_a_slow_delivery_holds_up_neither_receiving_nor_others(engine: Engine) -> None:
    make_table(engine)
    inbox = Inbox(engine)
    inbox.receive([message(1), message(1, "b")])
    with engine.connect() as connection, inbox.delivery(connection) as slow:
        assert slow is not None
        # More of the stream that is being delivered comes in meanwhile, and others are delivered.
        inbox.receive([message(2, slow.stream)])
        others = consume(inbox)
        assert others == ["b1" if slow.stream == "a" else "a1"]
    assert consume(inbox) == [f"{slow.stream}2"]


def test_what_a_consumer_does_is_planned_as_it_would_be_elsewhere(engine: Engine) -> None:
    inbox = Inbox(engine)
    inbox.receive([message(1), message(2)])
    seen = []
    with engine.connect() as connection:
        for setting in ("on", "off"):
            connection.execute(text(f"SET enable_seqscan = {setting}"))
            connection.commit()
            with inbox.delivery(connection) as found:
                assert found is not None
                names = ("enable_seqscan", "enable_bitmapscan")
                seen += [connection.execute(text(f"SHOW {name}")).scalar() for name in names]
            seen.append(connection.execute(text("SHOW enable_seqscan")).scalar())
            connection.rollback()
    assert seen == ["on", "on", "on", "off", "on", "off"]


def test_that_a_partition_is_read_from_now_on_outlives_a_crash(engine: Engine) -> None:
    """What is read of it need not: where the row is back, who reads is told."""
    inbox = Inbox(engine)
    inbox.receive([])
    for first, end, waits in ((0, 0, "local"), (0, 5, "off")):
        with engine.begin() as connection:
            connection.execute(text("SET LOCAL synchronous_commit = local"))
            assert move_offsets(connection, inbox.name, {("t", 0): ReadRange(first, end)}) == []
            assert connection.execute(text("SHOW synchronous_commit")).scalar_one() == waits
    with engine.begin() as connection:
        assert move_offsets(connection, inbox.name, {("t", 0): ReadRange(6, 7)}) == [("t", 0)]


async def afail(inbox: Inbox, connection: AsyncConnection) -> None:
    async with adelivery(inbox, connection) as found:
        assert found is not None
        raise ValueError("no")


async def test_deliveries_for_asyncio(engine: Engine) -> None:
    make_table(engine)
    inbox = Inbox(engine, backoff=0)
    inbox.receive([message(1), message(2)])
    async_engine = create_async_engine(engine.url)
    came = []
    try:
        async with async_engine.connect() as connection:
            with pytest.raises(ValueError, match="no"):
                await afail(inbox, connection)
            for _ in range(3):
                async with adelivery(inbox, connection) as found:
                    if found is not None:
                        await connection.run_sync(write, found)
                        came.append(found.sequence)
    finally:
        await async_engine.dispose()
    assert came == [1, 2]
    assert done(engine) == ["a1", "a2"]
