"""late=rebuild_stream(): the tables are as if a late event had come in its place."""

from collections import Counter
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed
from tests.topology.engine.policies.rebuilt import late_by_three
from tests.topology.engine.rebuilding import (
    Rebuilding,
    in_sequence,
    orders,
    read_store,
    rebuilding,
)
from topology import (
    Event,
    Upsert,
)
from topology.sequencer.progress import last_of


@given(arrivals=deliveries(), sizes=cuts(), after=st.sampled_from([1, 2, 5]), data=st.data())
def test_the_tables_are_the_fold_of_all_events_in_sequence(
    arrivals: list[Arrival], sizes: list[int], after: int, data: st.DataObject
) -> None:
    partition = Rebuilding(rebuilding(after), drain=data.draw(st.integers(1, 20)))
    for moment in fed(arrivals, sizes):
        partition.live([moment])
        if data.draw(st.integers(0, 2)) and partition.view().rebuilds:
            if data.draw(st.booleans()):
                partition.rebuild()  # of which nothing is durable
                partition.crash()
            partition.settle()
    while partition.view().rebuilds or partition.due < float("inf"):
        partition.settle()
        partition.advance(10**9)
    wanted = in_sequence(arrivals)
    assert read_store(partition) == read_store(wanted)
    view, other = partition.view(), wanted.view()
    for stream in {each.stream for each in arrivals}:
        assert view.state.stream_state(stream) == other.state.stream_state(stream)
        assert last_of(view.state.progress(stream)) == last_of(other.state.progress(stream))
    counts = view.state.counts
    assert counts.accounted == counts.received == len(arrivals)
    assert (counts.late, counts.processed) == (0, other.state.counts.processed)
    assert counts.written == len(partition.written["shop.board"])
    assert Counter(map(str, partition.values("log"))) == Counter(map(str, wanted.values("log")))
    assert not partition.written["shop.late"]
    partition.crash()
    assert partition.view().state.counts == counts


def test_several_late_events_of_a_stream_lead_to_one_rebuild() -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 3), ("a", 2), ("a", 3), start=3))
    assert partition.view().rebuilds == ["a"]
    assert (partition.view().state.counts.late, partition.view().state.counts.duplicate) == (2, 1)
    partition.settle()
    counts = partition.view().state.counts
    assert (counts.rebuilt, counts.late, counts.processed, counts.duplicate) == (1, 0, 5, 1)
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 2, 3, 4]})


def test_until_then_its_stream_waits_and_no_other() -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    partition.feed(orders(("a", 5), ("b", 2), start=4))
    assert partition.handled()["b"] == [1, 2]
    assert partition.waiting("a") == [5]
    partition.crash()
    partition.advance(10**9)
    assert partition.waiting("a") == [5]
    partition.settle()
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 2, 4, 5]})


def test_the_records_of_an_epoch_begin_with_deletes_of_what_it_does_not_write() -> None:
    partition = late_by_three()
    before = len(partition.written["shop.board"])
    partition.feed(orders(("a", 2), start=3))
    partition.settle()
    values = partition.values("shop.board")[before:]
    assert [(value["epoch"], value["sequence"]) for value in values] == [(1, 1), (1, 2), (1, 4)]
    deletes = [change for change in values[0]["changes"] if change["op"] == "delete"]
    assert values[0]["changes"][: len(deletes)] == deletes
    assert {"table": "steps", "key": {"id": "a", "n": 4, "before": 1}, "op": "delete"} in deletes
    headers = dict(partition.written["shop.board"][before].headers)
    assert (headers["epoch"], headers["cleared"]) == (b"1", b"%d" % len(deletes))
    # What follows is of the epoch too, also after a restart.
    partition.crash()
    partition.feed(orders(("a", 5), ("b", 2), start=4))
    assert [v.get("epoch", 0) for v in partition.values("shop.board")[-2:]] == [1, 0]


def test_what_handlers_emit_is_emitted_once() -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    partition.settle()
    assert [v["sequence"] for v in partition.values("log")] == [1, 1, 4, 2]


def test_a_second_late_event_makes_the_next_epoch() -> None:
    partition = late_by_three()
    for offset, sequence in ((3, 3), (4, 2)):
        partition.feed(orders(("a", sequence), start=offset))
        partition.settle()
    assert partition.values("shop.board")[-1]["epoch"] == 2
    partition.feed(orders(("a", 2), start=5))
    assert not partition.view().rebuilds
    assert partition.view().state.counts.duplicate == 1


def test_an_epoch_without_outputs_still_deletes() -> None:
    """The handler writes only as long as nothing follows its number."""

    def handler(event: Event, state: dict[str, Any]) -> Any:
        state["even"] = state.get("even", event.sequence % 2 == 0 or event.sequence == 1)
        state["skipped"] = state.get("skipped") or event.sequence == 2
        if event.sequence > 2 and not state["skipped"]:
            yield Upsert("gone", key={"id": event.stream}, values={"n": event.sequence})

    partition = Rebuilding(rebuilding(handler=handler))
    partition.feed(orders(("a", 1), ("a", 4)))
    partition.advance(3000)
    assert len(read_store(partition)) == 1
    partition.feed(orders(("a", 2), start=2))
    partition.settle()
    assert read_store(partition) == {}
    assert partition.values("shop.board")[-1]["epoch"] == 1
