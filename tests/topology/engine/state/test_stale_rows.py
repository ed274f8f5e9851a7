"""Rows that a unit should have removed may still be there: no event is handled twice or lost.

A changelog's deletions are removed for good some time after compaction; a table that was away for
longer keeps the rows. And at least once, rows that do not fit one record batch become durable one
batch after the other.
"""

import pytest

from stores.view_state.memory import MemoryTable
from tests.topology.deliveries import Arrival, records
from tests.topology.engine.state.test_short_waits import Short
from tests.topology.partition import Partition, shop
from topology.engine.commands.command import Command
from topology.engine.state.rows import progress_key
from topology.engine.state.short_waits import WaitLimits

SIZES = [1, 2, 64]


@pytest.mark.parametrize("size", SIZES)
def test_a_row_of_an_event_that_was_processed_is_not_handled_again(size: int) -> None:
    partition = Partition(shop(buffer=size))
    partition.feed(records([Arrival("a", 1, 0), Arrival("a", 2, 0)]))
    stale = dict(partition.durable()["board"])
    partition.feed(records([Arrival("a", 0, 0)]))
    for key, row in stale.items():
        if key.startswith(b"b"):
            partition.tables["board"].write([(key, row)])
    partition.crash()
    partition.feed(records([Arrival("a", nth, 0) for nth in (4, 3, 5, 6)]))

    assert partition.handled() == {"a": [1, 2, 3, 4, 5, 6, 7]}
    assert partition.view().state.progress("a") == 7


@pytest.mark.parametrize("size", SIZES)
def test_of_a_unit_s_rows_any_first_part_loses_no_event(size: int) -> None:
    before, second = (
        records([Arrival("a", 1, 0), Arrival("a", 2, 0)]),
        records([Arrival("a", 0, 0)]),
    )
    whole = Partition(shop(buffer=size))
    whole.feed(before)
    rows = whole.process(second).rows["board"]
    for part in range(len(rows) + 1):
        partition = Partition(shop(buffer=size))
        partition.feed(before)
        table = partition.tables["board"] = MemoryTable()
        table.write([*whole.durable()["board"].items(), *rows[:part]])
        partition.crash()
        while partition.task.unfinished:
            partition.feed([])
        partition.feed(second)
        partition.feed(records([Arrival("a", 3, 0)]))
        assert partition.view().state.progress("a") == 4


@pytest.mark.parametrize("limits", [None, WaitLimits()])
@pytest.mark.parametrize("name", ["skip", "drop"])
def test_what_a_command_writes_is_not_taken_back_by_a_row_corrected_at_the_start(
    name: str, limits: WaitLimits | None
) -> None:
    partition = Short(shop(), limits)
    partition.now = 100_000
    partition.send(("a", 1), ("a", 2), ("a", 9))
    partition.now = 90_000  # a clock behind that of before: since when it waits is corrected
    partition.crash()
    assert partition.view().state.stale
    partition.tell(Command(name, "board", stream="a", sequence=4, force=True))
    told = partition.tables["board"].get(progress_key("a"))
    partition.send(("b", 1))
    assert partition.tables["board"].get(progress_key("a")) == told
    partition.crash()
    assert partition.view().state.counts.processed == 3
    partition.send(("a", 1))
    assert partition.handled()["a"] == ([1, 2, 1] if name == "drop" else [1, 2])
