"""Poisoned units, administration, names by the system and by administration."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from click.testing import CliRunner

from sequitur.cli.main import sequitur
from stores.units import (
    OutgoingMessage,
    QueueSettings,
    UnitAdministration,
    UnitError,
    unit_by,
    unit_named,
    unit_per_session,
)
from stores.units.kafka.records import read_headers
from tests.stores.units.conftest import TOKEN, Destination, received
from tests.stores.units.test_transactions import everything_in, records_in

Create = Callable[..., Destination]


def administration(there: Destination) -> UnitAdministration:
    return UnitAdministration(there.name, there.group, there.kafka, TOKEN, wait=120)


async def test_a_poisoned_unit_is_parked_and_redriven_in_order(destination: Create) -> None:
    there = destination()
    async with (
        there.server(queue=QueueSettings(redelivery_limit=1)),
        there.producer() as producer,
        there.consumer() as consumer,
        administration(there) as admin,
    ):
        await producer.unit("bad").send_all([b"1", b"2"])
        for _ in range(2):
            delivery = await received(consumer)
            await delivery.roll_back(reason="no such customer")
        await producer.unit("good").send(b"fine")
        fine = await received(consumer)
        assert fine.value == b"fine"
        await fine.done()
        (status,) = await admin.units(0, "bad")
        assert (status["state"], status["waiting"]) == ("parked", 2)
        assert "no such customer" in status["reason"]
        await admin.act("redrive", 0, by="an operator", unit="bad", reason="customer made")
        found = []
        for _ in range(2):
            delivery = await received(consumer)
            found.append(delivery.value)
            await delivery.done()
        assert found == [b"1", b"2"]
        (record,) = await admin.records(0)
        assert (record["action"], record["unit"], record["by"]) == ("redrive", "bad", "an operator")


async def test_what_is_parked_and_on_record_outlives_the_server(destination: Create) -> None:
    there = destination()
    async with there.producer() as producer, administration(there) as admin:
        await producer.unit("u").send_all([b"1", b"2"])
        async with there.server(), there.consumer() as consumer:
            delivery = await received(consumer)
            await delivery.roll_back(delay=60)
            await delivery_returned(admin)
            await admin.act("park", 0, by="me", unit="u", reason="later")
        async with there.server(), there.consumer() as consumer:
            while not (found := await admin.units(0, "u")) or found[0]["state"] != "parked":
                pass
            assert (found[0]["waiting"], found[0]["reason"]) == (2, "later")
            await admin.act("redrive", 0, by="me", unit="u")
            delivery = await received(consumer)
            assert delivery.value == b"1"


async def delivery_returned(admin: UnitAdministration) -> dict[str, Any]:
    """The status of unit `u`, once nobody holds it."""
    while (found := await admin.units(0, "u"))[0]["held"]:
        pass
    return found[0]


async def test_a_unit_beyond_its_limit_is_dead_lettered_whole(destination: Create) -> None:
    there = destination()
    settings = QueueSettings(redelivery_limit=1, poisoned="dead_letter")
    async with (
        there.server(queue=settings),
        there.producer() as producer,
        there.consumer() as consumer,
    ):
        await producer.unit("bad").send_all([b"1", b"2"])
        for _ in range(2):
            delivery = await received(consumer)
            await delivery.roll_back()
        await producer.unit("good").send(b"fine")
        fine = await received(consumer)
        await fine.done(durable=True)
        assert await everything_in(there, f"{there.name}.dead", 2) == [b"1", b"2"]


async def test_messages_are_deleted_and_moved_and_that_is_on_record(
    destination: Create, topic: Callable[..., str]
) -> None:
    there, elsewhere = destination(), topic("elsewhere")
    async with (
        there.server(),
        there.producer() as producer,
        there.consumer() as consumer,
        administration(there) as admin,
    ):
        await admin.act("pause", 0, by="me")
        assert (await admin.members())[0]["paused"]
        offsets = [
            await producer.unit("u").send(
                OutgoingMessage(b"%d" % number, sort=7, expires=4e9, attributes={"a": "b"})
            )
            for number in range(4)
        ]
        while (await admin.units(0, "u"))[0]["waiting"] < 4:
            pass
        deleted = await admin.act("delete", 0, by="me", offsets=offsets[:1])
        moved = await admin.act("move", 0, by="me", offsets=offsets[1:2], to=elsewhere)
        assert deleted["breaks_order"]
        assert moved["breaks_order"]
        await admin.act("resume", 0, by="me")
        delivery = await received(consumer)
        assert delivery.value == b"2"
        assert await everything_in(there, elsewhere, 1) == [b"1"]
        (gone,) = await records_in(there, elsewhere, 1)
        found = read_headers(gone.headers)
        assert (gone.key, found.unit, found.sort, found.expires) == (b"u", "u", 7.0, 4e9)
        assert found.attributes == {"a": "b", "unit-outcome": "moved"}
        actions = [each["action"] for each in await admin.records(0)]
        assert actions == ["pause", "delete", "move", "resume"]
        with pytest.raises(UnitError):
            await admin.act("delete", 0, by="me", offsets=[delivery.offset])


async def test_a_name_by_the_system_lets_others_join_the_unit(destination: Create) -> None:
    there = destination()
    async with (
        there.server(),
        there.producer() as one,
        there.producer() as other,
        there.consumer() as consumer,
    ):
        mine, theirs = one.unit(), other.unit()
        assert mine.name != theirs.name
        await mine.send(b"1")
        delivery = await received(consumer)
        assert delivery.unit == mine.name
        await other.unit(delivery.unit).send(b"2")
        assert await consumer.receive(0.5) is None
        await delivery.done()
        delivery = await received(consumer)
        assert (delivery.unit, delivery.value) == (mine.name, b"2")


@pytest.mark.parametrize(
    ("default", "same"),
    [
        (unit_per_session(), True),
        (unit_named("all"), True),
        (unit_by(lambda message: f"unit-{message.value.decode()}"), False),
        (None, False),
    ],
    ids=["session", "name", "function", "ungrouped"],
)
async def test_administration_names_units_by_default(
    destination: Create, default: Any, same: bool
) -> None:
    there = destination()
    async with (
        there.server(),
        there.producer(default=default) as producer,
        there.consumer() as one,
        there.consumer() as other,
    ):
        await producer.send(b"1")
        await producer.send(b"2")
        first = await received(one)
        second = await other.receive(1 if same else 120)
        assert (second is None) is same
        assert (first.unit is None) is (default is None)


async def test_the_command_shows_and_redrives(
    destination: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = destination()
    monkeypatch.setenv("UNITS_TOKEN", TOKEN)
    words = ["--destination", there.name, "--group", there.group]
    words += ["--broker", there.kafka["bootstrap_servers"]]

    async def run(*command: str) -> tuple[int, str]:
        found = await asyncio.to_thread(
            CliRunner().invoke,
            sequitur,
            ["units", command[0], *words, *command[1:]],
            standalone_mode=False,
        )
        return found.return_value, found.output

    async with there.server(), there.producer() as producer, administration(there) as admin:
        await producer.unit("u").send(b"1")
        while not (await admin.units(0, "u"))[0]["waiting"]:
            pass
        assert (await run("status"))[0] == 0
        assert (await run("park", "--unit", "u", "--reason", "later"))[0] == 0
        status, said = await run("status")
        assert status == 1
        assert "u: parked, 1 wait: later" in said
        assert (await run("redrive", "--unit", "u"))[0] == 0
        assert (await run("status", "--unit", "u"))[0] == 0
        assert (await run("redrive", "--unit", "u"))[0] == 2
        assert (await run("pause", "--unit", "other"))[0] == 2
        assert "no member has anything of other" in (await run("status", "--unit", "other"))[1]
        assert (await run("pause", "--member", "0"))[0] == 0
        status, said = await run("status")
        assert (status, "sessions, paused" in said) == (1, True)


async def test_a_unit_that_servers_name_is_found_where_it_lies(destination: Create) -> None:
    there = destination(4)
    async with (
        there.server(naming=lambda message, key: None if key is None else key.decode()),
        administration(there) as admin,
    ):
        place = (admin.member("order-7") + 1) % 4
        producer = AIOKafkaProducer(**there.kafka)
        await producer.start()
        try:
            await producer.send_and_wait(there.name, b"1", b"order-7", place)
        finally:
            await producer.stop()
        async with asyncio.timeout(60):
            while await admin.homes("order-7") != [place]:
                pass
