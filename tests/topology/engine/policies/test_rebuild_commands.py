"""late=rebuild_stream() and what operators do to its streams."""

from typing import Any

import pytest

from tests.topology.engine.policies.rebuilt import (
    came,
    driver_of,
    faulty,
    late_by_three,
    listed,
    placed,
)
from tests.topology.engine.rebuilding import (
    orders,
)
from topology import (
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    monotonic,
    park,
    rebuild_stream,
    redeliver,
    skip,
)


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


def test_drop_takes_the_late_events_with_it_and_raises_the_epoch() -> None:
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
    assert partition.values("shop.board")[-1]["epoch"] == 2


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
