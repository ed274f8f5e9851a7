import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sequitur.local.broker import Broker
from sequitur.local.broker_config import configure
from sequitur.local.home import LocalError, locked
from sequitur.local.kafka_probe import answers
from sequitur.local.process import command_of

_OWNER = """\
import os, sys
from pathlib import Path
from sequitur.local.broker import Broker
from sequitur.local.broker_config import configure
broker = Broker(Path(sys.argv[1]), int(sys.argv[2])).start()
print(broker.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_folder_has_one_broker(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"), pytest.raises(LocalError, match="another process is running"):
        Broker(tmp_path).start()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            LocalError, match=rf"127\.0\.0\.1:{port}: the port is not free.*\n.*Remed"
        ):
            Broker(tmp_path, port).start()
    with locked(tmp_path / "lock", wait=False) as free:
        assert free


@pytest.mark.parametrize("name", ["a,b", "\udcff"])
def test_a_folder_that_kafka_cannot_name_is_refused_and_not_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(LocalError, match=r"comma.*\n.*choose another folder"):
        Broker(tmp_path / name / "broker").start()
    assert not list(tmp_path.iterdir())


def test_a_leftover_pid_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "pid").write_text(str(other.pid))
        broker._end_leftover()
        assert other.poll() is None
        other.kill()
    assert not (tmp_path / "pid").exists()


def produce(address: str, topic: str, *values: str, commit: bool = True) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "test"})
    producer.init_transactions(120)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(120)
    if commit:
        producer.commit_transaction(120)
    else:
        producer.abort_transaction(120)


def consume(address: str, topic: str) -> list[str]:
    """All committed values of a topic of one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    values = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        values.append((message.value() or b"").decode())
    consumer.close()
    return values


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.mark.integration
def test_records_outlive_sigkill_and_an_aborted_transaction_is_not_seen(own_broker: Broker) -> None:
    address = own_broker.address
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("numbers", 1, 1)])["numbers"].result(120)
    produce(address, "numbers", "1", "2")
    produce(address, "numbers", "not committed", commit=False)
    assert consume(address, "numbers") == ["1", "2"]

    own_broker.kill()
    assert not answers("127.0.0.1", own_broker.port)
    own_broker.start()
    assert own_broker.address == address
    produce(address, "numbers", "3")
    assert consume(address, "numbers") == ["1", "2", "3"]


@pytest.mark.integration
def test_a_misspelt_topic_does_not_come_into_being(own_broker: Broker) -> None:
    topics = AdminClient({"bootstrap.servers": own_broker.address}).list_topics("nubmers").topics
    assert topics["nubmers"].error is not None


@pytest.mark.integration
def test_a_broker_whose_owner_was_killed_does_not_hold_up_the_next(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    command = [sys.executable, "-c", _OWNER, str(tmp_path), str(broker.port)]
    owner = subprocess.run(command, capture_output=True, text=True, check=False)
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    with broker:
        assert broker.pid != int(owner.stdout)
        # It has ended; whether somebody has taken note of that is another matter.
        assert command_of(int(owner.stdout)) == ""


@pytest.mark.integration
def test_a_folder_may_have_any_letters(tmp_path: Path) -> None:
    data = tmp_path / "Müll 😀\\x" / "b"
    data.mkdir(parents=True)
    for _ in range(2):
        configure(data, 9092, {})
    assert (data / "records" / "meta.properties").is_file()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.integration
def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broker = Broker(tmp_path, settings={"log.retention.ms": "much"})
    with pytest.raises(LocalError, match=r"(?s)formatted|ended while starting.*much"):
        broker.start()
    assert not broker.running
