"""A unit is one session's at a time, in order, until the current message is complete."""

import pytest

from stores.units.errors import StaleDelivery, UnitError
from stores.units.queue import Outcome
from tests.stores.units.desk import Desk


def test_the_rest_of_a_unit_is_blocked_until_the_current_message_is_complete() -> None:
    desk = Desk()
    desk.send("a", "a", "b")
    desk.open("one", "two", "three")
    first = desk.take("one")
    assert desk.offsets("two") == [2]
    assert desk.offsets("three") == []
    desk.complete("one", first)
    assert desk.offsets("three") == [1]


def test_the_next_goes_to_another_session_only_when_the_completion_is_durable() -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.open("one", "two")
    first = desk.take("one")
    desk.queue.complete("one", [first.number], desk.now)
    assert desk.offsets("two") == []
    assert desk.queue.status("a").state == "settling"
    # The same session need not wait: it tells a new owner what it completed.
    second = desk.take("one")
    assert second.message.offset == 1
    desk.complete("one", second)
    assert desk.offsets("two") == [2]


def test_who_took_several_completes_all_before_anybody_gets_the_next() -> None:
    desk = Desk()
    desk.send("a", "a", "a", "a")
    desk.open("one", prefetch=2)
    desk.open("two")
    first, second = desk.next("one")
    desk.complete("one", first)
    assert desk.offsets("two") == []
    desk.complete("one", second)
    assert desk.offsets("two") == [2]


def test_more_of_the_unit_meanwhile_goes_only_to_that_session() -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.open("one", prefetch=2)
    desk.open("two")
    first, _ = desk.next("one")
    desk.complete("one", first)
    assert desk.offsets("two") == []
    assert desk.offsets("one") == [2]


def test_a_rollback_returns_all_from_the_first_before_their_followers() -> None:
    desk = Desk()
    desk.send("a", "a", "a", "a")
    desk.open("one", prefetch=3)
    desk.open("two", prefetch=9)
    _, second, _ = desk.next("one")
    desk.roll_back("one", second)
    deliveries = desk.next("two")
    assert [each.message.offset for each in deliveries] == [0, 1, 2, 3]
    assert [each.redeliveries for each in deliveries] == [0, 1, 0, 0]


def test_a_rollback_leaves_what_the_session_holds_of_other_units() -> None:
    desk = Desk()
    desk.send("a", "b", None)
    desk.open("one", prefetch=3)
    a, b, ungrouped = desk.next("one")
    desk.roll_back("one", a, delay=5.0)
    desk.complete("one", b, ungrouped)
    assert desk.queue.status("a").state == "delayed"


def test_a_redelivery_delay_at_the_head_blocks_what_follows_in_the_unit() -> None:
    desk = Desk(redelivery_delay=3.0)
    desk.send("a", "a", "b", None)
    desk.open("one", "two")
    desk.roll_back("one", desk.take("one"))
    assert desk.offsets("one") == [2]
    assert desk.offsets("two") == [3]
    desk.open("three")
    assert desk.offsets("three") == []
    assert desk.queue.due == desk.now + 3.0
    desk.wait(3.0)
    assert desk.offsets("three") == [0]


def test_a_deliver_not_before_at_the_head_blocks_what_follows_in_the_unit() -> None:
    desk = Desk()
    desk.send("a", not_before=desk.now + 10)
    desk.send("a", "b")
    desk.open("one", prefetch=5)
    assert desk.offsets("one") == [2]
    desk.wait(10)
    assert desk.offsets("one") == [0, 1]


def test_a_not_before_of_another_age_blocks_no_longer_than_the_longest_wait() -> None:
    desk = Desk(longest_wait=60.0)
    desk.send("a", not_before=1e300)
    desk.open("one")
    desk.wait(60.0)
    assert desk.offsets("one") == [0]


def test_an_uncommitted_send_at_the_head_blocks_what_follows_in_the_unit() -> None:
    desk = Desk()
    desk.send("a", committed=False)
    desk.send("a", "b")
    desk.send("c", committed=False)
    desk.send("c")
    desk.open("one", prefetch=9)
    assert desk.offsets("one") == [2]
    assert desk.queue.status("a").state == "uncommitted"
    desk.queue.commit_send(0, desk.now)
    desk.queue.abort_send(3, desk.now)
    assert desk.offsets("one") == [0, 1, 4]
    assert desk.queue.counts[Outcome.ABORTED] == 1


def test_a_message_expires_and_its_followers_go_on() -> None:
    desk = Desk()
    desk.send("a", expires=desk.now + 5)
    desk.send("a")
    desk.wait(5)
    assert desk.gone() == [(0, "expired")]
    desk.open("one")
    assert desk.offsets("one") == [1]


def test_what_a_session_holds_expires_only_when_it_returns() -> None:
    desk = Desk()
    desk.send("a", expires=desk.now + 5)
    desk.open("one")
    held = desk.take("one")
    desk.wait(5)
    assert desk.queue.status("a").held == (0,)
    desk.roll_back("one", held)
    assert desk.gone() == [(0, "expired")]


def test_what_expired_is_durable_before_what_follows_is_delivered() -> None:
    desk = Desk()
    desk.send("a", expires=desk.now + 5)
    desk.send("a")
    desk.open("one")
    desk.wait(5)
    assert desk.offsets("one") == []
    desk.commit()
    assert desk.offsets("one") == [1]


def test_closing_a_consumer_returns_what_it_held() -> None:
    desk = Desk(redelivery_limit=0)
    desk.send("a", "a")
    desk.open("one", prefetch=2)
    desk.next("one")
    desk.queue.close_session("one", desk.now)
    desk.open("two", prefetch=2)
    assert [each.redeliveries for each in desk.next("two")] == [0, 0]
    assert desk.queue.counts[Outcome.RETURNED] == 2


def test_closing_a_consumer_completes_what_it_held() -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.open("one", prefetch=2)
    desk.next("one")
    desk.queue.close_session("one", desk.now, complete=True)
    desk.commit()
    desk.open("two", prefetch=2)
    assert desk.offsets("two") == [2]


def test_a_session_whose_lease_is_over_returns_all_and_its_first_is_counted() -> None:
    desk = Desk()
    desk.send("a", "a")
    desk.open("one", prefetch=2)
    desk.next("one")
    desk.queue.lose_session("one", desk.now)
    desk.open("two", prefetch=2)
    assert [each.redeliveries for each in desk.next("two")] == [1, 0]


def test_a_recovered_session_gets_all_again_from_the_first() -> None:
    desk = Desk(redelivery_limit=0, redelivery_delay=9.0)
    desk.send("a", "a", None)
    desk.open("one", prefetch=3)
    desk.next("one")
    desk.queue.recover("one", desk.now)
    assert desk.offsets("one") == [0, 1, 2]
    assert desk.queue.counts[Outcome.RECOVERED] == 3


def test_acknowledged_and_committed_are_counted_apart() -> None:
    desk = Desk()
    desk.send(None, None)
    desk.open("one", prefetch=2)
    first, second = desk.next("one")
    desk.queue.complete("one", [first.number], desk.now)
    desk.queue.complete("one", [second.number], desk.now, Outcome.COMMITTED)
    assert desk.queue.counts == {Outcome.ACKNOWLEDGED: 1, Outcome.COMMITTED: 1}


@pytest.mark.parametrize("act", ["complete", "roll_back"])
def test_a_stale_number_is_refused_and_nothing_of_the_call_is_done(act: str) -> None:
    desk = Desk()
    desk.send("a", "b")
    desk.open("one", prefetch=2)
    first, second = desk.next("one")
    desk.roll_back("one", first, delay=0.0)
    with pytest.raises(StaleDelivery, match="does not hold delivery"):
        getattr(desk.queue, act)("one", [second.number, first.number], desk.now)
    assert desk.queue.status("b").held == (1,)


def test_a_session_that_was_lost_is_told_so() -> None:
    desk = Desk()
    desk.send("a")
    desk.open("one")
    held = desk.take("one")
    desk.queue.lose_session("one", desk.now)
    with pytest.raises(UnitError, match="not open"):
        desk.queue.complete("one", [held.number], desk.now)
    with pytest.raises(UnitError, match="not open"):
        desk.next("one")


def test_each_subscriber_has_its_own_order_and_does_not_block_another() -> None:
    """Each has a queue of its own over the same log."""
    slow, quick = Desk(), Desk()
    for desk in (slow, quick):
        desk.send("a", "a")
        desk.open("one")
    slow.take("one")
    quick.complete("one", quick.take("one"))
    assert quick.offsets("one") == [1]
    assert slow.offsets("one") == []


def test_ungrouped_messages_block_nobody_and_are_not_blocked() -> None:
    desk = Desk()
    desk.send(None, "a", "a", None, "b")
    desk.open("one", "two", "three", "four", "five")
    assert [desk.offsets(each) for each in ("one", "two", "three", "four", "five")] == [
        [0],
        [1],
        [3],
        [4],
        [],
    ]


def test_a_clock_that_is_set_back_stands_still() -> None:
    desk = Desk()
    desk.send("a", not_before=desk.now + 10)
    desk.wait(10)
    desk.open("one")
    assert [each.message.offset for each in desk.queue.next("one", 5.0)] == [0]


@pytest.mark.parametrize("how", ["close_session", "lose_session"])
def test_a_session_that_ends_does_not_free_its_unit_before_its_completion_is_durable(
    how: str,
) -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.open("one", prefetch=2)
    desk.open("two")
    first, _ = desk.next("one")
    desk.queue.complete("one", [first.number], desk.now)
    getattr(desk.queue, how)("one", desk.now)
    assert desk.offsets("two") == []
    desk.commit()
    assert desk.offsets("two") == [1]


def test_what_expired_behind_a_held_message_is_durable_before_what_follows_is_delivered() -> None:
    desk = Desk()
    desk.send("a")
    desk.send("a", expires=desk.now + 5)
    desk.send("a")
    desk.open("one", prefetch=2)
    first, _ = desk.next("one")
    desk.roll_back("one", first)
    desk.queue.pause("a", desk.now, by="me")
    desk.wait(5)
    desk.queue.resume("a", desk.now, by="me")
    assert desk.offsets("one") == [0]
    desk.commit()
    assert desk.offsets("one") == [2]


def test_earlier_changes_that_are_durable_do_not_free_what_later_ones_complete() -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.open("one", "two")
    desk.queue.complete("one", [desk.take("one").number], desk.now)
    earlier = desk.queue.take_changes()
    desk.queue.complete("one", [desk.take("one").number], desk.now)
    desk.queue.settled(earlier.number, desk.now)
    assert desk.offsets("two") == []
    desk.commit()
    assert desk.offsets("two") == [2]


def test_what_was_deleted_is_durable_before_what_follows_is_delivered_even_to_its_session() -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.open("one")
    desk.queue.complete("one", [desk.take("one").number], desk.now)
    desk.queue.delete([1], desk.now, by="me")
    assert desk.offsets("one") == []
    desk.commit()
    assert desk.offsets("one") == [2]
