"""halt(): the view stops with the step in hand, and keeps what it did not handle."""

from tests.topology.deliveries import Arrival, records
from tests.topology.engine.policies.failing import FOR_EVER, Faults, done, feed
from tests.topology.handled import driver_of, order
from tests.topology.partition import Partition, board, shop
from topology import Event, TopologyTestDriver, halt
from topology.engine.state.positions import decode_positions
from topology.engine.state.rows import POSITIONS


def test_a_failed_event_halts_the_view_and_its_stream_waits() -> None:
    partition = Faults({("a", 2): FOR_EVER}).partition(error=halt())
    partition.feed(records([Arrival(stream, nth, 0) for nth in range(3) for stream in "ab"]))

    assert partition.view().halted == "stream a sequence 2 failed"
    assert done(partition) == [("a", 2, "halt")]
    assert partition.handled() == {"a": [1], "b": [1, 2, 3]}
    counts = partition.view().state.counts
    assert (counts.parked, counts.processed, counts.failed) == (2, 4, 0)
    assert counts.accounted == counts.received == 6
    assert any("view board is halted" in line for line in partition.reports)


def test_a_halted_view_has_nothing_due_and_nothing_unfinished() -> None:
    partition = Faults({("a", 1): FOR_EVER}).partition(error=halt())
    partition.drain = 1
    partition.crash()
    feed(partition, 5, 4, 3, 2, stream="b")
    partition.commit(partition.process(records([Arrival("b", 0, 0), Arrival("a", 0, 0)])))
    assert partition.view().state.unfinished_streams
    assert not partition.view().unfinished
    assert partition.due == float("inf")


def test_it_stays_halted_over_a_restart() -> None:
    partition = Faults({("a", 1): FOR_EVER}).partition(error=halt())
    feed(partition, 1)
    row = partition.tables["board"].rows[POSITIONS]
    assert decode_positions(row).halted == "stream a sequence 1 failed"
    partition.crash()
    assert partition.view().halted == "stream a sequence 1 failed"
    assert not partition.view().unfinished


def test_other_views_of_the_source_go_on() -> None:
    topology = shop(handler=Faults({("a", 1): FOR_EVER}).handler, error=halt(), keyed=False)
    topology.view("other", of="orders", handler=board)
    driver = TopologyTestDriver(topology)
    for sequence in (1, 2, 3):
        driver.pipe("orders", order(sequence))
    assert driver.halted("board")
    assert driver.halted("other") is None
    assert (driver.last("board", "a"), driver.last("other", "a")) == (0, 3)


def test_what_came_meanwhile_is_handled_after_the_resume() -> None:
    failing = {2}

    def handler(event: Event) -> None:
        if event.sequence in failing:
            raise ValueError("no")

    driver = driver_of(handler, error=halt())
    for sequence in (1, 2, 3, 4):
        driver.pipe("orders", order(sequence))
    driver.restart()
    assert driver.last("board", "a") == 1

    assert driver.command("resume", "board").done
    assert driver.halted("board") == "stream a sequence 2 failed"

    failing.clear()
    assert driver.command("resume", "board").done
    assert driver.halted("board") is None
    assert driver.last("board", "a") == 4
    counts = driver.counts("board")
    assert (counts.processed, counts.received, counts.parked) == (4, 4, 0)


def test_a_full_ring_halts_the_view_and_keeps_the_event() -> None:
    partition = Partition(shop(buffer=3, full=halt()))
    feed(partition, 2, 3, 4)
    assert partition.view().halted == "stream a has no room for sequence 4 in its ring of 3 slots"
    assert partition.waiting("a") == [2, 3, 4]
    assert partition.view().state.counts.waiting == 3


def test_a_ring_that_is_not_full_does_not() -> None:
    partition = Partition(shop(buffer=3, full=halt()))
    feed(partition, 2, 3, 1, 6, 5, 4)
    assert partition.view().halted is None
    assert partition.handled() == {"a": [1, 2, 3, 4, 5, 6]}


def test_a_view_that_was_halted_as_it_was_full_goes_on_when_resumed() -> None:
    driver = driver_of(board, buffer=3, full=halt())
    for sequence in (2, 3, 4, 1):
        driver.pipe("orders", order(sequence))
    assert driver.last("board", "a") == 0
    driver.command("resume", "board")
    assert driver.last("board", "a") == 4
    assert driver.counts("board").accounted == driver.counts("board").received == 4
