"""The flights' tables without a broker: all arrives in the test driver, by the network's clock."""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain, groupby, repeat
from operator import itemgetter

import pandas as pd

from bench.verbs.deliveries import SKIP, Delivery, Flights
from bench.verbs.tables import TABLES, Table, take
from bench.verbs.topology import declared
from bench.workload import Message
from topology.model.event import Record
from topology.testing import TopologyTestDriver

TICK = 0.05
"""Seconds by which the clock moves; what arrives in one of these is one batch."""
AFTER = 15.0
"""Seconds after the last arrival in which what is late is given up, and what waits is settled."""


def tables(flights: Flights, delivery: Delivery, *, backlog: bool) -> dict[str, Table]:
    """Make the tables of a delivery.

    Args:
        flights: the movements and reports.
        delivery: how they arrive.
        backlog: whether all reports are read before the first movement, as where both wait in
            their topics; else both arrive as they come.
    """
    given_up = SKIP if delivery.loses else None
    driver = TopologyTestDriver(declared("verbs", "moves", "weather", TABLES, 1, given_up))
    reports = _timed("weather", flights.reports_that_arrive(delivery), flights.reported(delivery))
    moves = _timed("moves", flights.moves_that_arrive(delivery), flights.moved(delivery))
    if backlog:
        _pipe(driver, reports)
        _pipe(driver, moves)
    else:
        _pipe(driver, merge(reports, moves, key=itemgetter(0)))
    found = {name: Table() for name in TABLES}
    for name, table in found.items():
        for key, row in driver.table(name).items():
            take(key, row, table)
    return found


Arrival = tuple[float, str, Message]


def _timed(topic: str, arrivals: pd.DataFrame, messages: Iterable[Message]) -> Iterator[Arrival]:
    """Messages with the time of their arrival; what ends it all comes last."""
    at: list[float] = arrivals["at"].tolist()
    return zip(chain(at, repeat(at[-1])), repeat(topic), messages, strict=False)


def _pipe(driver: TopologyTestDriver, arrivals: Iterable[Arrival]) -> None:
    """Let them arrive, those of a tick at once."""
    moved, known = 0.0, dict[str, int]()
    for tick, some in groupby(arrivals, key=lambda each: each[0] // TICK):
        if tick * TICK > moved:
            driver.advance(tick * TICK - moved)
            moved = tick * TICK
        for topic, same in groupby(some, key=itemgetter(1)):
            driver.pipe_batch(topic, map(itemgetter(2), same))
        _forget(driver, known)
    driver.advance(AFTER)


def _forget(driver: TopologyTestDriver, known: dict[str, int]) -> None:
    """Drop what was read, and row changes, which the tables have: a year is too much for memory.

    A rebuild, which would need them, is not to happen here: all is in time for `SKIP`.
    """
    runner, topics = driver._runner, driver._storage.topics
    outputs = {view.output for view in driver.topology.views.values()}
    for topic in (*runner.inputs, *outputs):
        records: list[Record | None] = topics[topic]  # type: ignore[assignment]
        end = runner._fed[topic] if topic in runner.inputs else len(records)
        for at in range(known.get(topic, 0), end):
            records[at] = None
        known[topic] = end
