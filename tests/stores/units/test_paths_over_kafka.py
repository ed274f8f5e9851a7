"""Routing by the path service over a real broker: chosen, kept, moved, deleted; what fails."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from click.testing import CliRunner

from sequitur.cli.main import sequitur
from stores.units import (
    MemberUnavailable,
    PathAdministration,
    PathServer,
    PathSettings,
    QueueSettings,
    UnitAdministration,
    UnitElsewhere,
    UnitError,
)
from stores.units.kafka.path_rows import LEADER, path_key
from stores.units.kafka.path_service import LAST, PathService
from stores.units.kafka.topics import paths_topic, prepare_paths
from tests.stores.units.conftest import TOKEN, Destination, received

Create = Callable[..., Destination]


@asynccontextmanager
async def paths(*all_of: Destination, lease: float = 20.0) -> AsyncIterator[PathServer]:
    """A path service of these destinations, which listens."""
    names = tuple(each.name for each in all_of)
    server = PathServer(PathSettings(names, all_of[0].kafka, TOKEN, lease=lease))
    stopped = asyncio.Event()
    task = asyncio.create_task(server.run(stopped))
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield server
    finally:
        ready.cancel()
        stopped.set()
        await task


ROUTED: dict[str, Any] = {"routing": "path", "token": TOKEN}


async def test_a_unit_moves_while_it_is_sent_to_and_worked_on(destination: Create) -> None:
    there = destination(2)
    async with (
        paths(there),
        there.server(),
        there.producer(**ROUTED) as producer,
        there.consumer() as consumer,
        PathAdministration(there.name, there.kafka, TOKEN) as admin,
    ):
        unit = producer.unit("order-7")
        await unit.send(b"0")
        home = (await admin.path("order-7"))["member"]
        seen: list[tuple[int, int]] = []
        moved, last = asyncio.Event(), b"the last"

        async def work() -> None:
            while True:
                delivery = await received(consumer)
                await asyncio.sleep(0.005)
                await delivery.done()
                if delivery.value == last:
                    return
                seen.append((int(delivery.value), delivery.member))

        async def send() -> int:
            sent, after = 1, 0
            while after < 20:
                await unit.send(b"%d" % sent)
                sent += 1
                after += moved.is_set()
                await asyncio.sleep(0.01)
            await unit.send(last)
            return sent

        working, sending = asyncio.create_task(work()), asyncio.create_task(send())
        while len(seen) < 10:
            await asyncio.sleep(0.01)
            assert not working.done()
        await admin.move("order-7", 1 - int(home), by="me")
        moved.set()
        async with asyncio.timeout(60):
            _, count = await asyncio.gather(working, sending)
        assert [number for number, _ in seen] == list(range(count))
        assert {member for _, member in seen} == {0, 1}
        with pytest.raises(UnitElsewhere, match="leave the member out"):
            await producer.send(b"straight", unit="order-7", member=int(home))
        await unit.send(b"60")
        assert (await received(consumer)).value == b"60"
        async with UnitAdministration(there.name, there.group, there.kafka, TOKEN) as units:
            assert await units.homes("order-7") == [1 - int(home)]


async def test_a_unit_moves_to_a_member_that_it_fills_before_it_is_handed_over(
    destination: Create,
) -> None:
    """What lets it go on lies behind what waits for it, where the paused member does not read."""
    there = destination(2)
    async with (
        paths(there),
        there.server(messages=2),
        there.producer(**ROUTED) as producer,
        there.consumer() as consumer,
        PathAdministration(there.name, there.kafka, TOKEN) as admin,
    ):
        unit = producer.unit("order-7")
        await unit.send(b"0")
        held = await received(consumer)
        await admin.move("order-7", 1 - held.member, by="me")
        for number in range(1, 8):
            await unit.send(b"%d" % number)
            await asyncio.sleep(0.1)  # else they are read at once
        await held.done(durable=True)
        for number in range(1, 8):
            delivery = await received(consumer)
            assert (delivery.value, delivery.member) == (b"%d" % number, 1 - held.member)
            await delivery.done()


async def test_a_path_outlives_the_service_and_goes_with_the_last_message(
    destination: Create,
) -> None:
    there = destination(3)
    async with (
        there.server(),
        there.consumer() as consumer,
        PathAdministration(there.name, there.kafka, TOKEN) as admin,
    ):
        async with paths(there), there.producer(**ROUTED) as producer:
            for unit in ("a", "b", "c"):
                await producer.unit(unit).send(b"1")
            first = await admin.paths()
            assert len({path["member"] for path in first.values()}) == 3  # by load
        async with paths(there):
            second = await admin.paths()
            assert {u: each["member"] for u, each in second.items()} == {
                u: each["member"] for u, each in first.items()
            }
            for _ in range(3):
                await (await received(consumer)).done()
            until = time.monotonic() + 60
            while (left := await admin.paths()) and time.monotonic() < until:
                await asyncio.sleep(0.2)
            assert left == {}, "its producer has left, and nothing waits"
            with pytest.raises(UnitError, match="has no path"):
                await admin.path("a")


async def test_a_subscriber_that_is_gone_holds_paths_until_it_is_forgotten(
    destination: Create, caplog: pytest.LogCaptureFixture
) -> None:
    there = destination(2)
    gone, park = f"{there.name}-gone", QueueSettings(redelivery_limit=0)

    async def forget(*more: str) -> str:
        words = ["units", "forget", "--destination", there.name, "--group", gone, *more]
        words += ["--broker", there.kafka["bootstrap_servers"]]
        caplog.clear()
        found = await asyncio.to_thread(CliRunner().invoke, sequitur, words)
        return found.output + caplog.text

    async with (
        paths(there),
        there.server(),
        there.consumer() as consumer,
        PathAdministration(there.name, there.kafka, TOKEN) as admin,
    ):
        async with (
            there.producer(**ROUTED) as producer,
            there.server(group=gone, queue=park),
            there.consumer(group=gone) as other,
        ):
            await producer.unit("u").send(b"1")
            await (await received(other)).roll_back(reason="it is bad")
            assert "runs, or has ended" in await forget()
            await (await received(consumer)).done()
        assert "has 1 parked messages" in await forget()
        assert "u" in await admin.paths()
        assert "is forgotten" in await forget("--parked")
        async with asyncio.timeout(60):
            while await admin.paths():
                await asyncio.sleep(0.1)
        assert "nothing is known" in await forget()
        async with there.server(group=gone) as back:
            async with asyncio.timeout(60):
                while len(back.owners) < 2:
                    await asyncio.sleep(0.1)
            assert [each.epoch for each in back.owners.values()] == [2, 2]


async def test_without_the_path_service_sending_fails_clearly(destination: Create) -> None:
    there = destination(2)
    async with paths(there, lease=0.6), there.producer(wait=60.0, **ROUTED) as producer:
        await producer.unit("a").send(b"1")
        with pytest.raises(UnitError, match="routed by path, not by hash"):
            await there.producer().start()
        other = there.producer(routing="path", token="not-the-token-of-it", wait=5.0)
        async with other:
            with pytest.raises(MemberUnavailable, match="does not know this token"):
                await other.unit("a").send(b"2")
    async with there.producer(wait=1.0, **ROUTED) as producer:
        with pytest.raises(MemberUnavailable, match="sending without one would break its order"):
            await producer.unit("a").send(b"3")


async def test_a_destination_that_was_routed_by_hash_is_not_routed_by_path(
    destination: Create,
) -> None:
    there = destination(1)
    async with there.producer() as producer:
        await producer.unit("a").send(b"1")
    with pytest.raises(UnitError, match="were routed by hash"):
        async with paths(there):
            pass
    with pytest.raises(UnitError, match="is routed by hash, not by path"):
        await there.producer(**ROUTED).start()


async def test_partitions_that_are_added_move_no_unit_and_get_new_ones_by_path(
    destination: Create,
) -> None:
    there = destination(1)
    async with (
        paths(there),
        there.producer(**ROUTED) as producer,
        PathAdministration(there.name, there.kafka, TOKEN) as admin,
    ):
        await producer.unit("old").send(b"1")
        await grow(there, there.name, 2)
        await producer.unit("old").send(b"2")
        until, number = time.monotonic() + 60, 0
        while 1 not in producer.sent and time.monotonic() < until:
            number += 1
            await producer.unit(f"new{number}").send(b"1")
            await asyncio.sleep(0.2)
        assert producer.sent[1]
        assert (await admin.path("old"))["member"] == "0"


async def test_partitions_that_are_added_to_the_topic_of_rows_are_refused(
    destination: Create,
) -> None:
    there = destination(1)
    async with there.producer():
        pass
    await grow(there, f"{there.name}.units", 2)
    with pytest.raises(UnitError, match="units would live elsewhere"):
        await there.producer().start()


async def grow(there: Destination, topic: str, partitions: int) -> None:
    admin = AIOKafkaAdminClient(**there.kafka)
    await admin.start()
    try:
        await admin.create_partitions({topic: NewPartitions(partitions)})
    finally:
        await admin.close()


async def test_where_units_live_is_shown_and_changed_by_command(destination: Create) -> None:
    there = destination(2)

    def command(*words: str) -> str:
        told = ["units", "paths", *words, "--destination", there.name]
        told += ["--broker", there.kafka["bootstrap_servers"], "--unit", "a"]
        found = CliRunner().invoke(sequitur, told, env={"UNITS_TOKEN": TOKEN})
        assert found.exit_code == 0, found.output
        return found.output

    other = destination(1)  # one service for a cluster, one map for each destination
    async with (
        paths(there, other),
        there.producer(**ROUTED) as producer,
        other.producer(**ROUTED) as another,
    ):
        await another.unit("a").send(b"1")
        await producer.unit("a").send(b"1")
        (home,) = producer.sent
        assert f"a: member {home}, " in await asyncio.to_thread(command, "show")
        moved = await asyncio.to_thread(command, "move", "--to", str(1 - home))
        assert f"unit a lives on member {1 - home}" in moved
        await producer.unit("a").send(b"2")
        assert producer.sent[1 - home] == 1


async def test_the_leader_is_found_behind_many_rows_and_whatever_the_clock_says(
    destination: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = destination()
    await prepare_paths(there.kafka, there.name)
    service, topic = PathService(there.name, there.kafka, TOKEN), paths_topic(there.name)
    with pytest.raises(MemberUnavailable, match="no path service leads"):
        await service._find()
    producer = AIOKafkaProducer(**there.kafka)
    await producer.start()
    for url in (b"http://former", b"http://leader"):
        await producer.send(topic, b'{"url":"%s","epoch":1,"lease":2}' % url, LEADER)
    for number in range(LAST + 1):
        await producer.send(topic, None, path_key(f"u{number}"))
    await producer.stop()
    later = time.time() + 36_000
    monkeypatch.setattr(time, "time", lambda: later)
    assert await service._find() == "http://leader"


async def test_a_foreign_record_that_sends_its_unit_to_no_member_does_not_stop_the_others(
    destination: Create,
) -> None:
    there = destination()
    async with there.producer() as producer:
        await producer.unit("u").send(b"1")
        foreign = AIOKafkaProducer(**there.kafka)
        await foreign.start()
        headers = [("unit", b"x"), ("unit-handover", b'["leaves",1,99,""]')]
        await foreign.send_and_wait(there.name, b"", headers=headers)
        await foreign.stop()
        await producer.unit("u").send(b"2")
    async with there.server(), there.consumer() as consumer:
        for value in (b"1", b"2"):
            delivery = await received(consumer)
            assert delivery.value == value
            await delivery.done(durable=True)
