"""Acknowledge modes, transactions of a consumer, and results in SQL."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from sqlalchemy import create_engine, text

from stores.units import DeliveryLost, SendRefused, UnitError, create_marks, forget_marks, mark
from tests.stores.units.conftest import Destination, received

Create = Callable[..., Destination]


async def everything_in(there: Destination, topic: str, count: int) -> list[bytes]:
    """The committed values of a topic, once there are so many: brokers show them a moment later."""
    consumer = AIOKafkaConsumer(
        topic, **there.kafka, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        found: list[bytes] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [record.value for record in records]
        return found
    finally:
        await consumer.stop()


async def test_a_commit_completes_and_sends_together_and_a_rollback_neither(
    destination: Create, topic: Callable[..., str]
) -> None:
    there, out = destination(), topic("invoices")
    async with (
        there.server(outputs=frozenset({out})),
        there.producer() as producer,
        there.consumer(mode="transacted") as consumer,
    ):
        await producer.unit("u").send_all([b"1", b"2"])
        first = await received(consumer)
        consumer.send(out, b"dropped", "u")
        await consumer.roll_back()
        again = await received(consumer)
        assert (again.value, again.redeliveries) == (first.value, 1)
        consumer.send(out, b"invoice of 1", "u")
        await consumer.commit()
        second = await received(consumer)
        assert second.value == b"2"
        assert await everything_in(there, out, 1) == [b"invoice of 1"]


async def test_a_transacted_consumer_sends_only_where_the_servers_allow_it(
    destination: Create,
) -> None:
    there = destination()
    async with (
        there.server(),
        there.producer() as producer,
        there.consumer(mode="transacted") as consumer,
    ):
        await producer.unit("u").send(b"1")
        await received(consumer)
        consumer.send("payroll", b"a raise")
        with pytest.raises(SendRefused, match="may not send to 'payroll'"):
            await consumer.commit()
        await consumer.roll_back()
        assert (await received(consumer)).value == b"1"


async def test_a_mode_does_only_what_is_its_own(destination: Create) -> None:
    there = destination()
    with pytest.raises(ValueError, match="use 'auto'"):
        there.consumer(mode="sometimes")
    with pytest.raises(ValueError, match="only a transacted consumer"):
        await there.consumer().commit()


async def test_auto_completes_when_the_loop_asks_for_the_next(destination: Create) -> None:
    there = destination()
    async with there.server(), there.producer() as producer:
        await producer.unit("u").send_all([b"1", b"2", b"3"])
        async with there.consumer(mode="auto") as consumer:
            found = [await consumer.receive(20), await consumer.receive(20)]
        async with there.consumer() as consumer:
            found.append(await consumer.receive(20))
    assert [each and each.value for each in found] == [b"1", b"2", b"3"]


async def test_a_result_in_sql_is_there_once_though_the_acknowledgement_was_lost(
    destination: Create, tmp_path: Path
) -> None:
    there = destination()
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        create_marks(connection)
        connection.execute(text("CREATE TABLE paid (number TEXT)"))
    async with there.server(), there.producer() as producer:
        await producer.unit("u").send_all([b"1", b"2"])
        async with there.consumer() as consumer:
            delivery = await received(consumer)
            with engine.begin() as connection:
                assert mark(connection, delivery)
                connection.execute(text("INSERT INTO paid VALUES ('1')"))
            # The consumer is closed before it acknowledges: the message comes again.
        async with there.consumer() as consumer:
            for _ in range(2):
                delivery = await received(consumer)
                with engine.begin() as connection:
                    if fresh := mark(connection, delivery):
                        value = delivery.value.decode()
                        connection.execute(text("INSERT INTO paid VALUES (:v)"), {"v": value})
                await delivery.done(recovered=not fresh, durable=True)
    with engine.begin() as connection:
        assert list(connection.execute(text("SELECT number FROM paid")).scalars()) == ["1", "2"]


async def test_who_lost_a_message_commits_no_result_even_if_marks_were_forgotten(
    destination: Create, tmp_path: Path
) -> None:
    there = destination()
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        create_marks(connection)
    async with there.server(), there.producer() as producer:
        await producer.unit("u").send(b"1")
        async with there.consumer() as consumer:
            stale = await received(consumer)
        with pytest.raises(DeliveryLost), engine.begin() as connection:
            mark(connection, stale)
        async with there.consumer() as consumer:
            delivery = await received(consumer)
            with engine.begin() as connection:
                assert mark(connection, delivery)
            with engine.begin() as connection:
                assert forget_marks(
                    connection, there.group, there.name, delivery.member, delivery.offset + 1
                )
            with engine.begin() as connection:
                assert not mark(connection, delivery)


async def test_a_producer_that_left_a_unit_says_so(destination: Create) -> None:
    there = destination()
    async with there.producer() as producer:
        unit = producer.unit("u")
        await unit.leave()
        with pytest.raises(UnitError, match="has left unit 'u'"):
            await unit.send(b"1")
