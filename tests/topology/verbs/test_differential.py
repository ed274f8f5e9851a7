"""Twenty orders of arrival, one hash per table: in the test driver, on Faust and on Spark."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import BrokerAddress
from tests.topology.faust.worker_process import Worker
from tests.topology.spark.live_process import LiveProcess, records
from tests.topology.verbs.orders import IN_VIEWS, OVER_HOPS, arriving, flights, tables_of
from topology import TopologyTestDriver
from topology.model.errors import DeclarationError
from topology.spark import check_supported

APP = """
import os
from tests.topology.verbs.orders import flights
from topology.faust import compile

prefix = os.environ["PREFIX"]
app = compile(flights(prefix, hops=True), group=prefix, session_timeout=6)
"""
ALL = (*IN_VIEWS, *OVER_HOPS)
VIEWS = ("departures", "days", "legs", "hours", "slow")


@pytest.fixture
def app() -> str:
    return APP


def driven() -> tuple[dict[str, set[str]], TopologyTestDriver]:
    driver = TopologyTestDriver(flights("flights", hops=True))
    for move in arriving():
        driver.pipe("flights.in", move)
    said = [record.value for view in VIEWS for record in driver.read(f"flights.{view}")]
    return tables_of(said, ALL), driver


def test_twenty_orders_of_arrival_make_one_hash_per_table_in_the_driver() -> None:
    found, driver = driven()
    assert {name: len(hashes) for name, hashes in found.items()} == dict.fromkeys(ALL, 1)
    assert driver.audit(contents=True).sound


def test_spark_refuses_what_needs_a_topic_between_views_and_takes_the_rest() -> None:
    with pytest.raises(DeclarationError, match="no topic between views"):
        check_supported(flights("flights", hops=True))
    check_supported(flights("flights", hops=False))


@pytest.mark.integration
def test_faust_and_spark_make_the_tables_of_the_driver(
    worker: Worker,
    broker: BrokerAddress,
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    tmp_path: Path,
) -> None:
    wanted, _ = driven()
    bodies = [(move["tail"].encode(), orjson.dumps(move)) for move in arriving()]
    worker.start()
    worker.send(*bodies)
    worker.wait_until(lambda: tables(broker, worker.prefix, ALL) == wanted)
    worker.kill()
    prefix = unique("spark-orders")
    create_topics({f"{prefix}.in": 2})
    worker.prefix = prefix
    worker.send(*bodies)
    live = LiveProcess(
        tmp_path, broker.address, "tests.topology.verbs.orders:topology", PREFIX=prefix
    )
    try:
        live.start("--read-store", f"sqlite:///{live.store}", "--topics")
        in_views = {name: wanted[name] for name in IN_VIEWS}
        live.wait(lambda: tables(broker, prefix, IN_VIEWS) != in_views)
    finally:
        live.close()


def tables(broker: BrokerAddress, prefix: str, names: Iterable[str]) -> Any:
    """The hashes of tables as output topics have them, None while there are rows missing."""
    said = [each.value() for view in VIEWS for each in records(broker.address, f"{prefix}.{view}")]
    try:
        return tables_of(said, names)
    except AssertionError:
        return None
