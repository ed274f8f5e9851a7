"""At least once, a unit's rows may be written in part: nothing that waits may be lost by it."""

from collections.abc import Sequence

import orjson
import pytest

from stores.view_state.memory import MemoryTable
from topology import Cells, Event, Inspector, Record, Topology, park, retry
from topology.declaration.policies import OnError
from topology.engine.output.record_formatter import OUTPUT_LIMIT
from topology.engine.stream_task import StreamTask
from topology.model.partition_table import Row
from topology.sequencer.progress import last_of
from topology.testing import TopologyTestDriver


def record(offset: int, sequence: int) -> Record:
    return Record("in", 0, offset, b"a", orjson.dumps({"s": "a", "n": sequence}))


@pytest.mark.parametrize("written", [0, 1, 2, 3])
def test_an_event_that_waited_is_handled_whatever_part_of_a_unit_s_rows_is_there(
    written: int,
) -> None:
    handled: list[int] = []

    def handler(event: Event) -> None:
        handled.append(event.sequence)

    topology = Topology("torn")
    source = topology.source("in", inspector=Inspector("s", "n"), keyed=True)
    topology.view("v", of=source, handler=handler)
    table = MemoryTable()
    first = StreamTask(topology, source, 0, {"v": table})
    table.write(first.process([record(0, 1), record(1, 3)], 1).rows["v"])
    # 2 comes and releases 3: outputs are written, then a part of the rows, then the worker dies.
    rows: list[Row] = first.process([record(2, 2)], 2).rows["v"]
    assert len(rows) == 3
    table.write(rows[:written])

    again = StreamTask(topology, source, 0, {"v": table})
    table.write(again.process([record(2, 2)], 3).rows["v"])
    assert set(handled) == {1, 2, 3}
    assert last_of(again.views["v"].state.progress("a")) == 3
    assert list(table.scan(b"b", b"c")) == []


def test_nothing_is_left_of_a_closed_stream_whatever_part_of_a_unit_s_rows_is_there() -> None:
    def handler(event: Event, state: dict[str, int], cells: Cells) -> None:
        cells[f"{event.sequence}"] = state["n"] = event.sequence

    topology = Topology("torn")
    source = topology.source("in", inspector=Inspector("s", "n", "kind"))
    topology.view("v", of=source, handler=handler, closes="end", retention=60)

    def sent(number: int, kind: str) -> list[Record]:
        body = {"s": "a", "n": number, "kind": kind}
        return [Record("in", 0, number - 1, b"a", orjson.dumps(body))]

    def after(units: Sequence[tuple[list[Record], int, int]]) -> MemoryTable:
        """The table when of each unit so many rows were written, and then all of them."""
        table = MemoryTable()
        for records, now, cut in units:
            position = records[0].offset if records else 2
            for rows in (cut, None):
                task = StreamTask(topology, source, 0, {"v": table}, position=position)
                table.write(task.process(records, now, now).rows.get("v", [])[:rows])
        return table

    for first in range(7):
        for second in range(7):
            table = after(
                [(sent(1, "x"), 1_000, 0), (sent(2, "end"), 2_000, first), ([], 90_000, second)]
            )
            task = StreamTask(topology, source, 0, {"v": table}, position=2)
            table.write(task.process([], 180_000, 180_000).rows.get("v", []))
            assert [key for key, _ in table.scan(b"d", b"z")] == [], (first, second)


@pytest.mark.parametrize("policy", [park(), retry(times=1, backoff=1, then=park())], ids=str)
def test_a_stream_that_is_set_aside_is_so_whatever_part_of_a_unit_s_rows_is_there(
    policy: OnError,
) -> None:
    fails = True

    def handler(event: Event) -> None:
        if fails:
            raise ValueError("no")

    topology = Topology("torn")
    source = topology.source("in", inspector=Inspector("s", "n"), keyed=True)
    topology.view("v", of=source, handler=handler, error=policy)
    for written in range(3):
        table, fails = MemoryTable(), True
        rows: list[Row] = (
            StreamTask(topology, source, 0, {"v": table}).process([record(0, 1)], 1).rows["v"]
        )
        assert rows[0][0] == b"pa"
        table.write(rows[:written])
        again = StreamTask(topology, source, 0, {"v": table})
        table.write(again.process([record(0, 1)], 2).rows["v"])
        state = again.views["v"].state
        known = written < 2  # else the event is there already, and its count went with the crash
        if policy == park():
            assert state.parked == {"a": 1}, written
            assert (state.counts.waiting, state.counts.parked) == (0, known), written
        else:
            assert again.views["v"].retry_due < 2_000, written
            fails = False
            again.process([], 2_000, 2_000)
            assert last_of(state.progress("a")) == state.counts.processed == 1, written
            assert state.counts.waiting == known - 1, written


def test_a_state_that_is_too_large_fails_its_event_and_is_not_kept() -> None:
    def handler(event: Event, state: dict[str, str]) -> None:
        state["x"] = "x" * (OUTPUT_LIMIT if event.sequence == 2 else 1)

    topology = Topology("large")
    topology.source("in", inspector=Inspector("s", "n"))
    topology.view("v", of="in", handler=handler)
    driver = TopologyTestDriver(topology)
    for sequence in (1, 2, 3):
        driver.pipe("in", {"s": "a", "n": sequence})
    assert (driver.counts("v").processed, driver.counts("v").failed) == (2, 1)
    assert driver.state("v", "a") == {"x": "x"}
    assert "the limit is" in driver.read_json("large.errors")[0]["error"]
