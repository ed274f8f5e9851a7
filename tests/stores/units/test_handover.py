"""A unit that goes to another member: what the queues of both do about it."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from stores.units.errors import UnitError
from stores.units.kafka.records import Headers, handover_headers
from stores.units.kafka.rows import row_json, row_value
from stores.units.queue import Handover, MovedAway, Outcome
from stores.units.server import partitions
from stores.units.server.settings import ServerSettings
from tests.stores.units.desk import Desk
from tests.stores.units.one_process import one_member

U = [("unit", b"u")]
LEAVES, ARRIVES = Handover("leaves", 3, 1), Handover("arrives", 3, 0)


def test_a_unit_leaves_when_all_before_is_complete_and_what_comes_late_is_refused() -> None:
    desk = Desk()
    desk.open("one", "two")
    desk.send("u")
    held = desk.take("one")
    desk.send("u", handover=LEAVES)
    desk.send("u")
    assert desk.gone() == [(2, "refused")]
    assert desk.offsets("two") == []
    desk.roll_back("one", held)
    assert desk.gone()[1:] == []
    desk.complete("two", desk.take("two"))
    assert desk.gone()[1:] == [(1, "handed over")]
    desk.commit()
    assert desk.queue.messages == 0


def test_what_arrives_waits_until_it_is_handed_over() -> None:
    desk = Desk()
    desk.open("one")
    desk.send("u", handover=ARRIVES)
    desk.send("u")
    status = desk.queue.status("u")
    assert (status.state, desk.offsets("one")) == ("arriving", [])
    desk.queue.handed("u", 2, 2, desk.now)  # of an earlier move
    assert desk.offsets("one") == []
    desk.queue.handed("u", 3, 3, desk.now)
    assert desk.offsets("one") == [1]


def test_what_arrives_goes_on_by_a_handover_that_lies_ahead() -> None:
    desk = Desk()
    desk.open("one")
    desk.queue.handed_ahead("u", 3, desk.now)
    assert not desk.queue.arriving
    desk.send("u", handover=ARRIVES)
    desk.send("u", "v")
    assert desk.queue.arriving
    desk.queue.handed_ahead("u", 2, desk.now)
    assert desk.offsets("one") == [2]
    desk.queue.handed_ahead("u", 3, desk.now)
    assert not desk.queue.arriving
    desk.open("two")
    desk.complete("two", desk.take("two"))
    assert desk.commit().position == 2
    desk.queue.handed("u", 3, 3, desk.now)
    assert (desk.queue.counts[Outcome.HANDED], desk.queue.read_to) == (2, 4)


@pytest.mark.parametrize("further", [0, 2])
async def test_a_member_that_a_unit_fills_hears_ahead_that_it_is_handed_over(
    further: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is paused, and would read no further. further: what lies before the unit arrives."""
    at, arrives = TopicPartition("d", 0), handover_headers("u", ARRIVES)
    handed = handover_headers("u", Handover("handed", 3, 0), "g")
    others = handover_headers("u", Handover("handed", 3, 0), "another group")
    given: list[Headers] = [[]] * further + [arrives, U, U, others, handed]
    log: list[Any] = [
        SimpleNamespace(offset=n, value=b"%d" % n, key=None, headers=tuple(each), timestamp=0)
        for n, each in enumerate(given)
    ]
    place, seeks = 0, list[int]()

    def seek(_: object, to: int) -> None:
        nonlocal place
        place = to
        seeks.append(to)

    async def getmany(*_: object, **__: object) -> dict[Any, list[Any]]:
        nonlocal place
        found, place = log[place:], len(log)
        return {at: found}

    async def position(_: object) -> int:
        return place

    kafka = AsyncMock(getmany=getmany, position=position, assign=Mock(), seek=seek)
    kafka.end_offsets.return_value = {at: len(log)}
    monkeypatch.setattr(partitions, "AIOKafkaConsumer", lambda **_: kafka)
    monkeypatch.setattr(partitions, "reader", lambda _: kafka)
    monkeypatch.setattr(partitions, "AHEAD", 0.01)
    async with one_member(monkeypatch, messages=2) as member:
        owner = member.owner
        owned = partitions.OwnedPartitions(owner.settings, 1, {}, "http://h", {0: owner})
        _, arrivals = member.link()
        if further:  # it has looked before the unit arrived
            owner.arrive(log[:2], 2)
            await owned._read_ahead(owner)
            for _ in range(2):
                await (await arrivals.next()).done(durable=True)
        owner.arrive(log[further : further + 2], further + 2)
        assert (owner.full, owner.queue.arriving) == (True, True)
        looking = asyncio.create_task(owned._look_ahead())
        first = await arrivals.next()
        assert (first.value, seeks) == (b"%d" % (further + 1), [2])
        looking.cancel()
        await first.done(durable=True)
        assert not owner.full
        owner.arrive(log[further + 2 :], len(log))
        second = await arrivals.next()
        await second.done(durable=True)
        assert (second.value, owner.queue.messages) == (b"%d" % (further + 2), 0)


async def test_what_was_read_ahead_counts_though_the_rest_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at, arrives = TopicPartition("d", 0), handover_headers("u", ARRIVES)
    handed = handover_headers("u", Handover("handed", 3, 0), "g")
    log: list[Any] = [
        SimpleNamespace(offset=n, value=b"%d" % n, key=None, headers=tuple(each), timestamp=0)
        for n, each in enumerate([arrives, U, U, handed, U])
    ]
    left = [log[2:4]]

    async def getmany(*_: object, **__: object) -> dict[Any, list[Any]]:
        if not left:
            raise KafkaConnectionError
        return {at: left.pop()}

    kafka = AsyncMock(getmany=getmany, assign=Mock(), seek=Mock())
    kafka.position.return_value = 2
    kafka.end_offsets.return_value = {at: len(log)}
    monkeypatch.setattr(partitions, "AIOKafkaConsumer", lambda **_: kafka)
    monkeypatch.setattr(partitions, "reader", lambda _: kafka)
    async with one_member(monkeypatch, messages=1) as member:
        owner = member.owner
        owned = partitions.OwnedPartitions(owner.settings, 1, {}, "http://h", {0: owner})
        _, arrivals = member.link()
        owner.arrive(log[:2], 2)
        assert (owner.full, owner.queue.arriving) == (True, True)
        with pytest.raises(KafkaConnectionError):
            await owned._read_ahead(owner)
        first = await arrivals.next()
        assert (first.value, owner.looked) == (b"1", 4)
        await first.done(durable=True)


def test_a_poisoned_unit_leaves_with_its_dead_letters() -> None:
    desk = Desk(redelivery_limit=0, poisoned="dead_letter")
    desk.open("one")
    desk.send("u", "u")
    desk.send("u", handover=LEAVES)
    desk.fail("one", 1)
    assert desk.gone() == [(0, "dead"), (1, "dead"), (2, "handed over")]


def test_a_parked_unit_leaves_when_it_is_redriven() -> None:
    desk = Desk(redelivery_limit=0)
    desk.open("one")
    desk.send("u")
    desk.send("u", handover=LEAVES)
    desk.fail("one", 1)
    desk.commit()
    assert desk.gone() == []
    stored = {key: row for changes in desk.changes for key, row in changes.rows.items() if row}
    assert stored["moved", "u"] == MovedAway(1, 3, 1)
    for key, row in stored.items():  # as they come out of Kafka
        again = row_value(key, orjson.loads(orjson.dumps(row_json(row))))
        assert again is not None
        assert again[0] == key
        assert again[1] == row or key[0] == "message"
    desk.queue.redrive("u", desk.now, by="me")
    desk.complete("one", desk.take("one"))
    assert desk.gone() == [(1, "handed over")]


def test_its_records_are_no_messages_that_administration_takes_away() -> None:
    desk = Desk()
    desk.send("u", "u")
    desk.send("u", handover=LEAVES)
    for take in (desk.queue.delete, lambda *a, **k: desk.queue.move(a[0], "x", a[1], **k)):
        with pytest.raises(UnitError, match="leave it out"):
            take([1, 2], desk.now, by="me")
    assert desk.queue.delete([0, 1], desk.now, by="me").offsets == (0, 1)
    desk.commit()
    assert desk.gone() == [(2, "handed over")]
    other = Desk()
    other.open("one")
    other.send("u", handover=ARRIVES)
    other.send("u")
    assert other.queue.delete([0], other.now, by="me").breaks_order
    other.commit()
    assert other.offsets("one") == [1]
    assert other.queue.counts[Outcome.DELETED] == 1


def test_what_is_known_of_units_that_left_goes_with_the_log() -> None:
    desk = Desk(redelivery_limit=0)
    desk.open("one")
    for each in range(100):
        desk.send(f"u{each}", handover=LEAVES)
    desk.send("parked")
    desk.send("parked", handover=LEAVES)
    desk.fail("one", 1)
    desk.commit()
    assert desk.queue.moved == 101
    desk.queue.log_begins(60)
    assert desk.queue.moved == 41
    desk.queue.log_begins(200)
    assert desk.queue.moved == 1, "it has not left yet: it waits for a redrive"
    rows = desk.queue.take_changes().rows
    assert [rows["moved", f"u{each}"] for each in range(100)] == [None] * 100


async def test_a_server_looks_now_and_then_at_what_retention_has_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk, ticks = Desk(), asyncio.Event()
    desk.send("u", handover=LEAVES)
    desk.commit()

    async def begins(places: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, 1)

    monkeypatch.setattr(partitions, "RETENTION", 0.01)
    settings = ServerSettings("d", "g", {}, "a-token-of-16-characters")
    owner: Any = SimpleNamespace(queue=desk.queue, tick=ticks.set)
    owned = partitions.OwnedPartitions(settings, 1, {}, "http://h", {0: owner})
    consumer, owned._consumer = owned._consumer, SimpleNamespace(beginning_offsets=begins)
    looking = asyncio.create_task(owned._forget_moved())
    async with asyncio.timeout(60):
        await ticks.wait()
    looking.cancel()
    await consumer.stop()
    assert desk.queue.moved == 0
