"""Twenty orders of arrival, one hash per table: in the test driver, on Faust and on Spark."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import BrokerAddress
from tests.topology.faust.worker_process import Worker
from tests.topology.spark.fake_spark import FakeSpark
from tests.topology.spark.live_process import LiveProcess, records
from tests.topology.verbs.orders import IN_VIEWS, OVER_HOPS, arriving, flights, tables_of, topology
from topology import TopologyTestDriver
from topology.model.errors import DeclarationError
from topology.model.event import Record
from topology.spark import check_supported
from topology.spark.reference import refer

APP = """
import os
from tests.topology.verbs.orders import flights
from topology.faust import compile

prefix = os.environ["PREFIX"]
app = compile(flights(prefix, hops=True), group=prefix, session_timeout=60)
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


def test_the_code_that_spark_runs_makes_the_same_tables_in_any_batches() -> None:
    spark = FakeSpark(topology, refer(topology), seed=3)
    records = [
        Record("flights.in", 0, at, move["tail"].encode(), orjson.dumps(move), (), at)
        for at, move in enumerate(arriving())
    ]
    for at in range(0, len(records), 150):
        spark.batch(records[at : at + 150], 10**12 + at, watermark=None)
    said = spark.records
    values = [each.value for view in VIEWS for each in said.get(f"flights.{view}", ())]
    wanted, _ = driven()
    assert tables_of(values, IN_VIEWS) == {name: wanted[name] for name in IN_VIEWS}


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

        def missing() -> str:
            found = tables(broker, prefix, IN_VIEWS)
            return "" if found == in_views else f"{found} is not {in_views}"

        live.wait(missing)
    finally:
        live.close()


def tables(broker: BrokerAddress, prefix: str, names: Iterable[str]) -> Any:
    """The hashes of tables as output topics have them, None while there are rows missing."""
    said = [each.value() for view in VIEWS for each in records(broker.address, f"{prefix}.{view}")]
    try:
        return tables_of(said, names)
    except AssertionError as error:
        return str(error)
