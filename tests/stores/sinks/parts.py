"""What a batch comes to that is folded part by part, whichever store takes it so."""

from typing import Any

from stores.sinks import Batch, OutputRecord, Position, Sink
from stores.sinks.contract import ORDERS, TOPIC, delete, upsert, value
from stores.sinks.contract.store import StoreUnderTest


class PartsContract(StoreUnderTest):
    """The sinks that are opened say in `reasons` why batches were not folded part by part."""

    def test_plain_batches_are_folded_by_parts_and_what_comes_again_is_fenced(self) -> None:
        buried: list[Any] = []
        with self.open([ORDERS]) as sink:
            done = sink.apply(batch(0), Batch("q", 0), buried.extend)
            assert (done.records, done.applied, done.dead) == (5, 4, 1)
            assert (done.upserts, done.deletes) == (4, 1)
            assert [dead.offset for dead in buried] == [3]
            later = [(topic, at, offset + (4, 1)[at], body) for topic, at, offset, body in batch(0)]
            again = sink.apply(later, Batch("q", 1))  # by other offsets, so fenced by stream
            assert (again.applied, again.duplicates, again.dead, again.upserts) == (0, 4, 1, 0)
            assert reasons(sink) == ()
            assert sink.apply(batch(0), Batch("q", 0)).replayed == 5
            assert sink.last_batch("q") == 1
            assert sink.progress() == [
                Position(TOPIC, 0, 8, applied=3, duplicates=3, dead=2),
                Position(TOPIC, 1, 2, applied=1, duplicates=1),
            ]
            assert sink.apply(batch(2)).applied == 4
            assert [dead.offset for dead in sink.last_dead(9)] == [11, 7, 3]
        assert self.rows("orders") == {(2,): {"state": "2"}, (3,): {"state": "2"}, (4,): {}}

    def test_a_row_that_two_parts_write_is_as_the_last_one_left_it(self) -> None:
        one = upsert("orders", {"id": 1}, state="one")
        other = upsert("orders", {"id": 1}, total=2.0)
        gone = delete("orders", {"id": 1})
        with self.open([ORDERS]) as sink:
            for at, (first, second, row) in enumerate(
                (
                    (one, other, [{"id": 1, "state": "one", "total": 2.0}]),
                    (gone, other, [{"id": 1, "total": 2.0}]),
                    (one, gone, []),
                )
            ):
                bodies = value("a", at, first), value("b", at, second)
                sink.apply([(TOPIC, part, at, body) for part, body in enumerate(bodies)])
                assert list(sink.rows("orders")) == row
            assert reasons(sink) == ()


def reasons(sink: Sink) -> tuple[str, ...]:
    """Why batches of a sink were not folded part by part."""
    found: tuple[str, ...] = getattr(sink, "reasons")  # noqa: B009
    return found


def batch(number: int) -> list[OutputRecord]:
    """An upsert, a delete of its row, two streams, two partitions, a record that is dead."""
    state = f"{number}"
    changes = [
        [upsert("orders", {"id": 1}, state=state), upsert("orders", {"id": 2}, state=state)],
        [delete("orders", {"id": 1}), upsert("orders", {"id": 4})],
    ]
    bodies = [value("a", 2 * number + at, *each) for at, each in enumerate(changes)]
    records = [*bodies, value("b", number, upsert("orders", {"id": 3}, state=state)), b"dead"]
    more = value("c", number, upsert("orders", {"id": 3}, state=state))
    return [
        (TOPIC, 1, number, more),
        *((TOPIC, 0, 4 * number + at, body) for at, body in enumerate(records)),
    ]
