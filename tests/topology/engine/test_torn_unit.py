"""At least once, a unit's rows may be written in part: nothing that waits may be lost by it."""

import orjson
import pytest

from stores.view_state.memory import MemoryTable
from topology import Event, Inspector, Record, Topology
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
