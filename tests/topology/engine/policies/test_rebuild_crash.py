"""late=rebuild_stream(): a rebuild that is cut off is made again."""

import orjson
import pytest

from tests.topology.engine.policies.rebuilt import came, faulty, late_by_three, placed
from tests.topology.engine.rebuilding import (
    Rebuilding,
    orders,
    read_store,
    rebuilding,
)


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
