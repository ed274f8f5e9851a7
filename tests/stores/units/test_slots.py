"""Routing by hash: 4,096 slots, each of which has one member for ever."""

from collections import Counter

from stores.units.kafka.topics import member_of
from stores.units.routing import SLOTS, slot_of


def test_a_unit_has_the_same_slot_for_ever() -> None:
    assert [slot_of(each) for each in ("session-42", "A-17", "Ä")] == [4058, 2382, 1104]
    assert max(slot_of(f"unit-{each}") for each in range(50_000)) == SLOTS - 1


def test_units_are_spread_over_slots_and_members() -> None:
    members = Counter(member_of(f"unit-{each}", 8) for each in range(8_000))
    assert set(members) == set(range(8))
    assert all(800 < units < 1_200 for units in members.values())
