"""Routing by hash, without a store: a unit's name has one of 4,096 slots, a slot has a member."""

from hashlib import blake2b

SLOTS = 4_096


def slot_of(unit: str) -> int:
    """The slot of a unit's name: the same on every machine and for ever.

    Args:
        unit: the name.
    """
    return int.from_bytes(blake2b(unit.encode(), digest_size=2).digest(), "big") % SLOTS
