"""Two sites: the run's broker, and one more."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewTopic

from sequitur.local.broker import Broker
from stores.sites import Site
from tests.conftest import BrokerAddress, make_topics


@pytest.fixture(scope="session")
def second_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that a test may kill and start again."""
    folder: Path = tmp_path_factory.mktemp("second-broker")
    broker = Broker(folder, heap="256m").start()
    yield broker
    broker.kill()  # what it would put in order is deleted


@pytest.fixture
def sites(broker: BrokerAddress, second_broker: Broker) -> tuple[Site, Site]:
    """Newark, at the broker of all tests, and Kennedy, at a broker of its own."""
    second_broker.start()
    addresses = {"newark": broker.address, "kennedy": second_broker.address}
    newark, kennedy = (Site(name, {"bootstrap_servers": at}) for name, at in addresses.items())
    return newark, kennedy


@pytest.fixture
def everywhere(sites: tuple[Site, ...], unique: Callable[[str], str]) -> Callable[..., str]:
    """(partitions=1, **config) → the name of a new topic of all sites."""

    def create(partitions: int = 1, **config: str) -> str:
        name = unique("movements")
        for site in sites:
            new = NewTopic(name, partitions, 1, config=config)
            make_topics(site.kafka["bootstrap_servers"], new)
        return name

    return create
