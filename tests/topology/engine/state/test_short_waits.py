"""Events that wait for a short time have no rows: the input still has them."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from tests.examples import some
from tests.topology.partition import INSPECTOR, Partition, board, shop
from topology import (
    Event,
    Inspector,
    Record,
    Topology,
    opened_by,
    park,
    rebuild_stream,
    redeliver,
    retry,
    skip,
)
from topology.engine.commands.command import Command
from topology.engine.commands.execute import execute
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.dead_events import DeadEventFilter, find_dead
from topology.engine.state.foreign_rows import foreign
from topology.engine.state.rows import (
    BUFFERS,
    COUNTS,
    NOTES,
    decode_message,
    encode_progress,
    note_key,
    progress_key,
    split_buffer_key,
)
from topology.engine.state.short_waits import ShortWaits, WaitLimits, may_wait_in_memory
from topology.engine.stream_task import StreamTask
from topology.engine.wait_notes import InputWaits
from topology.model.counts import decode_counts
from topology.model.partition_table import Row
from topology.sequencer.memory_budget import Budget
from topology.sequencer.progress import last_of


class Short(Partition):
    """A partition whose input can be read again; `limits` of None gives each event a row."""

    def __init__(
        self, topology: Topology, limits: WaitLimits | None, memory: int = 1 << 30
    ) -> None:
        self.limits, self.memory = limits, memory
        self.log: list[Record] = []
        super().__init__(topology)
        self.now = 1

    def found(self) -> list[Row]:
        """The rows that what waits in memory only would have, from the input."""
        waits = InputWaits(self.topology.views["board"], self.tables["board"])
        waits.take(self.log)
        return list(waits.rows.items())

    def crash(self) -> None:
        unit = CommitUnit("orders", 0, now=self.now)
        for name, table in self.tables.items():
            waits = InputWaits(self.topology.views[name], table)
            waits.take(self.log)
            waits.save(unit)
        self.commit(unit)
        (source,) = self.topology.sources.values()
        self.task = StreamTask(
            self.topology, source, 0, self.tables, position=self.position, now=self.now,
            budget=Budget(self.memory), limits=self.limits,
        )  # fmt: skip

    def send(self, *events: tuple[str, int]) -> None:
        self.feed(self.batch(*events))

    def batch(self, *events: tuple[str, int]) -> list[Record]:
        batch = [
            Record("orders", 0, len(self.log) + at, None, orjson.dumps(
                {"stream": stream, "sequence": sequence, "kind": "x", "at": len(self.log) + at}
            ))
            for at, (stream, sequence) in enumerate(events)
        ]  # fmt: skip
        self.log += batch
        return batch

    def tell(self, command: Command) -> None:
        unit = CommitUnit("orders", 0, now=self.now)
        execute(self.view(), command, unit)
        self.task.finish(unit)
        self.commit(unit)
        self.feed([])

    def rows(self) -> list[Row]:
        """The rows of what waits that it has."""
        return list(self.tables["board"].scan(*BUFFERS))

    def state(self) -> dict[bytes, Any]:
        """What is durable, the input included."""
        table = MemoryTable()
        table.write([*self.tables["board"].rows.items(), *self.found()])
        return {
            key: decode_message(row)[0] if key[:1] == b"b"
            else decode_counts(row) if key == COUNTS else row
            for key, row in table.rows.items() if key[:1] != b"m"
        }  # fmt: skip


def fails(event: Any) -> None:
    if event.sequence % 4 == 3:
        raise ValueError("three of four")


def assert_its_row_says_how_far_it_is(partition: Short, stream: str) -> None:
    """Also where nothing was written, as the row was right already."""
    state, row = partition.view().state, partition.tables["board"].get(progress_key(stream))
    progress = state.progress(stream)
    if row is not None or progress != state.ordering.first:
        assert row == encode_progress(progress, None)


EVENTS = st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 9]), min_size=1, max_size=5)
"""How far each event is ahead of its time: some are lost, and some come twice."""
COMMANDS = st.builds(
    Command,
    name=st.sampled_from(["skip", "drop", "unpark", "redrive", "halt"]),
    view=st.just("board"),
    stream=st.just("a"),
    sequence=st.integers(1, 12),
    force=st.sampled_from([True, True, False]),
)
STEPS = st.lists(
    st.one_of(EVENTS, EVENTS, EVENTS, COMMANDS, st.integers(1, 400)), min_size=6, max_size=30
)
"""Batches, commands, and times (ms) after which the process has died."""


@settings(max_examples=some(300))
@given(
    steps=STEPS,
    policies=st.sampled_from([{}, {"buffer": 2}, {"jump": 5}, {"error": park(), "buffer": 2}]),
    limits=st.builds(WaitLimits, records=st.integers(2, 12)),
    memory=st.sampled_from([4000, 12_000, 1 << 30]),
)
def test_whenever_it_dies_the_state_is_that_of_rows(
    steps: list[Any], policies: dict[str, Any], limits: WaitLimits, memory: int
) -> None:
    both = [Short(shop(handler=fails, **policies), each, memory) for each in (None, limits)]
    for each in steps:
        for partition in both:
            if isinstance(each, Command):
                partition.tell(each)
            elif isinstance(each, int):
                partition.now += each
                partition.crash()
            else:
                if partition.view().halted:
                    partition.tell(Command("resume", "board"))
                at = len(partition.log)
                partition.send(*(("a", (at + n) // 3 + ahead) for n, ahead in enumerate(each, 3)))
            assert_its_row_says_how_far_it_is(partition, "a")
        with_rows, without = both
        assert without.state() == with_rows.state()
        assert without.by_key("shop.board") == with_rows.by_key("shop.board")


def test_what_waits_is_there_for_each_command_of_a_unit() -> None:
    """Its rows are in the unit, and not in the table yet, where another command would look."""
    partition = Short(shop(handler=fails, error=park()), WaitLimits())
    partition.send(*(("x", n) for n in (1, 2, 3, 4)), ("y", 1), ("y", 2), ("y", 4))
    view, unit = partition.view(), CommitUnit("orders", 0, now=partition.now)
    execute(view, Command("unpark", "board", stream="x"), unit)
    assert not view.state.unload("y"), "as when another view of the partition needs memory"
    assert execute(view, Command("skip", "board", stream="y", sequence=3), unit).done
    partition.task.finish(unit)
    partition.commit(unit)
    partition.feed([])
    assert last_of(view.state.progress("y")) == 4
    assert view.state.unload("y")


def test_what_comes_and_goes_in_time_has_no_row() -> None:
    partition = Short(shop(), WaitLimits())
    for at in range(0, 400, 4):
        partition.send(("a", at + 4), ("a", at + 3))
        assert not partition.rows()
        assert [row[0] for row in partition.found()] != []
        partition.send(("a", at + 2), ("a", at + 1))
    assert not partition.found()
    assert partition.handled()["a"] == list(range(1, 401))


def test_one_that_waits_as_well_changes_no_row_of_its_stream() -> None:
    partition = Short(shop(), WaitLimits())
    partition.send(("a", 9))
    before = partition.tables["board"].get(progress_key("a"))
    for sequence in range(8, 1, -1):
        unit, events = partition.task.begin(partition.batch(("a", sequence)), partition.now)
        partition.view().run(events, unit, None)
        partition.task.finish(unit)
        assert progress_key("a") not in dict(unit.rows["board"])
        partition.commit(unit)
    assert partition.tables["board"].get(progress_key("a")) == before
    partition.send(("a", 1))
    assert partition.handled()["a"] == list(range(1, 10))


def test_what_is_far_beyond_the_ring_has_no_row_either() -> None:
    partition = Short(shop(buffer=2), WaitLimits())
    for at in range(400, 0, -4):
        partition.send(*(("a", at - n) for n in range(4)))
        assert not partition.rows()
    assert partition.handled()["a"] == list(range(1, 401))


def test_a_handler_that_fails_puts_events_back_that_have_no_row() -> None:
    handled: list[int] = []

    def fails_once(event: Any) -> None:
        if event.sequence == 3 and not handled.count(3):
            handled.append(3)
            raise ValueError("once")
        handled.append(event.sequence)

    partition = Short(
        shop(handler=fails_once, buffer=2, error=retry(times=3, backoff=1)), WaitLimits()
    )
    partition.send(*(("a", at) for at in range(30, 1, -1)))
    partition.send(("a", 1))
    assert not partition.rows()
    partition.advance(10_000)
    assert handled == [1, 2, 3, *range(3, 31)]


def test_beyond_its_memory_the_streams_that_moved_longest_ago_get_rows() -> None:
    partition = Short(shop(), WaitLimits(), memory=40_000)
    for stream in range(100):
        partition.send((str(stream), 2))
        budget = partition.view().state.budget
        assert budget is not None
        assert budget.memory <= budget.limit
    streams = [int(split_buffer_key(key)[0]) for key, _ in partition.rows()]
    assert sorted(streams) == list(range(len(streams)))
    assert 20 < len(streams) < 90
    partition.send(*((str(stream), 1) for stream in range(100)))
    assert not partition.rows()
    assert all(found == [1, 2] for found in partition.handled().values())


@pytest.mark.parametrize("limits", [WaitLimits(records=8), WaitLimits(bytes=200)])
def test_what_waits_for_long_has_one(limits: WaitLimits) -> None:
    partition = Short(shop(), limits)
    partition.send(("a", 2))
    for at in range(1, 30):
        partition.send(("b", at))
    assert len(partition.rows()) == 1
    assert not partition.found()


def test_it_has_one_in_time_although_nothing_comes() -> None:
    partition = Short(shop(), WaitLimits(time=500))
    partition.send(("a", 2))
    task = partition.view()
    assert task.retry_due == 501
    for partition.now in (501, 1001):
        partition.feed([])
    assert len(partition.rows()) == 1
    assert task.retry_due == float("inf")


def test_a_gap_is_not_given_up_before_its_time_after_a_restart_nor_put_off_for_ever() -> None:
    partition = Short(shop(gap=skip(after=10)), WaitLimits())
    partition.send(("a", 3))
    partition.now = 4_000
    partition.send(("a", 5))
    for partition.now in range(4_500, 9_000, 500):
        partition.crash()
        partition.feed([])
    partition.advance(10_000)
    assert not partition.handled()
    partition.advance(10_001)
    assert partition.handled() == {"a": [3]}
    # It came at 4,000 ms; what is known is that it had come by the last commit before the crash.
    partition.advance(14_001)
    assert partition.handled() == {"a": [3, 5]}


def test_an_input_that_was_made_anew_leaves_rows() -> None:
    partition = Short(shop(), WaitLimits())
    partition.send(("b", 1), ("a", 2))
    partition.log.clear()
    partition.send(("b", 2))
    assert len(partition.rows()) == 1


def test_an_input_that_was_made_anew_where_it_was_leaves_rows() -> None:
    partition = Short(shop(), WaitLimits())
    partition.send(("a", 2))
    assert not partition.rows()
    partition.log.clear()
    partition.send(("c", 2))
    assert len(partition.rows()) == 2


@pytest.mark.parametrize(
    "policies",
    [
        {"full": redeliver(delay=1)},
        {"late": rebuild_stream(), "gap": skip(after=1)},
        {"start": opened_by("x")},
    ],
)
def test_views_in_which_events_leave_otherwise_keep_their_rows(policies: dict[str, Any]) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR)
    topology.view("plain", of=orders, handler=board)
    topology.view("board", of=orders, handler=board, **policies)
    assert [may_wait_in_memory(view) for view in topology.views.values()] == [True, False]


@pytest.mark.parametrize(
    "row",
    [
        b"x", b"[]", b"[1]", b'[-1,[[1,1,7,"a",1]]]', b'[1,[[1,1,7,"a"]]]', b'[1,[[-1,1,7,"a",1]]]',
        b'[1,[[1,"1",7,"a",1]]]', b'[1,[[1,1,7,"",1]]]', b'[1,[[1,1,7,"a\\u0000",1]]]',
        b'[1,[[1,1,7,2,1]]]', b'[1,[[1,1,-7,"a",1]]]', b'[1,[[1,1,"7","a",1]]]',
    ],
)  # fmt: skip
def test_a_note_that_names_no_event_is_foreign(row: bytes) -> None:
    assert foreign(note_key(1), row)
    assert not foreign(note_key(1), b'[1,[[1,1,7,"a",1]]]')
    assert not foreign(note_key(1), None)
    assert foreign(note_key(1) + b"x", None)


@pytest.mark.parametrize("batch", [1, 10, 200])
def test_bytes_end_a_generation_after_as_many_whatever_the_size_of_a_batch(batch: int) -> None:
    def at(offset: int) -> Event[Any]:
        return Event("s", 2, None, None, Record("orders", 0, offset, None, b"x" * 1_000))

    waits = ShortWaits(WaitLimits(records=10**9, bytes=1_000_000, time=10**9))
    one = at(0)
    waits.begin([one], None, 0)
    assert not waits.add([one])
    waits.rows(everything=False)
    came = 0
    while len([key for key, row in waits.rows(everything=False) if row]) == 0:
        assert came < 3_000
        waits.begin([at(came + 1)] * batch, None, 0)
        came += batch
    assert came in range(1_800, 2_401)


def test_it_is_the_same_event_whatever_its_inspector_says_by_now() -> None:
    partition = Short(shop(), WaitLimits())
    partition.send(("a", 3), ("a", 2), ("b", 1))
    partition.topology = Topology("shop")
    orders = partition.topology.source(
        "orders", inspector=Inspector(stream="kind", sequence="at"), keyed=True
    )
    partition.topology.view("board", of=orders, handler=board)
    partition.crash()
    assert [split_buffer_key(key) for key, _ in partition.rows()] == [("a", 2), ("a", 3)]


def test_what_is_not_in_the_input_any_more_is_dead_and_told_of_and_missing_again() -> None:
    partition = Short(shop(error=park()), WaitLimits())
    partition.send(("a", 2), ("a", 4), ("b", 2), ("c", 1), ("c", 3))
    partition.now = 7
    del partition.log[:3]
    partition.crash()
    counts = partition.view().state.counts
    assert (counts.waiting, counts.dead, counts.accounted) == (1, 3, counts.received)
    told = partition.written["shop.dead"]
    assert [(key, value) for key, value, *_ in told] == [(b"a", None), (b"a", None), (b"b", None)]
    (report,) = partition.reports
    records = [Record("shop.dead", 0, n, *out[:2], out[3]) for n, out in enumerate(told)]
    found = find_dead(partition.topology.views["board"], records, DeadEventFilter(), ())
    assert (found.chosen, found.others, found.gone) == ([], 0, 3)
    assert "3 events" in report
    partition.send(("a", 1), ("a", 2), ("c", 2), ("b", 1))
    assert partition.handled() == {"a": [1, 2], "b": [1], "c": [1, 2, 3]}


def test_unpark_takes_nothing_else_for_what_failed_where_that_is_dead_already() -> None:
    handled: list[int] = []

    def handler(event: Event) -> None:
        if event.sequence == 2 and event.message.offset < 3:
            raise ValueError("no")
        handled.append(event.sequence)

    partition = Short(shop(handler=handler, error=park()), WaitLimits())
    partition.send(("a", 1), ("a", 2), ("a", 3))
    partition.log[1] = replace(partition.log[1], value=b"{}")
    partition.crash()
    unpark = Command("unpark", "board", "a")
    tried = execute(partition.view(), replace(unpark, dry_run=True), CommitUnit("orders", 0))
    assert tried.facts == {"dead": 0, "last": 1, "released": 1}
    partition.tell(unpark)
    counts = partition.view().state.counts
    assert (counts.dead, counts.waiting, counts.parked) == (1, 1, 0)
    partition.send(("a", 2))
    assert handled == [1, 2, 3]


@pytest.mark.parametrize(
    "other", [{"timestamp": 1}, {"value": b"{}"}, {"key": b"b"}, {"headers": [("stream", b"b")]}]
)
def test_another_message_at_its_offset_is_not_taken_for_it(other: dict[str, Any]) -> None:
    """A topic that was made anew, of a copy without its beginning, keeps the times."""
    partition = Short(shop(), WaitLimits())
    partition.send(("a", 2))
    partition.log[0] = replace(partition.log[0], **other)
    partition.crash()
    assert partition.view().state.counts.dead == 1


def test_a_clock_that_is_set_back_lets_nothing_wait_for_longer() -> None:
    partition = Short(shop(), WaitLimits(time=500))
    partition.now = 100_000
    partition.send(("a", 2))
    for partition.now in (50_000, 49_000):
        partition.send(("b", 1))
    assert len(partition.rows()) == 1


def test_a_message_that_the_input_may_delete_soon_has_its_row_at_once() -> None:
    partition = Short(shop(), WaitLimits(age=1000))
    partition.now = 1000
    partition.send(("a", 2))
    assert not partition.rows()
    partition.now = 1001
    partition.send(("a", 3))
    assert len(partition.rows()) == 1


def test_notes_of_many_long_streams_are_rows_of_bounded_size() -> None:
    partition = Short(shop(), WaitLimits())
    partition.send(*((f"{n:0>500}", 2) for n in range(1000)))
    notes = [row for _, row in partition.tables["board"].scan(*NOTES)]
    assert len(notes) > 10
    assert max(map(len, notes)) < 200_000
    assert len(partition.found()) == 1000


def test_notes_are_deleted_also_where_nothing_waits_now_and_then() -> None:
    partition = Short(shop(), WaitLimits())
    for at in range(1, 400, 2):
        partition.now += 10_000
        partition.send(("a", at + 1))
        partition.send(("a", at))
        short = partition.view().state.short
        assert short is not None
        assert not short
        notes = list(partition.tables["board"].scan(*NOTES))
        # Of two generations of 30 s.
        assert len(notes) == len(short._notes) + len(short._previous_notes) <= 8
    assert partition.handled()["a"] == list(range(1, 401))
