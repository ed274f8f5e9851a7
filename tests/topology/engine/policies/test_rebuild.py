"""late=rebuild_stream(): the tables are as if a late event had come in its place."""

from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed
from tests.topology.engine.rebuilding import (
    Rebuilding,
    in_sequence,
    orders,
    read_store,
    rebuilding,
    trail,
)
from tests.topology.handled import driver_of as driving
from tests.topology.handled import order
from topology import (
    DeclarationError,
    Emit,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    earliest_seen,
    linked,
    monotonic,
    opened_by,
    park,
    rebuild_stream,
    redeliver,
    skip,
    spill,
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


def late_by_three() -> Rebuilding:
    """2 and 3 of stream a were given up."""
    partition = Rebuilding(rebuilding())
    partition.feed(orders(("a", 1), ("a", 4), ("b", 1)))
    partition.advance(3000)
    return partition


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


def test_a_stream_of_too_many_events_is_not_rebuilt_and_its_late_event_says_why() -> None:
    partition = Rebuilding(rebuilding(limit=2))
    partition.feed(orders(("a", 1), ("a", 4), ("a", 5)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), start=3))
    partition.settle()
    (late,) = partition.written["shop.late"]
    headers = dict(late.headers)
    assert b"more than the 2 events" in headers["sequitur-reason"]
    assert headers["sequitur-origin"] == b"orders/0/3/0"
    counts = partition.view().state.counts
    assert (counts.late, counts.rebuilt, counts.accounted) == (1, 0, counts.received)
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 4, 5]})
    # The stream goes on as it was.
    partition.feed(orders(("a", 6), start=4))
    assert "epoch" not in partition.values("shop.board")[-1]


def test_nor_is_one_of_more_late_events_than_that() -> None:
    partition = Rebuilding(rebuilding(limit=2))
    partition.feed(orders(("a", 9)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), ("a", 3), ("a", 4), ("a", 5)))
    assert len(partition.written["shop.late"]) == 2
    partition.settle()
    reasons = [dict(late.headers)["sequitur-reason"] for late in partition.written["shop.late"]]
    assert reasons == [b"it has more than the 2 events that may be read again"] * 4
    counts = partition.view().state.counts
    assert (counts.late, counts.accounted) == (4, counts.received)


@pytest.mark.parametrize("lost", ["input", "output"])
def test_a_stream_whose_history_is_gone_is_not_rebuilt(lost: str) -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    history = partition.history("a")
    if lost == "input":
        history.shortened = True
        del history.events[1]
    else:
        history.unwritten = True
        history.written.first = 4
    _rebuilt(partition, history)
    assert (
        b"no longer all there" in dict(partition.written["shop.late"][0].headers)["sequitur-reason"]
    )
    assert partition.view().state.counts.rebuilt == 0


@pytest.mark.parametrize("value", [b"no JSON", b"[]", b"{}", b'{"sequence": 99}', None])
def test_nor_is_one_whose_outputs_are_not_what_the_view_wrote(value: bytes | None) -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    history = partition.history("a")
    history.output(value)
    _rebuilt(partition, history)
    assert (
        b"that is no row change"
        in dict(partition.written["shop.late"][0].headers)["sequitur-reason"]
    )


def test_a_stream_that_began_after_what_retention_took_is_rebuilt() -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    history = partition.history("a")
    history.shortened = history.unwritten = True
    _rebuilt(partition, history)
    assert partition.view().state.counts.rebuilt == 1


def _rebuilt(partition: Rebuilding, history: Any) -> None:
    from topology.engine.commit_unit import CommitUnit
    from topology.view_rebuild.stream_rebuild import rebuild

    unit = CommitUnit("orders", 0, now=partition.now)
    rebuild(partition.view(), "a", history, unit)
    partition.task.finish(unit)
    partition.commit(unit)


def fails_at(*sequences: int) -> Any:
    def handler(event: Event, state: dict[str, Any]) -> Any:
        if event.sequence in sequences:
            raise ValueError(f"{event.sequence} is broken")
        yield from trail(event, state)

    return handler


def test_with_advance_a_late_event_that_fails_is_passed_and_so_is_what_failed_before() -> None:
    partition = Rebuilding(rebuilding(handler=fails_at(2, 4)))
    partition.feed(orders(("a", 1), ("a", 4), ("a", 5)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), ("a", 3), start=3))
    partition.settle()
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 3, 5]})
    done = [(report["sequence"], report["done"]) for report in partition.values("shop.errors")]
    assert done == [(4, "advance"), (2, "advance"), (4, "passed over in a rebuild")]
    counts = partition.view().state.counts
    assert (counts.failed, counts.processed, counts.accounted) == (2, 3, 5)


def test_where_nothing_may_be_passed_over_a_failure_leaves_the_stream_as_it_was() -> None:
    partition = Rebuilding(rebuilding(handler=fails_at(2), error=park()))
    partition.feed(orders(("a", 1), ("a", 4)))
    partition.advance(3000)
    partition.feed(orders(("a", 2), start=2))
    partition.settle()
    reason = dict(partition.written["shop.late"][0].headers)["sequitur-reason"]
    assert reason == b"sequence 2 failed: ValueError: 2 is broken"
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 4]})
    assert not partition.written["shop.errors"]


def test_a_parked_stream_is_rebuilt_up_to_where_it_is_and_stays_parked() -> None:
    partition = Rebuilding(rebuilding(handler=fails_at(5), error=park()))
    partition.feed(orders(("a", 1), ("a", 4), ("a", 5), ("a", 6)))
    partition.advance(3000)
    assert partition.view().state.counts.parked == 2
    partition.feed(orders(("a", 2), start=4))
    partition.settle()
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 2, 4]})
    assert partition.waiting("a") == [5, 6]
    assert (partition.view().state.counts.parked, partition.view().state.counts.waiting) == (2, 0)


@pytest.mark.parametrize("written", range(6))
def test_at_least_once_a_request_of_which_a_part_is_written_is_made_again(written: int) -> None:
    partition = late_by_three()
    late = orders(("a", 2), start=3)
    partition.inputs += late
    rows = partition.process(late).rows["board"]
    partition.tables["board"].write(rows[:written])
    partition.crash()
    if partition.view().rebuilds:
        partition.settle()
    partition.commit(partition.process(late))
    partition.settle()
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 2, 4]})


@pytest.mark.parametrize("written", range(6))
def test_at_least_once_a_rebuild_of_which_a_part_is_written_ends_well(written: int) -> None:
    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    unit = partition.rebuild()
    rows, unit.rows = unit.rows["board"], {}
    partition.commit(unit)
    partition.tables["board"].write(rows[:written])
    partition.crash()
    # Before it is made again one more comes: the epoch that was begun is not to be mistaken.
    partition.feed(orders(("a", 3), ("a", 5), start=4))
    partition.settle()
    assert partition.view().state.stream_state("a") == orjson.dumps({"trail": [1, 2, 3, 4, 5]})
    wanted = Rebuilding(rebuilding())
    wanted.feed(orders(*(("a", n) for n in range(1, 6)), ("b", 1)))
    assert read_store(partition) == read_store(wanted)


def driver_of(**policies: Any) -> TopologyTestDriver:
    """A driver of a view that lists what it handled of a stream."""
    sequence = policies.pop("sequence", None)
    topology = Topology("shop")
    inspector = Inspector("id", "n")
    topology.source("orders", inspector=inspector, sequence=sequence)
    topology.view("board", of="orders", handler=policies.pop("handler", listed), **policies)
    return TopologyTestDriver(topology)


def listed(event: Event, state: dict[str, Any]) -> Any:
    state["seen"] = [*state.get("seen", []), event.sequence]
    yield Upsert("board", key={"id": event.stream}, values={"seen": state["seen"]})
    yield Emit("log", event.stream, event.sequence)


def test_the_test_driver_rebuilds_at_once() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream())
    for n in (1, 3):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 2})
    assert driver.table("board")[("a",)]["seen"] == "[1,2,3]"
    assert driver.audit().sound


async def listed_later(event: Event, state: dict[str, Any]) -> Any:
    return list(listed(event, state))


def test_of_a_handler_that_is_awaited() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream(), handler=listed_later)
    for n in (1, 3):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 2})
    assert driver.state("board", "a") == {"seen": [1, 2, 3]}


def test_of_a_linked_stream() -> None:
    driver = driver_of(
        gap=skip(after=5), late=rebuild_stream(), sequence=linked(previous="p"), full=spill()
    )
    for n, p in ((2, None), (9, 5), (12, 9)):
        driver.pipe("orders", {"id": "a", "n": n, "p": p})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 5, "p": 2})
    assert driver.state("board", "a") == {"seen": [2, 5, 9, 12]}
    assert driver.audit().sound


def test_of_a_monotonic_stream_whose_old_copies_are_no_reason_to_rebuild() -> None:
    driver = driver_of(late=rebuild_stream(), sequence=monotonic(settle=1))
    for n in range(1, 41, 2):
        driver.pipe("orders", {"id": "a", "n": n})
        driver.advance(2)
    driver.pipe("orders", {"id": "a", "n": 1})
    counts = driver.counts("board")
    assert (counts.late, counts.duplicate, counts.rebuilt) == (0, 1, 0)
    driver.pipe("orders", {"id": "a", "n": 4})
    driver.pipe("orders", {"id": "a", "n": 41})
    driver.advance(2)
    assert driver.state("board", "a")["seen"] == [*sorted([*range(1, 41, 2), 4]), 41]
    assert (driver.counts("board").rebuilt, driver.counts("board").late) == (1, 0)
    assert driver.audit().sound


def test_of_a_lane_alone() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream(), lane="l")
    for n, lane in ((1, "x"), (3, "x"), (1, "y")):
        driver.pipe("orders", {"id": "a", "n": n, "l": lane})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 2, "l": "x"})
    assert driver.state("board", "a|x") == {"seen": [1, 2, 3]}
    epochs = [(v["stream"], v["lane"], v.get("epoch", 0)) for v in driver.read_json("shop.board")]
    assert epochs[-3:] == [("a|x", "x", 1)] * 3
    assert ("a|y", "y", 0) in epochs


def test_of_a_stream_that_began_with_the_earliest_seen() -> None:
    driver = driver_of(start=earliest_seen(after=5), gap=skip(after=5), late=rebuild_stream())
    for n in (7, 8):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.pipe("orders", {"id": "a", "n": 6})
    assert driver.state("board", "a") == {"seen": [6, 7, 8]}


def test_of_a_view_that_is_halted_when_it_is_resumed() -> None:
    driver = driver_of(gap=skip(after=5), late=rebuild_stream())
    for n in (1, 3):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(5)
    driver.command("halt", "board")
    driver.pipe("orders", {"id": "a", "n": 2})
    assert driver.state("board", "a") == {"seen": [1, 3]}
    driver.command("resume", "board")
    assert driver.state("board", "a") == {"seen": [1, 2, 3]}


@pytest.mark.parametrize("name", ["skip", "redrive", "unpark"])
def test_a_command_waits_until_the_stream_is_rebuilt(name: str) -> None:
    from topology.engine.commands.execute import Command, execute
    from topology.engine.commit_unit import CommitUnit

    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    task, unit = partition.view(), CommitUnit("orders", 0)
    result = execute(task, Command(name, "board", "a", 5), unit)
    assert not result.done
    if name == "skip":
        assert "about to be rebuilt" in result.message


def test_drop_takes_the_late_events_with_it_and_keeps_the_epoch() -> None:
    from topology.engine.commands.execute import Command, execute
    from topology.engine.commit_unit import CommitUnit

    partition = late_by_three()
    partition.feed(orders(("a", 2), start=3))
    partition.settle()
    partition.feed(orders(("a", 3), start=4))
    unit = CommitUnit("orders", 0)
    assert not execute(partition.view(), Command("drop", "board", "a"), unit).done
    assert execute(partition.view(), Command("drop", "board", "a", force=True), unit).done
    partition.task.finish(unit)
    partition.commit(unit)
    partition.crash()
    counts = partition.view().state.counts
    assert (counts.late, counts.dead, partition.view().rebuilds) == (0, 1, [])
    assert counts.accounted == counts.received
    partition.feed(orders(("a", 1), start=5))
    assert partition.values("shop.board")[-1]["epoch"] == 1


def test_a_late_event_that_came_before_its_stream_was_dropped_is_not_thrown_away() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    topology.view("board", of=orders, handler=listed, gap=skip(after=10), late=rebuild_stream())
    driver = TopologyTestDriver(topology)
    for number in (1, 2, 3):
        driver.pipe("orders", {"id": "a", "n": number})
    driver.command("drop", "board", "a")
    for number in (1, 3):
        driver.pipe("orders", {"id": "a", "n": number})
    driver.advance(10)
    assert not driver.explain("board", "a").well
    driver.pipe("orders", {"id": "a", "n": 2})
    counts = driver.counts("board")
    assert (counts.late, counts.skipped, counts.duplicate, counts.rebuilt) == (0, 0, 0, 1)
    assert driver.state("board", "a") == {"seen": [1, 2, 3]}
    assert driver.explain("board", "a").well
    assert driver.audit().sound


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        ({"start": opened_by("Placed")}, "below the opening event"),
        ({"closes": "Closed", "retention": 60}, "behind the closing event"),
    ],
)
def test_what_is_late_for_good_cannot_be_rebuilt(policies: dict[str, Any], text: str) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"))
    with pytest.raises(DeclarationError, match=text):
        topology.view("board", of=orders, handler=listed, late=rebuild_stream(), **policies)


def test_times_of_which_some_are_away_cannot_be_rebuilt() -> None:
    with pytest.raises(DeclarationError, match=r"use spill\(\)"):
        driver_of(sequence=monotonic(settle=1), late=rebuild_stream(), full=redeliver())


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "9", 10**9])
def test_a_limit_is_a_number_of_events(limit: Any) -> None:
    with pytest.raises(DeclarationError, match="limit must be"):
        rebuild_stream(limit)


def stumbling(event: Event, state: dict[str, Any]) -> Any:
    """3 fails if 2 is in its place, and 4 always."""
    state["seen"] = [*state.get("seen", []), event.sequence]
    if (event.sequence == 3 and 2 in state["seen"]) or event.sequence == 4:
        raise ValueError("no")
    yield Upsert("steps", key={"id": event.stream}, values={"n": len(state["seen"])})


def test_what_was_processed_and_fails_in_a_rebuild_is_failed_once() -> None:
    """It is not in the rows any more: nothing may call the stream complete."""
    driver = driving(stumbling, gap=skip(after=2), late=rebuild_stream())
    for sequence in (1, 3, 4, 6):
        driver.pipe("orders", order(sequence))
    driver.advance(3)
    driver.restart()
    for late, failed in ((2, 2), (5, 2)):
        driver.pipe("orders", order(late))
        driver.restart()
        counts = driver.counts("board")
        assert (counts.failed, counts.accounted) == (failed, counts.received)
        audit = driver.audit()
        assert not audit.violations, str(audit)
        assert not audit.clean
        assert not driver.explain("board", "a").well
    assert (counts.processed, counts.rebuilt, counts.late) == (4, 2, 0)
    assert driver.state("board", "a") == {"seen": [1, 2, 5, 6]}
    done = [(each["sequence"], each["done"]) for each in driver.read_json("shop.errors")]
    again = "passed over in a rebuild"
    assert done == [(4, "advance"), (3, "advance"), (4, again), (3, again), (4, again)]


def test_what_failed_before_a_rebuild_took_it_in_does_not_fail_twice() -> None:
    broken = {2}

    def sometimes(event: Event) -> Any:
        if event.sequence in broken:
            raise ValueError("no")
        yield Upsert("steps", key={"id": event.stream}, values={"n": event.sequence})

    driver = driving(sometimes, gap=skip(after=2), late=rebuild_stream())
    for sequence in (1, 2, 3, 5, 7):
        driver.pipe("orders", order(sequence))
    driver.advance(3)
    broken.clear()
    driver.pipe("orders", order(4))
    driver.restart()
    broken.add(2)
    driver.pipe("orders", order(6))
    counts = driver.counts("board")
    assert (counts.rebuilt, counts.failed, counts.processed) == (2, 1, 6)
    assert not driver.audit().violations, str(driver.audit())


def faulty(broken: set[int], **policies: Any) -> TopologyTestDriver:
    """A driver of a view that lists what it handled, and whose handler fails at some sequences."""

    def handler(event: Event, state: dict[str, Any]) -> Any:
        if event.sequence in broken:
            raise ConnectionError("down")
        yield from listed(event, state)

    return driving(handler, gap=skip(after=10), late=rebuild_stream(), **policies)


def came(driver: TopologyTestDriver, *sequences: int) -> None:
    for sequence in sequences:
        driver.pipe("orders", order(sequence))


def placed(driver: TopologyTestDriver) -> tuple[int, ...]:
    """Processed, late, failed, dead, duplicate, skipped; they add up, and the audit agrees."""
    counts = driver.counts("board")
    assert counts.accounted == counts.received
    audit = driver.audit()
    assert not audit.violations, str(audit)
    places = counts.processed, counts.late, counts.failed, counts.dead
    return *places, counts.duplicate, counts.skipped


def test_the_message_of_what_failed_and_is_handled_in_a_rebuild_is_not_lost() -> None:
    broken = {2}
    driver = faulty(broken)
    came(driver, 1, 2, 3, 5)
    driver.advance(10)
    broken.clear()
    driver.restart()
    came(driver, 4)
    assert sorted(driver.read_json("log")) == [1, 2, 3, 4, 5]
    assert placed(driver) == (5, 0, 0, 0, 0, 0)
    assert driver.explain("board", "a").well
    assert driver.audit().clean
    assert driver.read_json("shop.errors")[-1]["done"] == "handled in a rebuild"


def test_nor_is_the_message_of_what_was_handled_sent_again_when_it_fails_in_between() -> None:
    broken: set[int] = set()
    driver = faulty(broken)
    came(driver, 1, 3, 5, 7)
    driver.advance(30)
    broken.add(3)
    came(driver, 2)
    assert placed(driver)[:3] == (4, 0, 1)
    driver.restart()
    broken.clear()
    came(driver, 4)
    assert driver.read_json("log") == [1, 3, 5, 7, 2, 4]
    assert driver.state("board", "a") == {"seen": [1, 2, 3, 4, 5, 7]}
    assert placed(driver) == (6, 0, 0, 0, 0, 1)


def test_what_no_rebuild_took_in_is_left_out_of_the_next_and_has_another_try() -> None:
    broken: set[int] = set()
    driver = faulty(broken, error=park())
    came(driver, 1, 3, 5)
    driver.advance(20)
    broken.add(3)
    came(driver, 2)
    assert placed(driver) == (3, 1, 0, 0, 0, 2)
    broken.clear()
    driver.restart()
    came(driver, 4)
    assert driver.state("board", "a") == {"seen": [1, 3, 4, 5]}
    assert placed(driver) == (4, 1, 0, 0, 0, 1)
    assert driver.explain("board", "a").causes == (
        "it went on without sequence 2: late, and in shop.late",
    )
    # Whoever sends it again, from the late topic, has it handled.
    came(driver, 2)
    assert driver.state("board", "a") == {"seen": [1, 2, 3, 4, 5]}
    assert placed(driver) == (5, 1, 0, 0, 0, 0)
    assert driver.explain("board", "a").well
    came(driver, 2)
    assert placed(driver) == (5, 1, 0, 0, 1, 0)
    assert sorted(driver.read_json("log")) == [1, 2, 3, 4, 5]
    assert driver.audit(contents=True).sound


@pytest.mark.parametrize("how", ["unpark", "skip"])
def test_what_an_operator_gave_up_stays_so_until_it_is_put_back(how: str) -> None:
    broken = {2} if how == "unpark" else set()
    driver = faulty(broken, error=park())
    came(driver, *((1, 2, 3) if how == "unpark" else (1, 3)))
    given_up = 2 if how == "unpark" else 3
    sequence = None if how == "unpark" else 3
    assert driver.command(how, "board", "a", sequence, force=True).done
    broken.clear()
    came(driver, 5)
    driver.advance(10)
    came(driver, 4)
    left = [n for n in (1, 2, 3, 4, 5) if n != given_up and (n, how) != (2, "skip")]
    assert driver.state("board", "a") == {"seen": left}
    assert placed(driver)[:4] == (len(left), 0, 0, 1)
    (cause, *_) = driver.explain("board", "a").causes
    assert f"it went on without sequence {given_up}, in shop.dead" in cause
    driver.redrive_dead("board")
    left = sorted([*left, given_up])
    assert driver.state("board", "a") == {"seen": left}
    assert placed(driver)[:4] == (len(left), 0, 0, 0)
    assert sorted(driver.read_json("log")) == left


def test_another_copy_of_what_an_operator_gave_up_is_handled_and_the_dead_one_is_a_copy() -> None:
    broken = {2}
    driver = faulty(broken, error=park())
    came(driver, 1, 2, 3)
    driver.command("unpark", "board", "a")
    broken.clear()
    came(driver, 2)
    assert driver.state("board", "a") == {"seen": [1, 2, 3]}
    assert placed(driver) == (3, 0, 0, 1, 0, 0)
    assert driver.explain("board", "a").well
    driver.redrive_dead("board")
    assert driver.state("board", "a") == {"seen": [1, 2, 3]}
    assert placed(driver) == (3, 0, 0, 0, 1, 0)
    assert sorted(driver.read_json("log")) == [1, 2, 3]


def test_what_was_away_or_dead_when_its_stream_passed_it_is_handled_once_when_it_is_back() -> None:
    driver = faulty(set(), buffer=2, full=redeliver(delay=1))
    came(driver, 1, 9, 10)
    assert driver.command("skip", "board", "a", 11, force=True).facts["dead"] == 1
    came(driver, 12, 3)
    assert driver.state("board", "a") == {"seen": [1, 3, 10, 12]}
    placed(driver)
    driver.redrive_dead("board")
    assert driver.state("board", "a") == {"seen": [1, 3, 9, 10, 12]}
    assert sorted(driver.read_json("log")) == [1, 3, 9, 10, 12]
    placed(driver)


def test_an_outage_in_a_rebuild_does_not_take_a_stream_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("topology.view_rebuild.stream_rebuild.FAILED_KEPT", 4)
    broken: set[int] = set()
    driver = faulty(broken)
    came(driver, 1, 3, 4, 5, 6)
    driver.advance(10)
    broken |= {1, 3, 4, 5}
    came(driver, 2)
    assert driver.state("board", "a") == {"seen": [1, 3, 4, 5, 6]}
    assert placed(driver)[:3] == (5, 1, 0)
    (late,) = driver.read("shop.late")
    assert dict(late.headers)["sequitur-reason"] == b"4 of its events would have failed"


def test_what_came_before_its_stream_was_dropped_is_not_in_the_history_of_what_began_then() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"))

    def handler(event: Event, state: dict[str, Any]) -> Any:
        state["seen"] = [*state.get("seen", []), event.content["what"]]
        yield Upsert("board", key={"id": event.stream}, values={"seen": state["seen"]})

    topology.view("board", of=source, handler=handler, gap=skip(after=10), late=rebuild_stream())
    driver = TopologyTestDriver(topology)
    for n in (1, 2, 3, 4):
        driver.pipe("orders", {"id": "a", "n": n, "what": f"old {n}"})
    driver.command("drop", "board", "a")
    driver.restart()
    for n in (1, 3):
        driver.pipe("orders", {"id": "a", "n": n, "what": f"new {n}"})
    driver.advance(10)
    driver.pipe("orders", {"id": "a", "n": 2, "what": "new 2"})
    assert driver.state("board", "a") == {"seen": ["new 1", "new 2", "new 3"]}


def test_a_late_event_of_times_is_handled_though_it_came_before_its_stream_was_dropped() -> None:
    driver = driver_of(sequence=monotonic(settle=1), late=rebuild_stream())
    for n in (1, 5, 9):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(2)
    driver.command("drop", "board", "a")
    for n in (1, 9):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.advance(2)
    driver.pipe("orders", {"id": "a", "n": 5})
    assert driver.state("board", "a") == {"seen": [1, 5, 9]}
    counts = driver.counts("board")
    assert (counts.duplicate, counts.late, counts.rebuilt) == (0, 0, 1)


def test_what_came_again_after_a_drop_is_not_left_out_of_a_rebuild() -> None:
    driver = faulty(set())
    came(driver, 2)
    driver.command("drop", "board", "a", force=True)
    driver.redrive_dead("board")
    came(driver, 1, 4)
    driver.advance(10)
    came(driver, 3)
    assert driver.state("board", "a") == {"seen": [1, 2, 4]}
    (late,) = driver.read("shop.late")
    assert b"may have taken events back" in dict(late.headers)["sequitur-reason"]
    placed(driver)


def test_what_a_halted_view_has_not_read_yet_is_no_history() -> None:
    driver = driver_of(sequence=monotonic(settle=1), late=rebuild_stream())
    driver.pipe("orders", {"id": "a", "n": 6})
    driver.advance(5)
    driver.command("halt", "board")
    for n in (5, 4):
        driver.pipe("orders", {"id": "a", "n": n})
    driver.command("resume", "board")
    assert driver.read_json("log") == [6, 5, 4]
    counts = driver.counts("board")
    assert (counts.processed, counts.rebuilt, counts.duplicate) == (3, 2, 0)
    assert driver.audit(contents=True).sound
