"""A unit moves while anything happens: no duplicate, no reordering, nothing lost."""

from collections import Counter

from tests.stores.units.moving_world import MovingWorld


def test_a_unit_moves_while_messages_are_in_flight_without_duplicates_or_reordering() -> None:
    """Seeded: kills, rebalances, zombies, slow consumers, moves; the real core decides.

    A subscriber that begins when all is over finds the same order.
    """
    seen = Counter[str]()
    for seed in range(45):
        try:
            world = MovingWorld(seed)
            world.run(400)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        seen += world.seen
    for what in (
        "moved",
        "deleted meanwhile",
        "refused",
        "late answer",
        "path service died",
        "parked",
        "late, in order",
    ):
        assert seen[what] > 20, (what, seen)
