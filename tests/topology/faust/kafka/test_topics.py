"""The topics that a topology needs: told, made, and waited for."""

import signal
import time

import orjson
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic
from pydantic import ValidationError

from tests.topology.faust.worker_process import Worker
from topology import Inspector, Topology
from topology.faust import Settings
from topology.faust.kafka.broker.shapes import _shape, shapes_text
from topology.faust.kafka.topics import Topic, given, needed, own
from topology.model.topic_retention import DAY

APP = """
import os
from topology import Inspector, Topology, Upsert
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(prefix + ".orders", inspector=Inspector("id", "n"), partitions=3)

@topology.view("board", of=source)
def board(event):
    yield Upsert("board", key={"id": event.stream}, values={"n": event.sequence})

app = compile(topology, group=prefix, session_timeout=60)
"""


def shop() -> Topology:
    topology = Topology("shop")
    inspector = Inspector("id", "n")
    orders = topology.source(["web", "till"], name="orders", inspector=inspector, partitions=3)
    bills = topology.source("bills", inspector=inspector, keyed=True, partitions=2)
    for name, source in (("board", orders), ("sums", bills)):
        topology.view(name, of=source, handler=lambda event: None)
    return topology


def test_every_topic_of_a_topology_is_named_with_its_shape() -> None:
    found = {t.name: t for t in needed(shop(), {"board": "c-board", "sums": "c-sums"}, 90)}
    assert found["shop.orders.by-stream"].partitions == 3
    assert found["bills"].partitions == 2
    assert (found["shop.board"].partitions, found["shop.sums"].partitions) == (3, 2)
    assert found["c-board"].compacted
    assert {t.name: t.partitions for t in given(shop())} == {"web": 3, "till": 3}
    asked = list(given(shop(), partitions=12, keep_days=7))
    assert {(t.partitions, t.config["retention.ms"]) for t in asked} == {(12, str(7 * DAY))}


def test_what_others_fill_keeps_what_it_is_told_to() -> None:
    topology = shop()
    topology.parallel("pay", topic="bank", workers=2, handler=lambda event: None)
    asked = needed(topology, {"board": "c-board", "sums": "c-sums", "pay": "c-pay"}, 90, 7)
    kept = {t.name for t in asked if t.config.get("retention.ms") == str(7 * DAY)}
    assert kept == {"bills", "bank"}


def test_no_side_topic_grows_for_ever_unless_somebody_says_so() -> None:
    topology = shop()
    for days, kept in ((Settings().side_retention_days, 90 * DAY), (-1, -1), (1.5, 1.5 * DAY)):
        topics = needed(topology, {"board": "c-board", "sums": "c-sums"}, days)
        side = [topic for topic in topics if topic.name in topology.side_topics]
        assert len(side) == len(topology.side_topics) >= 7
        assert {float(topic.config["retention.ms"]) for topic in side} == {kept}
    for wrong in (0, -2):
        with pytest.raises(ValidationError, match="above 0, or -1 for ever"):
            Settings(side_retention_days=wrong)


def test_what_is_wrong_with_a_topic_is_told_with_what_helps() -> None:
    of_own, changelog = own("t.board", 4), own("t-changelog", 4, compact=True)
    source = Topic("orders", 4, given=True)
    right = {"cleanup.policy": "delete", "retention.ms": str(7 * DAY)}
    assert _shape(of_own, None, {}).state == "missing"
    assert _shape(of_own, 4, right).state == "there"
    assert "set source(partitions=3)" in _shape(of_own, 3, right).wrong
    assert _shape(source, 9, right).state == "there"
    assert "set it to delete" in _shape(source, 4, {"cleanup.policy": "compact"}).wrong
    assert "set it to compact" in _shape(changelog, 4, {"cleanup.policy": "compact,delete"}).wrong
    text = shapes_text([_shape(source, None, {}), _shape(of_own, 3, right)])
    assert "missing     4 partitions  source topic" in text
    assert "wrong       3 partitions  kept 7 days: the topology says 4" in text


def test_a_topic_that_would_refuse_a_message_or_a_time_is_wrong() -> None:
    found = {t.name: t for t in needed(shop(), {"board": "c-board", "sums": "c-sums"}, 90)}
    (web, *_) = given(shop())
    small = {"max.message.bytes": "1048588"}
    created = {"message.timestamp.type": "CreateTime"}
    clock = {"message.timestamp.type": "LogAppendTime"} | small
    for name in ("shop.orders.by-stream", "shop.board", "shop.dead"):
        assert "set it to 8388608" in _shape(found[name], found[name].partitions, small).wrong
    compacted = {"cleanup.policy": "compact"}
    assert "set it to 8388608" in _shape(found["c-board"], 3, small | compacted).wrong
    of_clock = found["shop.clock"]
    assert "set message.timestamp.type to LogAppendTime" in _shape(of_clock, 1, created).wrong
    assert _shape(of_clock, 1, clock).state == "there"
    # What others fill is theirs to limit; nothing is known of what may not be read.
    for topic in (found["bills"], web):
        assert _shape(topic, topic.partitions, small | created).state == "there"
    for topic in found.values():
        assert _shape(topic, topic.partitions, {}).state == "there"


@pytest.mark.integration
def test_a_worker_without_its_source_topics_waits_for_them_or_for_sigterm(worker: Worker) -> None:
    log = worker.folder / "log"
    worker.start()
    worker.wait_until(lambda: "waiting for source topics" in log.read_text())
    assert worker.end(signal.SIGTERM) == 0
    assert "Traceback" not in log.read_text()

    log.unlink()
    worker.start()
    worker.wait_until(lambda: "waiting for source topics" in log.read_text())
    time.sleep(5)
    told = [line for line in log.read_text().splitlines() if "waiting for source topics" in line]
    assert len(told) == 1
    assert f"{worker.prefix}.orders" in told[0]
    assert "faust -A app topics --create" in told[0]
    admin = AdminClient({"bootstrap.servers": worker.broker})
    orders = NewTopic(f"{worker.prefix}.orders", 5, 1)
    admin.create_topics([orders])[f"{worker.prefix}.orders"].result()
    worker.wait_until(lambda: "Worker ready" in log.read_text())
    assert worker.end(signal.SIGTERM) == 0


@pytest.mark.integration
def test_a_command_makes_what_a_topology_needs(worker: Worker) -> None:
    source = f"{worker.prefix}.orders"
    admin = AdminClient({"bootstrap.servers": worker.broker})

    def there() -> set[str]:
        return {name for name in admin.list_topics(timeout=60).topics if worker.prefix in name}

    before = there()
    listed = worker.run("topics", "--json")
    assert listed.returncode == 1, listed.stderr
    assert {each["state"] for each in orjson.loads(listed.stdout)} == {"missing"}
    assert worker.run("topics", "--create", "--dry-run").returncode == 1
    assert there() == before

    made = worker.run("topics", "--create", "--partitions", "6", "--retention", "2d")
    assert (made.returncode, made.stderr) == (0, ""), made.stdout
    assert len(admin.list_topics(timeout=60).topics[source].partitions) == 6
    kept = {source: 2 * DAY, f"{worker.prefix}.dead": 90 * DAY}
    for name, milliseconds in kept.items():
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        found = admin.describe_configs([resource])[resource].result()
        assert found["retention.ms"].value == str(milliseconds)
    again = worker.run("topics")
    assert (again.returncode, again.stdout.count(" there ")) == (0, len(there() - before)), again
    worker.start()
    worker.wait_until(lambda: "Worker ready" in (worker.folder / "log").read_text())
    assert worker.end(signal.SIGTERM) == 0

    away = worker.run("topics", SEQUITUR_BROKER="127.0.0.1:1")
    assert away.returncode == 2
    assert "Traceback" not in away.stderr
