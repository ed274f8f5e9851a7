"""Cells: rows of a stream's state by key, of which only those that change are written."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from tests.topology.torn_units import TornUnits, but_counts
from topology import Inspector, Topology, TopologyTestDriver, park, rebuild_stream, skip
from topology.engine.output.live_cells import Cells, MemoryCells
from topology.engine.state.cells import StoredCells, decode_cell, encode_cell
from topology.engine.state.foreign_rows import foreign
from topology.engine.state.rows import TORN, cell_key
from topology.engine.stream_task import StreamTask
from topology.model.changes import Upsert
from topology.model.errors import DeclarationError, HandlerError
from topology.model.event import Event, Record
from topology.testing import Simulator


def counting(event: Event, state: dict[str, Any], cells: Any) -> Iterator[Upsert]:
    """Counts the events of each gate, and forgets a gate that closes."""
    gate = event.content["gate"]
    if event.content.get("fails"):
        cells[gate] = {"n": -1}
        raise ValueError("no such gate")
    if event.content.get("closes"):
        cells.pop(gate, None)
        return
    found = cells.setdefault(gate, {"n": 0})
    found["n"] += 1
    yield Upsert("gates", {"stream": event.stream, "gate": gate}, {"n": found["n"]})


def airport(**options: Any) -> Topology:
    topology = Topology("airport")
    source = topology.source("moves", inspector=Inspector("tail", "number"))
    topology.view("gates", of=source, handler=counting, **options)
    return topology


def move(number: int, gate: str, tail: str = "N1", **more: Any) -> dict[str, Any]:
    return {"tail": tail, "number": number, "gate": gate, **more}


def cells_of(driver: TopologyTestDriver, stream: str = "N1") -> dict[str, bytes | None]:
    cells = driver._runner.view("gates").state.cells
    return {key: cells.get(stream, key) for key in cells.keys(stream)}


def test_a_handler_s_cells_are_there_for_the_next_event_and_after_a_restart() -> None:
    driver = TopologyTestDriver(airport())
    for number, gate in [(2, "B"), (1, "A"), (3, "A")]:
        driver.pipe("moves", move(number, gate))
    driver.restart()
    driver.pipe("moves", move(4, "A"))
    assert {row["gate"]: row["n"] for row in driver.table("gates").values()} == {"A": 3, "B": 1}
    assert cells_of(driver) == {"A": b'{"n":3}', "B": b'{"n":1}'}


def test_only_cells_that_change_are_written() -> None:
    driver = TopologyTestDriver(airport())
    for number in range(1, 101):
        driver.pipe("moves", move(number, f"gate {number}"))
    table = driver._storage.stores["gates"]
    before = dict(table.rows)
    driver.pipe("moves", move(101, "gate 7"))
    written = [key for key, row in table.rows.items() if before.get(key) != row]
    assert [key for key in written if key[:1] == b"s"] == [cell_key("N1", "gate 7")]


def test_what_a_failing_event_did_to_cells_did_not_happen() -> None:
    driver = TopologyTestDriver(airport(error=park()))
    driver.pipe("moves", move(1, "A"))
    driver.pipe("moves", move(2, "A", fails=True))
    driver.pipe("moves", move(3, "A"))
    assert cells_of(driver) == {"A": b'{"n":1}'}


def test_a_cell_that_is_deleted_is_gone_and_so_is_its_row() -> None:
    driver = TopologyTestDriver(airport())
    driver.pipe("moves", move(1, "A"))
    driver.pipe("moves", move(2, "A", closes=True))
    driver.pipe("moves", move(3, "B"))
    assert cells_of(driver) == {"B": b'{"n":1}'}
    assert driver._storage.stores["gates"].get(cell_key("N1", "A")) is None


def test_a_stream_that_is_forgotten_leaves_no_cells() -> None:
    driver = TopologyTestDriver(airport())
    driver.pipe("moves", move(1, "A"))
    driver.command("drop", "gates", "N1")
    assert cells_of(driver) == {}
    driver.restart()
    driver.pipe("moves", move(1, "A"))
    assert cells_of(driver) == {"A": b'{"n":1}'}


def test_a_closing_event_leaves_no_cells() -> None:
    topology = Topology("airport")
    source = topology.source("moves", inspector=Inspector("tail", "number", "kind"))
    topology.view("gates", of=source, handler=counting, closes="Sold", retention=60)
    driver = TopologyTestDriver(topology)
    driver.pipe("moves", move(1, "A", kind="Moved"))
    driver.pipe("moves", move(2, "B", kind="Sold"))
    assert cells_of(driver) == {}


def test_a_rebuilt_stream_has_the_cells_of_its_events_in_sequence() -> None:
    driver = TopologyTestDriver(airport(gap=skip(after=10), late=rebuild_stream()))
    for number, gate in [(1, "A"), (3, "A"), (4, "C")]:
        driver.pipe("moves", move(number, gate))
    driver.advance(11)
    assert cells_of(driver) == {"A": b'{"n":2}', "C": b'{"n":1}'}
    driver.pipe("moves", move(2, "C", closes=True))
    driver.pipe("moves", move(5, "B"))
    assert cells_of(driver) == {"A": b'{"n":2}', "B": b'{"n":1}', "C": b'{"n":1}'}
    driver.restart()
    assert cells_of(driver) == {"A": b'{"n":2}', "B": b'{"n":1}', "C": b'{"n":1}'}


def test_the_key_of_a_cell_has_room_in_every_store() -> None:
    cells = Cells(MemoryCells(), "s" * 600, {})
    cells["ß" * 1_000] = 1
    with pytest.raises(HandlerError, match="room for 2000 bytes"):
        cells["\u4e00" * 700] = 1
    with pytest.raises(HandlerError, match="1 to 1000 letters"):
        cells["a" * 1_001] = 1


def test_workers_and_cells_do_not_go_together() -> None:
    with pytest.raises(DeclarationError, match="takes cells"):
        airport(workers=4)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_cells_are_as_if_nothing_had_failed_whatever_does(guarantee: Any) -> None:
    def messages(seed: int) -> list[Any]:
        from random import Random

        chance = Random(seed)
        sent = []
        for number in range(1, 9):
            for tail in ("N1", "N2"):
                body = move(number, chance.choice("AB"), tail, closes=chance.random() < 0.2)
                sent.append(("moves", body))
        return sent

    for options in ({}, {"gap": skip(after=5), "late": rebuild_stream()}):
        graph = airport(**options)
        simulator = Simulator(graph, messages, guarantee=guarantee, runner=TornUnits)
        audit = simulator._audit.errors
        simulator._audit.errors = lambda run, audit=audit: but_counts(audit(run))  # type: ignore
        assert simulator.run(range(60)).handled


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.one_of(st.none(), st.integers(-9, 9), st.text(max_size=3))
        ),
        max_size=30,
    )
)  # fmt: skip
def test_cells_are_a_dictionary(changes: list[tuple[str, Any]]) -> None:
    table = MemoryTable()
    stored, plain = StoredCells(table, lambda _: 100), dict[str, Any]()
    for at, (key, value) in enumerate(changes):
        cells = Cells(stored, "s", {})
        if value is None:
            assert cells.pop(key, None) == plain.pop(key, None)
        else:
            cells[key] = plain[key] = value
        assert dict(cells) == dict(sorted(plain.items()))
        rows, gone = stored.take("s", cells.changed(), at)
        table.write([*rows, *gone])
        assert dict(Cells(StoredCells(table, lambda _: 100), "s", {})) == plain


def test_where_a_unit_is_one_transaction_a_row_has_no_value_before_it() -> None:
    table = MemoryTable()
    stored = StoredCells(table, lambda _: 100, atomic=True)
    for at, value in enumerate((b"1", b"2")):
        rows, gone = stored.take("s", {"a": value}, at)
        assert (rows, gone) == ([(cell_key("s", "a"), encode_cell(at, value, None))], [])
        table.write(rows)
    assert dict(Cells(StoredCells(table, lambda _: 100), "s", {})) == {"a": 2}
    assert stored.take("s", {"a": None}, 2) == ([(cell_key("s", "a"), None)], [])


def test_a_cell_ahead_of_its_stream_s_progress_is_what_it_was_before() -> None:
    row = encode_cell(7, b'{"n":2}', b'{"n":1}')
    assert decode_cell(row, 7) == b'{"n":2}'
    assert decode_cell(row, 6) == b'{"n":1}'
    assert decode_cell(encode_cell(7, b"1", None), 6) is None
    assert decode_cell(encode_cell(7, None, b"1"), 9) is None


@pytest.mark.parametrize("before", [None, 3])
@pytest.mark.parametrize("touched", [False, True])
def test_a_cell_that_a_crash_left_ahead_does_not_come_back(
    before: int | None, touched: bool
) -> None:
    table, raw = MemoryTable(), None if before is None else orjson.dumps(before)
    table.write([(TORN, b"1"), (cell_key("s", "a"), encode_cell(7, b"1", raw))])
    stored = StoredCells(table, lambda _: 6)
    corrections = stored.mend(lambda _: 6)
    cells = Cells(stored, "s", {})
    assert cells.get("a") == before
    if touched:
        cells["a"] = 1
    if before is not None:
        cells["a"] = before
    elif touched:
        del cells["a"]
    rows, gone = stored.take("s", cells.changed(), 8)
    table.write([*corrections, *rows, *gone])
    assert table.get(TORN) is None
    found = dict(Cells(StoredCells(table, lambda _: 8), "s", {}))
    assert found == ({} if before is None else {"a": before})


def naming(event: Event, state: dict[str, Any], cells: Any) -> Iterator[Upsert]:
    """Keeps a cell for each pair of events that follow each other."""
    cells[f"{state.get('last', 0)}-{event.sequence}"] = 1
    state["last"] = event.sequence
    yield from ()


def test_a_cell_of_a_gap_that_was_given_up_before_a_crash_is_gone_if_its_event_comes_after() -> (
    None
):
    topology = Topology("airport")
    source = topology.source("moves", inspector=Inspector("tail", "number"))
    topology.view("gates", of=source, handler=naming, gap=skip(after=5))
    table = MemoryTable()

    def task(position: int) -> StreamTask:
        return StreamTask(topology, source, 0, {"gates": table}, position=position)

    def sent(offset: int, number: int) -> list[Record]:
        body = orjson.dumps(move(number, "A"))
        return [Record("moves", 0, offset, b"N1", body)]

    first = task(0)
    for offset, number in enumerate((1, 3)):
        table.write(first.process(sent(offset, number), 1_000).rows["gates"])
    rows = first.process([], 10_000, 10_000).rows["gates"]
    assert [key for key, _ in rows][:3] == [TORN, cell_key("N1", "1-3"), b"pN1"]
    for cut in (2, 1):
        table.write(rows[:cut])
        table.write(task(2).process(sent(2, 2), 11_000).rows["gates"][:cut])
    table.write(task(2).process(sent(2, 2), 11_000).rows["gates"])
    last = task(3)
    assert last.views["gates"].state.cells.keys("N1") == ["0-1", "1-2", "2-3"]
    assert table.get(TORN) is None


@pytest.mark.parametrize(
    ("key", "value"), [("", 1), (5, 1), ("x" * 1001, 1), ("a", float("nan")), ("a", object())]
)  # fmt: skip
def test_what_no_cell_can_hold_fails_its_event(key: Any, value: Any) -> None:
    cells = Cells(MemoryCells(), "s", {})

    def change() -> None:
        cells[key] = value
        cells.changed()

    with pytest.raises(HandlerError, match="cell"):
        change()


@pytest.mark.parametrize(
    ("key", "value", "is_foreign"),
    [
        (cell_key("N1", "A"), encode_cell(3, b"1", None), False),
        (cell_key("N1", "A"), None, False),
        (b"sN1\0", b"[3,[1],[]]", True),
        (b"s\0A..", b"[3,[1],[]]", True),
        (cell_key("N1", "A"), b"[3,[1],[1,2]]", True),
        (cell_key("N1", "A"), b"{}", True),
        (cell_key("N1", "A"), b'["3",[],[]]', True),
    ],
)
def test_rows_of_cells_that_no_engine_wrote_are_told(
    key: bytes, value: bytes | None, is_foreign: bool
) -> None:
    assert bool(foreign(key, value)) is is_foreign
