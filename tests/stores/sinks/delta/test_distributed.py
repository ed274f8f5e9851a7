"""Batches of a Delta Lake read store that Spark's tasks fold keep its promises."""

from operator import itemgetter
from typing import Any

import pytest

from stores.sinks import Batch, Position
from stores.sinks.contract import ORDERS, TOPIC, order, upsert, value
from stores.sinks.contract.store import Crash, crashing
from stores.sinks.distributed import NotDistributed, TasksFailed
from tests.stores.sinks.delta.distributed import DistributedDeltaStore, framed
from tests.stores.sinks.parts import PartsContract, batch

pytestmark = pytest.mark.integration


class CutOffStore(DistributedDeltaStore):
    def apply_after_a_cut(self, step: str) -> None:
        """A batch that is cut off there is applied once, whatever it comes in."""
        # Before a step is behind the one before it; what is cut off may be so again.
        twice = [("before", [0, 5])] if step == self.steps[-1] else []
        cuts = [*twice, ("after", [0, 5]), ("", [0, 2]), ("", [2, 5])]
        records = sorted(batch(0), key=itemgetter(1, 2))
        with self.open([ORDERS]) as sink:
            sink.apply([(TOPIC, 2, 0, value("z", 1, upsert("orders", {"id": 9}, state="there")))])
        for when, (first, end) in cuts:
            with self.open([ORDERS]) as sink:
                if when:
                    setattr(sink, step, crashing(getattr(sink, step), when))
                    with pytest.raises(Crash):
                        sink.apply(records[first:end], Batch("q", 0))
                else:
                    sink.apply(records[first:end])
        with self.open([ORDERS]) as sink:
            assert sink.progress() == [
                Position(TOPIC, 0, 4, applied=3, dead=1),
                Position(TOPIC, 1, 1, applied=1),
                Position(TOPIC, 2, 1, applied=1),
            ]
            assert [dead.offset for dead in sink.last_dead(9)] == [3]
            assert sink.apply(batch(1)).applied == 4
            assert sink.reasons == ()
        assert self.rows("orders") == {
            (2,): {"state": "1"},
            (3,): {"state": "1"},
            (4,): {},
            (9,): {"state": "there"},
        }


class TestDistributedDeltaSink(CutOffStore, PartsContract):
    def test_what_is_not_plain_is_left_to_the_driver(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 1, new="column")])
            sink.apply([order(1, 2), (TOPIC, 1, 0, value("a", 3))])
            assert sink.reasons == (
                "it needs new tables or columns",
                "stream 'a' is in several partitions",
            )
            frame = framed(self.spark, [order(2, 4), order(3, 5)], itemgetter(2))
            with pytest.raises(NotDistributed, match="folded by several tasks"):
                sink.apply_frame(frame)
            with pytest.raises(TasksFailed):
                sink.apply_frame(
                    frame.selectExpr("topic", "partition", "raise_error('x') AS offset")
                )
            assert [(p.applied, p.duplicates) for p in sink.progress()] == [(2, 0), (1, 0)]

    def test_a_writer_that_is_behind_folds_anew(self) -> None:
        with self.open([ORDERS]) as sink, self.open([ORDERS]) as other:
            sink.apply(batch(0))
            begin = sink._begin

            def overtaken(*arguments: Any) -> Any:
                setattr(sink, "_begin", begin)  # noqa: B010
                assert other.apply(batch(1)[1:]).applied == 3
                return begin(*arguments)

            setattr(sink, "_begin", overtaken)  # noqa: B010
            done = sink.apply(batch(1))
            assert (done.applied, done.replayed) == (1, 4)
            assert sink.progress() == other.progress()
        assert self.rows("orders") == {(2,): {"state": "1"}, (3,): {"state": "1"}, (4,): {}}

    @pytest.mark.parametrize("step", ["_begin", "_save_streams"])
    def test_a_batch_that_is_cut_off_is_applied_once_whatever_it_comes_in(self, step: str) -> None:
        self.apply_after_a_cut(step)
