"""Events that wait for a short time have no rows: the input still has them."""

from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from tests.topology.partition import INSPECTOR, Partition, board, shop
from topology import (
    Record,
    Topology,
    opened_by,
    park,
    rebuild_stream,
    redeliver,
    skip,
)
from topology.engine.commands.command import Command
from topology.engine.commands.execute import execute
from topology.engine.commit_unit import CommitUnit
from topology.engine.state.foreign_rows import foreign
from topology.engine.state.rows import BUFFERS, COUNTS, decode_message
from topology.engine.state.short_waits import (
    InputWaits,
    ShortWaits,
    WaitLimits,
    may_wait_in_memory,
    read_again,
)
from topology.engine.stream_task import StreamTask
from topology.model.counts import decode_counts
from topology.model.partition_table import Row
from topology.sequencer.memory_budget import Budget


class Short(Partition):
    """A partition whose input can be read again; `limits` of None gives each event a row."""

    def __init__(
        self, topology: Topology, limits: WaitLimits | None, memory: int = 1 << 30
    ) -> None:
        self.limits, self.memory = limits, memory
        self.log: list[Record] = []
        super().__init__(topology)
        self.now = 1

    def found(self, name: str = "board") -> list[Row]:
        """The rows that what waits in memory only would have, from the input."""
        table = self.tables[name]
        if (again := read_again(table.get(COUNTS))) is None:
            return []
        waits = InputWaits(self.topology.views[name], table.get, again)
        waits.take(self.log)
        return waits.unit_rows()

    def crash(self) -> None:
        for name, table in self.tables.items():
            table.write(self.found(name))
        (source,) = self.topology.sources.values()
        self.task = StreamTask(
            self.topology, source, 0, self.tables, position=self.position, now=self.now,
            budget=Budget(self.memory), limits=self.limits,
        )  # fmt: skip

    def send(self, *events: tuple[str, int]) -> None:
        batch = [
            Record("orders", 0, len(self.log) + at, None, orjson.dumps(
                {"stream": stream, "sequence": sequence, "kind": "x", "at": len(self.log) + at}
            ))
            for at, (stream, sequence) in enumerate(events)
        ]  # fmt: skip
        self.log += batch
        self.feed(batch)

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
            for key, row in table.rows.items()
        }  # fmt: skip


def fails(event: Any) -> None:
    if event.sequence % 4 == 3:
        raise ValueError("three of four")


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


@settings(max_examples=300)
@given(
    steps=STEPS,
    policies=st.sampled_from([{}, {"buffer": 2}, {"jump": 5}, {"error": park(), "buffer": 2}]),
    limits=st.builds(WaitLimits, records=st.integers(2, 12)),
    memory=st.sampled_from([4000, 1 << 30]),
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
        with_rows, without = both
        assert without.state() == with_rows.state()
        assert without.by_key("shop.board") == with_rows.by_key("shop.board")


def test_what_comes_and_goes_in_time_has_no_row() -> None:
    partition = Short(shop(), WaitLimits())
    for at in range(0, 400, 4):
        partition.send(("a", at + 4), ("a", at + 3))
        assert not partition.rows()
        assert [row[0] for row in partition.found()] != []
        partition.send(("a", at + 2), ("a", at + 1))
    assert not partition.found()
    assert partition.handled()["a"] == list(range(1, 401))


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
        b'{"received":1,"again":5,"by":1}',
        b'{"received":1,"position":9,"again":5}',
        b'{"received":1,"position":9,"again":"x","by":1}',
        b'{"received":1,"position":9,"again":null,"by":1}',
        b'{"received":1,"position":9,"again":5,"by":null}',
        b'{"received":1,"position":9,"again":10,"by":1}',
    ],
)
def test_a_row_of_counts_that_names_no_part_of_the_input_is_foreign(row: bytes) -> None:
    assert foreign(COUNTS, row)
    assert not foreign(COUNTS, b'{"received":1,"position":9,"again":5,"by":1}')


@pytest.mark.parametrize("batch", [1, 10, 200])
def test_bytes_end_a_generation_after_as_many_whatever_the_size_of_a_batch(batch: int) -> None:
    waits = ShortWaits(WaitLimits(records=10**9, bytes=1_000_000, time=10**9))
    one: Any = SimpleNamespace(message=Record("orders", 0, 0, None, b"x" * 1_000), arrived=0)
    waits.add(("s", 2), one, 0)
    came = 0
    while not waits.rows(0, everything=False):
        assert came < 3_000
        waits.arrived([one] * batch)
        came += batch
    assert came in range(1_800, 2_401)
