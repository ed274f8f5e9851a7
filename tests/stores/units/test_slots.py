"""Routing by hash: 4,096 slots, which move only when they are drained."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.units.errors import RouteMoving, UnitError
from stores.units.routing import SLOTS, SlotTable, slot_of


def test_a_unit_has_the_same_slot_for_ever() -> None:
    assert [slot_of(each) for each in ("session-42", "A-17", "Ä")] == [4058, 2382, 1104]


def test_units_are_spread_over_slots_and_members() -> None:
    table = SlotTable([f"m{each}" for each in range(8)])
    members = [table.route(f"unit-{each}").member for each in range(8_000)]
    assert all(800 < members.count(each) < 1_200 for each in set(members))


def test_a_slot_moves_only_when_producers_dropped_it_and_its_old_member_is_drained() -> None:
    table = SlotTable(["a"], hold=10.0)
    moves = table.spread(["a", "b"], now=0.0)
    assert len(moves) == SLOTS // 2
    move = moves[0]
    unit = next(f"u{n}" for n in range(100_000) if str(slot_of(f"u{n}")) == move.what)
    with pytest.raises(RouteMoving, match="send again shortly"):
        table.route(unit)
    assert table.fenced(9.9) == []
    assert not table.drained(int(move.what), move.epoch, 9.9)
    assert move in table.fenced(10.0)
    assert not table.drained(int(move.what), move.epoch + 1, 10.0)
    assert table.drained(int(move.what), move.epoch, 10.0)
    assert (table.route(unit).member, table.route(unit).epoch) == ("b", 2)
    assert not table.drained(int(move.what), move.epoch, 10.0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=4))
def test_the_fewest_slots_move_and_the_shares_are_equal(steps: list[set[str]]) -> None:
    table = SlotTable(["a", "b"])
    now = 0.0
    for members in steps:
        before = table.shares()
        moves = table.spread(sorted(members), now)
        now += 10.0
        for each in table.fenced(now):
            assert table.drained(int(each.what), each.epoch, now)
        after = table.shares()
        assert set(after) == members
        assert max(after.values()) - min(after.values()) <= 1
        assert len(moves) == sum((after - before).values())


def test_a_table_that_is_stored_comes_back() -> None:
    table = SlotTable(["a"])
    table.spread(["b"], now=0.0)
    for each in table.fenced(10.0):
        table.drained(int(each.what), each.epoch, 10.0)
    new = SlotTable(["a"])
    new.restore(table.entries())
    assert (new.route("x").member, new.route("x").epoch) == ("b", 2)
    with pytest.raises(UnitError, match="slots"):
        new.restore([("a", 1)])


def test_a_destination_without_members_is_refused() -> None:
    with pytest.raises(UnitError):
        SlotTable([])
    with pytest.raises(UnitError):
        SlotTable(["a"]).spread([], 0.0)


def test_members_that_have_equal_shares_keep_their_slots() -> None:
    table = SlotTable(["a", "b", "c"])
    for _ in range(2):
        for order in (["a", "b", "c"], ["c", "b", "a"]):
            assert table.spread(order, 0.0) == []
