"""What becomes of dead records when a shadow takes the place of the live tables."""

from stores.sinks import DeadCount, Position
from stores.sinks.contract import ORDERS, TOPIC, order, upsert, value
from stores.sinks.contract.store import StoreUnderTest


class SwitchedDeadContract(StoreUnderTest):
    def test_what_was_dead_before_a_switch_stays_known_and_counts_no_more(self) -> None:
        bodies = [value("a", 9 + at, upsert("orders", {"id": "x"})) for at in range(6)]
        dead = [(TOPIC, 0, offset, body) for offset, body in enumerate(bodies)]
        elsewhere = "other", 0, 0, b"dead"
        with self.open([ORDERS]) as live:
            live.apply([*dead[:2], elsewhere])
            assert live.remove_dead(TOPIC) == 2
            live.apply(dead[2:5])
            with self.open([ORDERS], "next") as shadow:
                shadow.apply([(TOPIC, -1, 0, b"dead"), (TOPIC, -1, 1, b"dead")])
                shadow.seek([Position(TOPIC, 0, 4)])
                shadow.apply([*dead[4:], order(6, 1, state="x")])
            live.switch("next", [TOPIC])
            now = [
                DeadCount("other", 0, kept=1, removed=0),
                DeadCount(TOPIC, -1, kept=2, removed=0),
                DeadCount(TOPIC, 0, kept=2, removed=0),
            ]
            assert live.dead_counts() == now
            again = live.apply([*dead, order(6, 1, state="x")])
            assert (again.replayed, again.dead, again.duplicates) == (5, 1, 1)
            assert live.dead_counts() == now
            assert live.remove_dead(TOPIC) == 4
            assert [each.removed for each in live.dead_counts()] == [0, 2, 2]
        # Nor is what was taken for dead refused when all comes again, of whichever stream.
        assert self.apply(*dead, order(6, 1)).replayed == 7
