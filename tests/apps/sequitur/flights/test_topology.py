from collections.abc import Callable

import pandas as pd
import pytest

from sequitur.flights.movements import Messages
from sequitur.flights.network import Network
from sequitur.flights.topology import AIRCRAFT, BOARD, CARRIER_DELAY, SOURCE, topology
from sequitur.flights.verify import compare, expected_tables, rows_of
from topology import TopologyTestDriver

pytestmark = pytest.mark.integration

TABLES = (BOARD, AIRCRAFT, CARRIER_DELAY)
COUNT = 3000


@pytest.mark.parametrize("seed", [1, 2])
def test_the_views_equal_pandas_whatever_the_network_does(
    flights: pd.DataFrame, moves_of: Callable[[int], pd.DataFrame], seed: int
) -> None:
    moves = moves_of(COUNT)
    delivery = Network(seed=seed, rate=100, typical=2.0, twice=0.1, lost=0.01).deliver(
        flights, moves
    )
    assert delivery.overtaken(moves) > COUNT / 50
    messages = Messages(flights, moves)

    driver = TopologyTestDriver(topology)
    begin = driver.now
    for at, index, station in delivery.arrivals[["at", "index", "station"]].itertuples(index=False):
        driver.advance(max(0.0, at - (driver.now - begin) / 1000))
        driver.pipe(SOURCE, messages[index], key=station)
    driver.advance(60)

    expected = expected_tables(flights, moves, delivery.lost)
    got = {
        table.name: {
            key: {column: row[column] for column in table.columns}
            for key, row in driver.table(table.name).items()
        }
        for table in TABLES
    }
    result = compare({t.name: rows_of(expected[t.name], t) for t in TABLES}, got)
    assert result.differences == []
    assert result.rows > COUNT / 2
    assert_all_counted(driver, delivery.copies, int(delivery.lost.sum()))


def assert_all_counted(driver: TopologyTestDriver, copies: int, lost: int) -> None:
    for view in topology.views:
        counts = driver.counts(view)
        assert counts.received == counts.accounted == COUNT - lost + copies
        assert counts.processed + counts.passed == COUNT - lost
        assert counts.duplicate == copies
        assert 0 < counts.skipped <= lost
        assert (counts.waiting, counts.late, counts.failed) == (0, 0, 0)
        assert (counts.passed > 0) == (view == "carrier_delay")


def test_every_table_of_the_views_is_declared() -> None:
    assert [t for view in topology.views.values() for t in view.tables] == list(TABLES)
