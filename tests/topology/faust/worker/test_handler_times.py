"""One event a batch is timed while the handler has it, and all events reach the handler."""

from types import SimpleNamespace
from typing import Any

from tests.topology.handled import driver_of, order
from topology import Event, park
from topology.faust.worker.watch.worker_metrics import WorkerMetrics


def test_a_sample_of_handlers_is_timed_and_no_event_is_lost() -> None:
    told, seen = list[float](), list[tuple[str, int]]()
    metric = SimpleNamespace(labels=lambda name: SimpleNamespace(observe=told.append))
    pages: Any = SimpleNamespace(histogram=lambda *_: metric)

    def board(event: Event) -> None:
        seen.append((event.stream, event.sequence))
        if event.kind == "Bad":
            raise ValueError("no")

    driver = driver_of(board, accepts={"Ok", "Bad"}, error=park())
    task = driver._runner.view("board")
    task.sampled = WorkerMetrics(pages).sampled_handlers(driver.topology.views["board"])
    driver.pipe("orders", order(1, "a", "Other"))
    assert told == []
    for sequence, stream, kind in ((2, "a", "Ok"), (1, "b", "Bad"), (2, "b", "Ok"), (5, "a", "Ok")):
        driver.pipe("orders", order(sequence, stream, kind))
    assert seen == [("a", 2), ("b", 1)]
    assert len(told) == 2
    driver.pipe("orders", order(4, "a", "Ok"))
    driver.pipe("orders", order(3, "a", "Ok"))  # and the two behind it, in one batch
    assert seen[2:] == [("a", 3), ("a", 4), ("a", 5)]
    assert len(told) == 3
