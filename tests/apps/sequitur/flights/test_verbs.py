"""The flights' windows, through the demo's network, equal what pandas makes of the table."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pandas as pd
import pytest

from sequitur.flights.movements import Messages
from sequitur.flights.network import Network
from topology import Inspector, Topology, skip
from topology.testing import TopologyTestDriver
from topology.verbs import count, events, mean, most, tumbling

MovesOf = Callable[[int], pd.DataFrame]
DAY = 24 * 3600
HOUR = 3600
DELAY = 60


@dataclass
class Move:
    tail: str
    number: int
    kind: str

    time: datetime
    origin: str = ""
    dep_delay: int | None = None


def tables(flights: pd.DataFrame, moves: pd.DataFrame, network: Network) -> Any:
    """(movements by aircraft and day, worst delays, means by airport and hour, losses)."""
    topology = Topology("flights")
    source = topology.source("moves", inspector=Inspector("tail", "number", "kind"))
    seen = events(topology, source, of=Move, time=lambda move: move.time)
    gap = skip(after=DELAY)
    seen.each().window(tumbling(DAY)).fold(count(), name="days", gap=gap).to_rows("days")
    out = seen.filter(lambda move: move.kind == "OUT")
    worst = out.each().fold(most(lambda move: move.dep_delay or 0), name="worst", gap=gap)
    worst.to_rows("worst")
    hours = out.by(lambda move: move.origin).window(tumbling(HOUR))
    hours.fold(mean(lambda move: move.dep_delay or 0), name="hours", gap=gap).to_rows("hours")
    driver = TopologyTestDriver(topology, strict=False)
    delivery = network.deliver(flights, moves)
    messages = Messages(flights, moves)
    for index in delivery.arrivals["index"]:
        driver.pipe("moves", messages[int(index)])
    driver.advance(2 * DELAY)
    made = [driver.table(name) for name in ("days", "worst", "hours")]
    return *made, delivery.lost


@pytest.mark.parametrize("lost", [0.0, 0.01])
def test_windows_over_the_demos_network_equal_pandas_and_missing_equals_the_losses(
    flights: pd.DataFrame, moves_of: MovesOf, lost: float
) -> None:
    moves = moves_of(2_000)
    days, worst, hours, gone = tables(flights, moves, replace(Network(seed=7), lost=lost))
    arrived = moves[~gone]
    by_day = arrived.groupby(["tail", arrived["time"].dt.floor("D")]).size()
    assert {key: row["value"] for key, row in days.items()} == {
        (tail, day.to_pydatetime()): n for (tail, day), n in by_day.items()
    }
    left = arrived[arrived["kind"] == "OUT"].merge(flights, on="flight_id")
    expected = left.groupby("tail")["dep_delay"].max()
    assert {tail: row["value"] for (tail,), row in worst.items() if row["value"] is not None} == {
        tail: int(value) for tail, value in expected.items()
    }
    at = [left["origin"], left["time"].dt.floor("h")]
    means = left["dep_delay"].fillna(0).groupby(at).mean()
    assert {key: row["value"] for key, row in hours.items()} == pytest.approx(
        {(origin, hour.to_pydatetime()): float(value) for (origin, hour), value in means.items()}
    )
    # Nobody can tell of an aircraft's last movements that they are missing.
    last = arrived.groupby("tail")["number"].max()
    noticed = moves[gone & (moves["number"] < moves["tail"].map(last).fillna(0)).to_numpy()]
    assert sum(row["missing"] for row in days.values()) == len(noticed)
    assert bool(lost) == bool(len(noticed))
