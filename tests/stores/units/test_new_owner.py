"""A member's new owner goes on where the former left off, and hands out nothing that is held."""

import pytest

from stores.units.errors import UnitError, UnitHeld
from stores.units.queue import Delivery, QueueSettings, RowKey, RowValue, UnitMessage, UnitQueue
from tests.stores.units.desk import Desk


def succeed(desk: Desk, *former: str, **settings: object) -> Desk:
    """The owner after `desk`, from what that one made durable, with the log read again."""
    rows: dict[RowKey, RowValue] = {}
    for each in desk.changes:
        for key, value in each.rows.items():
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = value
    new = Desk()
    new.queue = UnitQueue(QueueSettings(**settings))  # type: ignore[arg-type]
    last = desk.changes[-1]
    new.queue.restore(rows, last.position, last.done, desk.now, former)
    return new


def log(*units: str | None) -> list[UnitMessage]:
    return [UnitMessage(offset, unit, size=10) for offset, unit in enumerate(units)]


def read(desk: Desk, messages: list[UnitMessage]) -> None:
    for message in messages:
        if message.offset >= desk.queue.read_to:
            desk.queue.arrive(message, desk.now)


def held(deliveries: list[Delivery]) -> list[int]:
    return [each.message.offset for each in deliveries]


def test_the_position_is_the_oldest_message_that_is_not_complete() -> None:
    desk = Desk()
    desk.send("a", "b", "c", "d")
    desk.open("one", prefetch=4)
    a, b, c, d = desk.next("one")
    desk.complete("one", b, d)
    assert (desk.changes[-1].position, list(desk.changes[-1].done)) == (0, [(1, 2), (3, 4)])
    desk.complete("one", a)
    assert (desk.changes[-1].position, list(desk.changes[-1].done)) == (2, [(3, 4)])
    desk.complete("one", c)
    assert (desk.changes[-1].position, list(desk.changes[-1].done)) == (4, [])


def test_offsets_that_are_no_messages_leave_no_holes() -> None:
    """Markers of transactions and compaction: never offset + 1."""
    desk = Desk()
    for offset in (0, 3, 5, 9):
        desk.queue.arrive(UnitMessage(offset, None), desk.now)
    desk.open("one", prefetch=4)
    first, *rest = desk.next("one")
    desk.complete("one", *rest)
    assert (desk.changes[-1].position, list(desk.changes[-1].done)) == (0, [(1, 10)])
    desk.queue.nothing_below(12)
    assert list(desk.commit().done) == [(1, 12)]
    desk.complete("one", first)
    assert (desk.changes[-1].position, list(desk.changes[-1].done)) == (12, [])


def test_what_is_complete_ahead_of_the_position_is_not_delivered_again() -> None:
    desk = Desk()
    desk.send("a", "b", None)
    desk.open("one", prefetch=3)
    _, b, ungrouped = desk.next("one")
    desk.complete("one", b, ungrouped)
    new = succeed(desk)
    read(new, log("a", "b", None, "b"))
    new.open("two", prefetch=9)
    assert new.offsets("two") == [0, 3]


def test_redeliveries_parked_units_pauses_and_records_outlive_their_owner() -> None:
    desk = Desk(redelivery_limit=1)
    desk.send("bad", "bad", "weak", "still", "good")
    desk.open("one")
    desk.fail("one", times=2)
    desk.fail("one", times=1)
    desk.queue.pause("still", desk.now, by="me")
    desk.commit()
    new = succeed(desk, redelivery_limit=1)
    assert new.queue.read_to == 2
    read(new, log("bad", "bad", "weak", "still", "good", "bad"))
    new.open("two", prefetch=9)
    assert [(d.message.offset, d.redeliveries) for d in new.next("two")] == [(2, 1), (4, 0)]
    assert new.queue.status("bad").state == "parked"
    assert [each.action for each in new.queue.records()] == ["pause"]
    new.queue.redrive("bad", new.now, by="me")
    new.queue.resume("still", new.now, by="me")
    assert new.offsets("two") == [0, 1, 3, 5]


def test_a_paused_member_stays_paused_and_a_dead_unit_dead() -> None:
    desk = Desk(redelivery_limit=0, poisoned="dead_letter", dead_for=60.0)
    desk.send("bad")
    desk.open("one")
    desk.fail("one", times=1)
    desk.queue.pause(None, desk.now, by="me")
    desk.commit()
    new = succeed(desk)
    read(new, log("bad", "bad", "good"))
    new.open("two")
    assert new.offsets("two") == []
    assert new.gone() == [(1, "dead")]
    new.queue.resume(None, new.now, by="me")
    assert new.offsets("two") == [2]


def test_nothing_is_handed_out_until_each_former_session_has_told_or_its_lease_is_over() -> None:
    desk = Desk()
    desk.send("a", "a", "b")
    desk.open("one", "two")
    desk.next("one")
    desk.commit()
    new = succeed(desk, "one", "two")
    read(new, log("a", "a", "b"))
    new.open("three", "one")
    assert new.offsets("three") == []
    assert new.queue.status("b").state == "rejoining"
    assert held(new.queue.rejoin("one", [0], [], new.now)) == [0]
    assert new.offsets("three") == []
    new.queue.release_former("two")
    assert new.offsets("three") == [2]
    assert new.queue.status("a").session == "one"


def test_while_a_former_session_may_hold_it_nothing_is_moved_or_expires() -> None:
    desk = Desk()
    desk.send("a")
    desk.commit()
    new = succeed(desk, "one")
    new.queue.arrive(UnitMessage(0, "a", expires=new.now + 1), new.now)
    new.wait(5)
    with pytest.raises(UnitHeld, match="former owner"):
        new.queue.delete([0], new.now, by="me")
    new.open("one")
    assert held(new.queue.rejoin("one", [0], [], new.now)) == [0]
    assert new.gone() == []


def test_a_dead_unit_begins_anew_after_its_time_whoever_may_hold_something() -> None:
    desk = Desk(redelivery_limit=0, poisoned="dead_letter", dead_for=60)
    desk.send("bad")
    desk.open("one")
    desk.fail("one", times=1)
    desk.commit()
    desk.now += 120
    for former in ((), ("one",)):
        new = succeed(desk, *former, poisoned="dead_letter", dead_for=60)
        new.queue.arrive(UnitMessage(1, "bad"), new.now)
        for name in former:
            new.queue.release_former(name)
        new.queue.open_session("two")
        assert new.offsets("two") == [1]
        assert not new.queue.take_changes().departures


def test_a_session_tells_what_it_completed_and_it_is_not_delivered_again() -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.commit()
    new = succeed(desk, "one")
    read(new, log("a", "a", "a"))
    new.open("one", prefetch=2)
    (going_on,) = new.queue.rejoin("one", [1], [0], new.now)
    new.complete("one", going_on)
    assert new.commit().position == 2
    assert new.offsets("one") == [2]


def test_what_was_complete_already_or_is_not_first_of_its_unit_is_dropped() -> None:
    desk = Desk()
    desk.send("a", "a", "b")
    desk.open("one", prefetch=3)
    deliveries = desk.next("one")
    desk.complete("one", deliveries[2])
    new = succeed(desk, "one")
    read(new, log("a", "a", "b"))
    new.open("one", prefetch=3)
    assert new.queue.rejoin("one", [1, 2], [], new.now) == []


def test_a_session_that_knows_more_than_was_read_rejoins_later() -> None:
    desk = Desk()
    desk.send("a")
    desk.commit()
    new = succeed(desk, "one")
    new.open("one")
    with pytest.raises(UnitError, match="read on"):
        new.queue.rejoin("one", [0], [], new.now)
    read(new, log("a"))
    assert held(new.queue.rejoin("one", [0], [], new.now)) == [0]


def test_only_an_empty_queue_is_restored() -> None:
    desk = Desk()
    desk.send("a")
    changes = desk.commit()
    with pytest.raises(UnitError, match="make a new one"):
        desk.queue.restore({}, 0, changes.done, desk.now)
