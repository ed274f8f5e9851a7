"""What all tests share: the run's one Kafka broker, and names that no other test uses.

Hypothesis tries the same 50 examples on every run, 2,000 new ones by SEQUITUR_HYPOTHESIS=2000.
"""

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from checkout import rabbitmq, redis
from checkout.postgres import FAST, Postgres
from sequitur.local import broker_config, home
from sequitur.local.broker import Broker
from tests import own_process, quick_spark
from tests.examples import some
from tests.topic_records import topic_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.topology.faust.worker_process import Worker

_EXAMPLES = os.environ.get("SEQUITUR_HYPOTHESIS")
# The same examples on every run, so that a change is judged by what it changes. A number asks for
# as many new ones. No deadline: how long an example takes says more of the machine than the code.
settings.register_profile(
    "sequitur",
    derandomize=_EXAMPLES is None,
    database=None,
    max_examples=int(_EXAMPLES or some(50)),
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sequitur")
# What tests start imports from this checkout, as they do.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(home.ROOT), str(home.ROOT / "apps"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

_QUICK = {
    **quick_spark.LONG,
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
}

# Set by the process that hands tests to xdist's workers, so that they share its broker.
_ADDRESS = "SEQUITUR_TEST_BROKER"
_SERVERS = {"broker", "postgres", "rabbitmq_server", "redis_server", "spark"}
_run_broker = pytest.StashKey["_RunBroker"]()


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The broker of this test run; tests neither stop it nor rely on what others left in it."""

    address: str


def make_topics(address: str, *topics: NewTopic) -> None:
    """Make topics of a broker, and wait until it shows them: its answer comes a moment before."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics(list(topics)).values():
        made.result(60)
    end = time.monotonic() + 60
    for topic in topics:
        while not _is_there(admin, topic.topic):
            assert time.monotonic() < end, f"topic {topic.topic} was made and is not there"
            time.sleep(0.02)


def _is_there(admin: AdminClient, topic: str) -> bool:
    found = admin.list_topics(topic, timeout=60).topics[topic]
    return found.error is None and bool(found.partitions)


class _RunBroker:
    """A broker in a temporary folder, for as long as the run takes."""

    def __init__(self) -> None:
        home.HOME.mkdir(exist_ok=True)
        self._folder = tempfile.TemporaryDirectory(dir=home.HOME, prefix="test-broker-")
        self._broker = Broker(Path(self._folder.name, "broker"))
        try:
            self.address = self._broker.start().address
        except BaseException:
            self._folder.cleanup()
            raise

    def stop(self) -> None:
        self._broker.kill()  # what it would put in order is deleted
        self._folder.cleanup()


def pytest_configure(config: pytest.Config) -> None:
    # For all processes that tests start: a third less of CPU until Spark has said its first word.
    os.environ.update(quick_spark.environment())
    os.environ["PYTHONFAULTHANDLER"] = "1"  # see soak.ended
    if getattr(config.option, "numprocesses", None) and "not integration" not in (
        config.option.markexpr
    ):
        config.stash[_run_broker] = _RunBroker()
        os.environ[_ADDRESS] = config.stash[_run_broker].address
    # Not for the run's broker, which lives long enough for the better compiler.
    broker_config.JVM_OPTIONS += quick_spark.JVM


def pytest_unconfigure(config: pytest.Config) -> None:
    if _run_broker in config.stash:
        config.stash[_run_broker].stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses a server, and let it begin first: xdist's workers end at about one time."""
    for item in items:
        module = getattr(getattr(item, "function", None), "__module__", None)
        processes = module == "stores.view_state.contract_processes"
        if processes or _SERVERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("integration")
    items.sort(key=lambda item: item.get_closest_marker("integration") is None)


def pytest_collection_finish() -> None:
    # Hypothesis tries the constants of all modules that it finds, too: of those that are there now,
    # and not of what some tests import before others, or the examples would not be the same.
    constants = providers._get_local_constants()
    providers._get_local_constants = lambda: constants
    # Thousands of tests that stay until the end, which no collection of garbage has to look at.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    if (forked := sys.modules.get("tests.forked")) is not None:
        forked.preload()  # as the soaks' modules, which were imported behind it, want another list


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Not around fixtures: what a server that others share has set stays."""
    with own_process.kept():
        return (yield)


@pytest.fixture(scope="session")
def broker() -> Iterator[BrokerAddress]:
    """A running broker: `.address` is `host:port`.

    It makes no topics by itself: see the fixtures `topic` and `create_topics`.
    """
    if _ADDRESS in os.environ:
        yield BrokerAddress(os.environ[_ADDRESS])
        return
    run_broker = _RunBroker()
    yield BrokerAddress(run_broker.address)
    run_broker.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL, shared by this process's tests: use a database of your own."""
    # Which would look at hundreds of databases in turn, all the time.
    with Postgres({**FAST, "autovacuum": "off"}) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[redis.Redis]:
    """A running Redis, shared by this process's tests: use keys of your own."""
    if redis.server_file() is None:
        pytest.skip("no Redis: there is no package with the server for this Python; install one")
    with redis.Redis() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[rabbitmq.RabbitMQ]:
    """A running RabbitMQ, shared by this process's tests: use queues of your own."""
    if (missing := rabbitmq.missing()) is not None:
        pytest.skip(missing)
    with rabbitmq.RabbitMQ() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A Spark session with Kafka and Delta Lake, shared by this process's tests."""
    from sequitur.spark.session import spark_session

    with pytest.MonkeyPatch.context() as patch:
        for name, words in quick_spark.environment(quick_spark.LONG).items():
            patch.setenv(name, words)
        session = spark_session("tests", delta=True, settings=_QUICK)
    yield session
    session.stop()


@pytest.fixture
def database(postgres: Postgres, unique: Callable[[str], str]) -> str:
    """The URL of a new, empty database."""
    return postgres.new_database(unique("test"))


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """word → a name for a topic, group or application that nothing else uses.

    Topics whose names begin with it are deleted afterwards: whatever asks a broker for all of its
    topics, as every start of a worker does, takes longer the more there are.
    """
    shared = "broker" in request.fixturenames
    address = request.getfixturevalue("broker").address if shared else ""
    given: list[str] = []

    def name(word: str) -> str:
        given.append(f"{word}-{uuid4().hex[:8]}")
        return given[-1]

    yield name
    if given and address:
        _delete_topics(address, tuple(given))


def _delete_topics(address: str, beginnings: tuple[str, ...]) -> None:
    admin = _admin(address)
    topics = [name for name in admin.list_topics(timeout=60).topics if name.startswith(beginnings)]
    if topics:
        for deleted in admin.delete_topics(topics).values():
            with suppress(KafkaException):
                deleted.result(60)
        topic_records(address).forget(topics)


@cache
def _admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


@pytest.fixture
def worker(
    request: pytest.FixtureRequest,
    broker: BrokerAddress,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> Iterator["Worker"]:
    """A worker of the module's APP, with an input topic of PARTITIONS, 2 unless it says so."""
    from tests.topology.faust.worker_process import Worker

    module = request.module
    name = module.__name__.rpartition("test_")[2].replace("_", "-")
    partitions = getattr(module, "PARTITIONS", 2)
    made = Worker(broker.address, unique(name), tmp_path, module.APP, partitions)
    yield made
    made.kill()


@pytest.fixture
def create_topics(broker: BrokerAddress) -> Callable[[dict[str, int]], None]:
    """{name: partitions} → these topics, once they are there."""

    def create(names: dict[str, int]) -> None:
        make_topics(broker.address, *(NewTopic(name, count, 1) for name, count in names.items()))

    return create


@pytest.fixture
def topic(
    create_topics: Callable[[dict[str, int]], None], unique: Callable[[str], str]
) -> Callable[..., str]:
    """(word, partitions=1) → the name of a new topic that no other test uses."""

    def create(word: str, partitions: int = 1) -> str:
        name = unique(word)
        create_topics({name: partitions})
        return name

    return create
