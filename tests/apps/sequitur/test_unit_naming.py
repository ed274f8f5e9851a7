"""Administration names the units of messages, and no code of their producers changes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.consumer import fetcher

from sequitur.units.naming import naming_of
from stores.units import StoredProducer, UnitError, unit_named
from stores.units.forward.store import UnitStore
from stores.units.naming import DEFAULT, named_at
from tests.conftest import BrokerAddress
from tests.stores.units.conftest import Destination, received
from topology import DeclarationError

pytestmark = pytest.mark.integration
HEADERS = [("customer", b"smith"), ("odd", b"\xff")]


def by_length(message: Any, key: bytes | None) -> str | None:
    """A naming of a user's."""
    return f"{message.attributes.get('customer')}-{len(key or b'')}"


@pytest.fixture
def there(broker: BrokerAddress, topic: Callable[..., str]) -> Destination:
    return Destination({"bootstrap_servers": broker.address}, topic("units"))


@asynccontextmanager
async def foreign(there: Destination, **more: Any) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(**there.kafka, **more)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("key", "order-7"),
        ("header:customer", "smith"),
        ("header:missing", None),
        ("name:all", "all"),
        ("tests.apps.sequitur.test_unit_naming:by_length", "smith-7"),
    ],
)
async def test_a_server_names_units_of_foreign_messages(
    there: Destination, how: str, name: str | None
) -> None:
    async with (
        there.server(naming=naming_of(how)),
        foreign(there) as producer,
        there.producer() as own,
        there.consumer(mode="auto") as consumer,
    ):
        await producer.send_and_wait(there.name, b"1", b"order-7", headers=HEADERS)
        await own.unit("own").send(b"2")
        assert (await received(consumer)).unit == name
        assert (await received(consumer)).unit == "own"


async def test_each_session_of_foreign_producers_is_a_unit_if_kafka_knows_it(
    there: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PartitionRecords", fetcher.PartitionRecords)
    naming = naming_of("session")
    async with (
        foreign(there, enable_idempotence=True) as first,
        foreign(there, enable_idempotence=True) as second,
        foreign(there) as unknown,
    ):
        for producer in (first, second, first, unknown):
            await producer.send_and_wait(there.name, b"1", headers=HEADERS)
        # A consumer that ends after its server waits for its lease.
        async with there.server(naming=naming), there.consumer(mode="auto") as consumer:
            found = [(await received(consumer)).unit for _ in range(4)]
    assert found[0] == found[2] != found[1]
    assert found[3] is None
    assert all(name and name.startswith("session-") for name in found[:3])


async def test_a_variable_names_units_of_producers_whose_code_names_none(
    there: Destination, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with there.server(), there.consumer(mode="auto") as consumer:
        found: list[str | None] = []
        for text in ("session", "name:all"):
            monkeypatch.setenv(DEFAULT, text)
            async with there.producer() as producer, there.producer(default=unit_named("x")) as own:
                for each in (producer, producer, own):
                    await each.send(b"1")
                    found.append((await received(consumer)).unit)
    session, again, own_name, *rest = found
    assert session == again
    assert named_at(session or "") is not None
    assert [own_name, *rest] == ["x", "all", "all", "x"]
    async with StoredProducer(there.name, tmp_path / "units.db") as stored:
        await stored.send(b"1")
    store = UnitStore(tmp_path / "units.db", there.name)
    assert store.read(1)[0].headers == {"unit": "all"}
    store.close()
    monkeypatch.setenv(DEFAULT, "by the moon")
    with pytest.raises(UnitError, match="by the moon"):
        there.producer()


@pytest.mark.parametrize("how", ["", "header", "header:", "name:", "os:sep", "nowhere.to.be:found"])
def test_a_naming_that_is_none_is_refused(how: str) -> None:
    with pytest.raises((UnitError, DeclarationError)):
        naming_of(how)


async def test_a_producer_stays_in_its_unit_until_it_leaves_or_is_closed(
    there: Destination,
) -> None:
    async with there.producer() as producer, there.producer() as other:
        unit, same = producer.unit("u"), other.unit("u")
        await unit.send(b"1")
        await asyncio.gather(unit.send(b"2"), unit.leave())
        with pytest.raises(UnitError, match="has left unit 'u'"):
            await unit.send(b"lost")
        await same.send(b"3")  # it goes on for others
        await producer.unit("u").send(b"4")
        joined = producer.unit("v")
    with pytest.raises(UnitError, match="has left unit 'v'"):
        await joined.send(b"lost")
    async with there.server(), there.consumer(mode="auto") as consumer:
        found = [(await received(consumer)).value for _ in range(4)]
    assert found == [b"1", b"2", b"3", b"4"]


async def test_a_name_on_another_destination_is_another_unit_and_may_be_the_topics_own(
    there: Destination, topic: Callable[..., str]
) -> None:
    other = Destination(there.kafka, topic("units"))
    name = there.name
    async with (
        there.server(), other.server(), there.producer() as here, other.producer() as away,
        there.consumer() as first, other.consumer() as second,
    ):  # fmt: skip
        await here.unit(name).send(b"1")
        await away.unit(name).send(b"2")
        held = await received(first)
        found = await received(second)  # which the other destination's unit does not block
        assert [held.unit, found.unit, found.value] == [name, name, b"2"]
