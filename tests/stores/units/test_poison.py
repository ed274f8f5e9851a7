"""A unit whose head fails to its limit: parked and redriven, or dead-lettered; others go on."""

import pytest

from stores.units.queue import Outcome
from tests.stores.units.desk import Desk


def test_a_unit_is_parked_with_its_followers_and_others_do_not_notice() -> None:
    desk = Desk(redelivery_limit=2)
    desk.send("bad", "bad", "good")
    desk.open("one")
    desk.fail("one", times=3)
    assert desk.queue.status("bad").state == "parked"
    desk.send("bad", "good", None)
    desk.open("two", prefetch=9)
    assert desk.offsets("two") == [2, 4, 5]
    assert desk.queue.counts[Outcome.PARKED] == 1


def test_a_message_is_redelivered_as_often_as_the_limit_says() -> None:
    desk = Desk(redelivery_limit=2)
    desk.send("bad")
    desk.open("one")
    desk.fail("one", times=2)
    last = desk.take("one")
    assert last.redeliveries == 2
    desk.roll_back("one", last)
    assert desk.offsets("one") == []


def test_without_a_limit_nothing_is_poisoned() -> None:
    desk = Desk(redelivery_limit=None)
    desk.send("bad")
    desk.open("one")
    desk.fail("one", times=50)
    assert desk.queue.status("bad").state == "ready"


def test_a_parked_unit_does_not_hold_the_position() -> None:
    desk = Desk(redelivery_limit=0)
    desk.send("bad", "bad", "good")
    desk.open("one")
    desk.fail("one", times=1)
    desk.complete("one", desk.take("one"))
    desk.send("bad")
    changes = desk.commit()
    assert changes.position == 4
    rows = [key for each in desk.changes for key in each.rows if key[0] == "message"]
    assert rows == [("message", 0), ("message", 1), ("message", 3)]


def test_a_parked_unit_is_redriven_in_order_and_begins_anew() -> None:
    desk = Desk(redelivery_limit=0)
    desk.send("bad", "bad")
    desk.open("one")
    desk.fail("one", times=1)
    desk.send("bad")
    assert desk.queue.redrive("bad", desk.now, by="me") == 3
    desk.open("two", prefetch=3)
    deliveries = desk.next("two")
    assert [(each.message.offset, each.redeliveries) for each in deliveries] == [
        (0, 0),
        (1, 0),
        (2, 0),
    ]
    desk.complete("two", *deliveries)
    assert {key: row for each in desk.changes for key, row in each.rows.items()}["message", 0] is (
        None
    )


def test_a_unit_is_dead_lettered_whole_and_in_order() -> None:
    desk = Desk(redelivery_limit=1, poisoned="dead_letter")
    desk.send("bad", "good", "bad", "bad")
    desk.open("one")
    desk.fail("one", times=2)
    assert desk.gone() == [(0, "dead"), (2, "dead"), (3, "dead")]
    assert desk.offsets("one") == [1]


def test_what_follows_soon_into_a_dead_unit_shares_its_fate_and_later_it_begins_anew() -> None:
    desk = Desk(redelivery_limit=0, poisoned="dead_letter", dead_for=60.0)
    desk.send("bad")
    desk.open("one")
    desk.fail("one", times=1)
    desk.send("bad")
    assert desk.offsets("one") == []
    assert desk.gone() == [(0, "dead"), (1, "dead")]
    assert desk.queue.status("bad").until == desk.now + 60.0
    desk.now += 60.0  # nobody looked at the clock meanwhile
    desk.send("bad")
    assert desk.offsets("one") == [2]


@pytest.mark.parametrize("first", ["paused", "dead"])
def test_a_dead_unit_that_was_paused_stays_so_until_it_is_resumed(first: str) -> None:
    desk = Desk(redelivery_limit=0, poisoned="dead_letter", dead_for=60.0)
    desk.send("bad")
    desk.open("one")
    held = desk.take("one")
    if first == "paused":
        desk.queue.pause("bad", desk.now, by="me")
    desk.roll_back("one", held)
    if first == "dead":
        desk.queue.pause("bad", desk.now, by="me")
    assert desk.gone() == [(0, "dead")]
    desk.wait(61.0)
    desk.send("bad")
    assert desk.offsets("one") == []
    assert desk.queue.status("bad").state == "paused"
    desk.queue.resume("bad", desk.now, by="me")
    assert desk.offsets("one") == [1]


def test_an_ungrouped_message_is_dead_lettered_alone() -> None:
    desk = Desk(redelivery_limit=0, poisoned="dead_letter")
    desk.send(None, None)
    desk.open("one")
    desk.fail("one", times=1)
    assert desk.gone() == [(0, "dead")]
    assert desk.offsets("one") == [1]


def test_parked_messages_are_limited_and_a_unit_beyond_it_is_dead_lettered() -> None:
    desk = Desk(redelivery_limit=0, parked_messages=3)
    desk.send("bad", "bad", "worse", "worse")
    desk.open("one")
    desk.fail("one", times=1)
    desk.fail("one", times=1)
    assert desk.queue.status("bad").state == "parked"
    assert desk.gone() == [(2, "dead"), (3, "dead")]
    desk.send("bad", "bad")
    assert desk.gone()[2:] == [(0, "dead"), (1, "dead"), (4, "dead"), (5, "dead")]


@pytest.mark.parametrize("poisoned", ["park", "dead_letter"])
def test_a_poisoned_unit_of_a_thousand_leaves_the_others_whole(poisoned: str) -> None:
    desk = Desk(redelivery_limit=3, poisoned=poisoned)
    names = [f"u{each}" for each in range(1_000)]
    desk.send(*names, *names)
    desk.open("one")
    order: list[int] = []
    while deliveries := desk.next("one"):
        (delivery,) = deliveries
        if delivery.message.unit == "u7":
            desk.roll_back("one", delivery)
        else:
            order.append(delivery.message.offset)
            desk.complete("one", delivery)
    assert order == [each for each in range(2_000) if each % 1_000 != 7]


def test_what_is_parked_never_fills_the_memory_of_its_owner() -> None:
    desk = Desk(redelivery_limit=0, parked_size=20)
    desk.send("a", "a", "b", "c")
    desk.open("one")
    desk.fail("one", times=2)
    assert [desk.queue.status(unit).state for unit in "ab"] == ["parked", "dead"]
    assert desk.gone() == [(2, "dead")]
    desk.queue.redrive("a", desk.now, "me")
    desk.complete("one", desk.take("one"))
    desk.fail("one", times=1)
    assert desk.queue.status("a").state == "parked"


def test_a_poisoned_unit_of_a_thousand_costs_a_delivery_and_a_row_each_time_it_comes_again() -> (
    None
):
    def work(*units: str) -> tuple[list[str], int, int, int]:
        desk = Desk(redelivery_limit=None, redelivery_delay=0.05)
        desk.open("one")
        desk.send(*units, *[f"u{n % 1_000}" for n in range(6_000)])
        others, failed, rows, ranges = list[str](), 0, 0, 0
        while len(others) < 6_000:
            desk.wait(1 / 1_500)  # so many messages a second
            delivery = desk.take("one")
            if delivery.message.unit == "bad":
                failed += 1
                desk.queue.roll_back("one", [delivery.number], desk.now)
            else:
                others.append(str(delivery.message.unit))
                desk.queue.complete("one", [delivery.number], desk.now)
            if len(others) % 50 == 0:
                changes = desk.commit()
                rows, ranges = rows + len(changes.rows), max(ranges, len(changes.done))
        return others, failed, rows, ranges

    alone, _, none, _ = work()
    others, failed, rows, ranges = work("bad", "bad")
    assert others == alone, "nobody waits for it, and nobody overtakes another for its sake"
    assert failed / len(others) < 0.02
    assert (none, rows <= failed, ranges) == (0, True, 1)
