"""What `sequitur rebuild` finds of shadow tables that differ: the same in every read store."""

from sequitur.rebuild.compare import compare
from stores.sinks.contract.store import StoreUnderTest
from stores.sinks.contract.values import EDGES, TYPED, edge_rows, record_of, sets


class ComparedContract(StoreUnderTest):
    def test_rows_of_every_type_are_compared(self) -> None:
        rows = edge_rows()
        records = [record_of(at, each) for at, each in enumerate(sets(rows))]
        with self.open([TYPED]) as live, self.open([TYPED], "next") as shadow:
            live.apply(records)
            shadow.apply(records)
            assert compare(live, shadow, "typed", ["id"]).same
            other = sets([{**rows[0], "at": EDGES["at"][1], "doc": {"b": 1}}])
            shadow.apply([record_of(len(records), *other)])
            found = compare(live, shadow, "typed", ["id"])
            assert (found.differing, found.same) == (1, False)
