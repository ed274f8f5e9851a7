"""The counters of a view's events only grow, though what they count is mended."""

from tests.topology.handled import driver_of, order
from topology import Event, redeliver
from topology.faust.worker.watch.worker_metrics import ViewState, _of_views
from topology.monitoring import Growth


def board(event: Event) -> None:
    pass


def test_a_counter_does_not_go_down_where_somebody_mends_what_it_counts() -> None:
    driver, grown = driver_of(board, buffer=2, full=redeliver(delay=1, limit=1)), Growth()
    task = driver._runner.view("board")

    def figure(outcome: str) -> float:
        (found,) = [
            sample.value
            for family in _of_views([ViewState("board", 0, task)], [], grown)
            for sample in family.samples
            if sample.labels.get("outcome") == outcome
        ]
        return found

    for sequence in (2, 3, 4, 5):
        driver.pipe("orders", order(sequence))
    driver.advance(60)
    driver.pipe("orders", order(1))
    dead = task.state.counts.dead
    assert figure("dead") == dead > 0
    driver.redrive_dead("board")
    assert task.state.counts.dead == 0
    assert figure("dead") == dead
    grown = Growth()  # a worker that starts
    assert figure("dead") == dead

    found = []
    for late in (3, 1, 2):  # two were rebuilt, then one more came
        task.state.counts.late = late
        found.append(figure("late"))
    assert found == [3, 3, 4]
