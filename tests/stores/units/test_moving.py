"""A unit moves while anything happens: no duplicate, no reordering, nothing lost."""

from collections import Counter

from tests.stores.units.moving_world import MovingWorld


def test_a_unit_moves_while_messages_are_in_flight_without_duplicates_or_reordering() -> None:
    """Seeded: kills, rebalances, zombies, slow consumers, moves; the real core decides."""
    seen = Counter[str]()
    for seed in range(60):
        try:
            world = MovingWorld(seed)
            world.run(400)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        seen += world.seen
    for what in ("moved", "deleted", "refused", "late answer", "path service died", "parked"):
        assert seen[what] > 20, (what, seen)
