"""Acknowledge modes, transactions of a consumer, and results in SQL."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.client import AIOKafkaClient
from sqlalchemy import Engine, text

from stores.db.engines import open_engine
from stores.units import (
    DeliveryLost,
    ForwardingAgent,
    SendRefused,
    StoredProducer,
    UnitAdministration,
    UnitError,
    create_marks,
    forget_marks,
    mark,
)
from stores.units.kafka.topics import member_of
from tests.stores.units.conftest import TOKEN, Destination, received

Create = Callable[..., Destination]


async def everything_in(there: Destination, topic: str, count: int) -> list[bytes]:
    """The values of `records_in`."""
    return [record.value for record in await records_in(there, topic, count)]


async def records_in(there: Destination, topic: str, count: int) -> list[Any]:
    """What is committed of a topic, once there is so much: brokers show it a moment later."""
    consumer = AIOKafkaConsumer(
        topic, **there.kafka, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        found: list[Any] = []
        async with asyncio.timeout(60):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
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


async def test_after_a_commit_whose_awaiting_was_cancelled_the_next_transaction_begins(
    destination: Create,
) -> None:
    there = destination()
    async with there.producer() as producer:
        async with producer.transaction() as transaction:
            await transaction.send(b"1", "u")
        client: Any = producer._transactional
        commit = client.commit_transaction

        async def send() -> None:
            async with producer.transaction() as transaction:
                await transaction.send(b"2", "u")

        sending = asyncio.create_task(send())

        async def cancelled() -> None:
            sending.cancel()
            await commit()

        client.commit_transaction = cancelled
        await asyncio.wait([sending])
        assert sending.cancelled()
        client.commit_transaction = commit
        async with producer.transaction() as transaction:
            await transaction.send(b"3", "u")
        assert await everything_in(there, there.name, 3) == [b"1", b"2", b"3"]


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
            found = [await consumer.receive(60), await consumer.receive(60)]
        async with there.consumer() as consumer:
            found.append(await consumer.receive(60))
    assert [each and each.value for each in found] == [b"1", b"2", b"3"]


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database with the table of marks."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/shop.db" if sqlite else request.getfixturevalue("database")
    engine = open_engine(url)
    with engine.begin() as connection:
        create_marks(connection)
        create_marks(connection)  # they are there
    yield engine
    engine.dispose()


async def test_a_result_in_sql_is_there_once_though_the_acknowledgement_was_lost(
    destination: Create, engine: Engine
) -> None:
    there = destination()
    with engine.begin() as connection:
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
    destination: Create, engine: Engine
) -> None:
    there = destination()
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


@dataclass
class Held:
    """A delivery as marks see it."""

    group: str
    destination: str
    member: int
    offset: int

    def check(self) -> None:
        pass


async def test_of_two_who_write_the_result_of_a_message_at_once_one_does(engine: Engine) -> None:
    """As a consumer does that was stopped, and the one that has its message since."""
    delivery, began = Held("g", "d", 0, 7), threading.Event()

    def other() -> bool:
        with engine.begin() as connection:
            began.set()
            return mark(connection, delivery)

    with engine.begin() as connection:
        assert mark(connection, delivery)
        waiting = asyncio.get_running_loop().run_in_executor(None, other)
        assert await asyncio.to_thread(began.wait, 60)
        await asyncio.sleep(0.2)
        assert not waiting.done()
    assert await waiting is False
    with engine.connect() as connection, connection.begin() as transaction:
        assert mark(connection, Held("g", "d", 0, 8))
        transaction.rollback()
    with engine.begin() as connection:
        assert mark(connection, Held("g", "d", 0, 8))  # its result was rolled back with the mark
        assert mark(connection, Held("another", "d", 0, 8))
        assert mark(connection, Held("g", "d", 1, 8))


async def test_closing_a_consumer_completes_what_the_application_holds_if_it_says_so(
    destination: Create,
) -> None:
    there = destination()
    async with there.server(), there.producer() as producer:
        await producer.unit("u").send_all([b"1", b"2", b"3"])
        async with there.consumer(prefetch=2) as consumer:
            assert (await received(consumer)).value == b"1"
            await consumer.close(complete=True)
        async with there.consumer() as consumer:
            found = await received(consumer)  # which the other one had not seen
            assert (found.value, found.redeliveries) == (b"2", 0)


async def test_members_of_a_destination_do_not_wait_for_each_other_and_each_has_its_order(
    destination: Create,
) -> None:
    there = destination(2)
    names = {member_of(f"u{number}", 2): f"u{number}" for number in range(20)}
    async with there.server(), there.producer() as producer:
        for value in (b"1", b"2"):
            for member in (0, 1):
                await producer.unit(names[member]).send(value)
        async with there.consumer() as consumer:
            held = await received(consumer)
            found = [await received(consumer)]
            await found[0].done()
            found.append(await received(consumer))
            assert {each.member for each in found} == {1 - held.member}
            assert [each.value for each in (held, *found)] == [b"1", b"1", b"2"]


async def test_the_settings_of_tls_and_sasl_reach_every_client(
    destination: Create, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there, made = destination(), list[dict[str, Any]]()
    mine = {"ssl_context": ssl.create_default_context(), "sasl_plain_username": "me",
            "sasl_plain_password": "secret", "sasl_mechanism": "SCRAM-SHA-256"}  # fmt: skip
    begin = AIOKafkaClient.__init__

    def spy(self: Any, *arguments: Any, **settings: Any) -> None:
        made.append(settings)
        begin(self, *arguments, **settings)

    monkeypatch.setattr(AIOKafkaClient, "__init__", spy)
    there.kafka = {**there.kafka, **mine}
    async with StoredProducer(there.name, tmp_path / "units.db") as stored:
        await stored.unit("u").send(b"0")
    agent, stopped = (
        ForwardingAgent(there.name, tmp_path / "units.db", there.kafka),
        asyncio.Event(),
    )
    async with there.server(), there.producer() as producer, there.consumer() as consumer:
        forwarding = asyncio.create_task(agent.run(stopped))
        assert (await received(consumer)).value == b"0"
        await producer.unit("u").send_all([b"1", b"2"])
        admin = UnitAdministration(there.name, there.group, there.kafka, TOKEN)
        async with admin as administration:
            assert await administration.members()
        stopped.set()
        await forwarding
    assert len(made) > 8
    for name, value in mine.items():
        assert {id(settings.get(name)) for settings in made} == {id(value)}, name


async def test_a_producer_that_left_a_unit_says_so(destination: Create) -> None:
    there = destination()
    async with there.producer() as producer:
        unit = producer.unit("u")
        await unit.leave()
        with pytest.raises(UnitError, match="has left unit 'u'"):
            await unit.send(b"1")


async def test_a_send_that_its_topic_refuses_is_told_to_the_sender_and_the_member_goes_on(
    destination: Create, topic: Callable[..., str]
) -> None:
    """Each attempt ends the owner; without an end of the attempts nobody gets anything more."""
    there, out = destination(), f"{topic('small')}-out"
    admin = AIOKafkaAdminClient(**there.kafka)
    await admin.start()
    try:
        limit = {"max.message.bytes": "100000"}
        await admin.create_topics([NewTopic(out, 1, 1, topic_configs=limit)])
    finally:
        await admin.close()
    async with (
        there.server(outputs=frozenset({out})),
        there.producer() as producer,
        there.consumer(mode="transacted") as consumer,
    ):
        await producer.unit("u").send_all([b"1", b"2"])
        first = await received(consumer)
        consumer.send(out, bytes(500_000), "u")
        with pytest.raises(SendRefused, match="does not take the message"):
            async with asyncio.timeout(60):
                await consumer.commit()
        assert first.held
        consumer.send(out, b"small", "u")
        async with asyncio.timeout(60):
            await consumer.commit()
        assert (await received(consumer)).value == b"2"
        assert await everything_in(there, out, 1) == [b"small"]
