"""Who holds it, since when, what waits, what helps; moving, deleting, pausing, with a record."""

import pytest

from stores.units.errors import UnitError, UnitHeld
from tests.stores.units.desk import Desk


def test_a_units_status_says_who_holds_it_since_when_what_waits_and_what_helps() -> None:
    desk = Desk()
    desk.send("a", "a", "a")
    desk.wait(5)
    desk.open("one", prefetch=2)
    desk.next("one")
    status = desk.queue.status("a")
    assert (status.state, status.session, status.since) == ("held", "one", 1_005.0)
    assert (status.held, status.waiting, status.head) == ((0, 1), 1, 2)
    assert status.helps == "unit a: session one completes what it holds, or is closed."


def test_a_parked_units_status_says_why_and_what_helps() -> None:
    desk = Desk(redelivery_limit=0)
    desk.send("a")
    desk.open("one")
    held = desk.take("one")
    desk.queue.roll_back("one", [held.number], desk.now, reason="no such order")
    status = desk.queue.status("a")
    assert (status.state, status.reason, status.redeliveries) == ("parked", "no such order", 1)
    assert "redrive" in status.helps


def test_a_unit_without_messages_is_empty() -> None:
    assert Desk().queue.status("a").state == "empty"


def test_a_paused_unit_gets_nothing_new_and_goes_on_when_it_is_resumed() -> None:
    desk = Desk()
    desk.send("a", "a", "b")
    desk.open("one", prefetch=9)
    desk.queue.pause("a", desk.now, by="me", reason="a look")
    assert desk.offsets("one") == [2]
    assert desk.queue.status("a").reason == "a look"
    desk.queue.resume("a", desk.now, by="me")
    assert desk.offsets("one") == [0, 1]


def test_a_unit_can_be_paused_before_it_has_messages() -> None:
    desk = Desk()
    desk.queue.pause("a", desk.now, by="me")
    desk.send("a")
    desk.open("one")
    assert desk.offsets("one") == []


def test_a_unit_that_is_paused_in_somebodys_hands_is_said_to_be() -> None:
    desk = Desk()
    desk.send("a")
    desk.open("one")
    desk.take("one")
    assert not desk.queue.status("a").marked
    desk.queue.pause("a", desk.now, by="me")
    assert (desk.queue.status("a").state, desk.queue.status("a").marked) == ("held", True)


def test_what_has_no_messages_is_empty_on_a_paused_member() -> None:
    desk = Desk()
    desk.send("a")
    desk.queue.pause(None, desk.now, by="me")
    assert [desk.queue.status(name).state for name in ("a", "b")] == ["paused", "empty"]


def test_a_paused_member_delivers_nothing_new_but_takes_completions() -> None:
    desk = Desk()
    desk.send("a", "b")
    desk.open("one")
    held = desk.take("one")
    desk.queue.pause(None, desk.now, by="me")
    desk.complete("one", held)
    assert desk.offsets("one") == []
    assert desk.queue.status("b").state == "paused"
    desk.queue.resume(None, desk.now, by="me")
    assert desk.offsets("one") == [1]


@pytest.mark.parametrize("action", ["move", "delete"])
def test_taking_a_message_out_of_a_unit_says_that_it_breaks_its_order_and_records_it(
    action: str,
) -> None:
    desk = Desk()
    desk.send("a", "a", "b", None)
    to = ("elsewhere",) if action == "move" else ()
    found = getattr(desk.queue, action)([0], *to, desk.now, by="me", reason="wrong shop")
    assert (found.action, found.unit, found.offsets) == (action, "a", (0,))
    assert (found.by, found.reason, found.breaks_order) == ("me", "wrong shop", True)
    whole = getattr(desk.queue, action)([1, 3], *to, desk.now, by="me")
    assert not whole.breaks_order
    assert desk.queue.records() == [found, whole]
    rows = desk.commit().rows
    assert rows["record", 1] == found
    desk.open("one", prefetch=9)
    assert desk.offsets("one") == [2]
    sent = [(d.message.offset, d.to) for each in desk.changes for d in each.departures]
    assert sent == ([(0, "elsewhere"), (1, "elsewhere"), (3, "elsewhere")] if to else [])


def test_what_a_session_holds_is_neither_moved_nor_deleted_nor_parked() -> None:
    desk = Desk()
    desk.send("a", "a")
    desk.open("one")
    desk.next("one")
    with pytest.raises(UnitHeld, match="session one holds"):
        desk.queue.delete([0], desk.now, by="me")
    with pytest.raises(UnitHeld):
        desk.queue.move([1], "elsewhere", desk.now, by="me")
    with pytest.raises(UnitHeld):
        desk.queue.park("a", desk.now, by="me")
    assert desk.queue.records() == []


def test_a_message_that_is_not_here_or_not_committed_is_refused() -> None:
    desk = Desk()
    desk.send("a", committed=False)
    with pytest.raises(UnitError, match="offset 7: no such message"):
        desk.queue.delete([7], desk.now, by="me")
    with pytest.raises(UnitError, match="not committed"):
        desk.queue.delete([0], desk.now, by="me")
    with pytest.raises(UnitError, match="no offset"):
        desk.queue.delete([], desk.now, by="me")


def test_a_unit_can_be_parked_by_hand_and_redriven() -> None:
    desk = Desk()
    desk.send("a")
    desk.open("one")
    desk.queue.park("a", desk.now, by="me", reason="a look")
    assert desk.offsets("one") == []
    desk.queue.redrive("a", desk.now, by="me")
    assert desk.offsets("one") == [0]
    assert [each.action for each in desk.queue.records()] == ["park", "redrive"]
    with pytest.raises(UnitError, match="neither parked nor dead"):
        desk.queue.redrive("a", desk.now, by="me")
    with pytest.raises(UnitError, match="no messages here"):
        desk.queue.park("nobody", desk.now, by="me")


def test_records_are_limited_and_the_oldest_go() -> None:
    desk = Desk(records=3)
    for _ in range(5):
        desk.queue.pause(None, desk.now, by="me")
    assert [each.number for each in desk.queue.records()] == [3, 4, 5]
    rows = desk.commit().rows
    assert [key[1] for key, row in rows.items() if key[0] == "record" and row] == [3, 4, 5]


def test_a_name_from_outside_is_shown_without_what_a_terminal_obeys() -> None:
    desk = Desk()
    desk.send("a\x1b[2J")
    assert "\x1b" not in desk.queue.status("a\x1b[2J").helps
    with pytest.raises(UnitError) as caught:
        desk.queue.redrive("a\x1b[2J", desk.now, by="me")
    assert "\x1b" not in str(caught.value)
