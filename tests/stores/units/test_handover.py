"""A unit that goes to another member: what the queues of both do about it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from stores.units.errors import UnitError
from stores.units.kafka.rows import row_json, row_value
from stores.units.queue import Handover, MovedAway, Outcome
from stores.units.server import partitions
from stores.units.server.settings import ServerSettings
from tests.stores.units.desk import Desk

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
