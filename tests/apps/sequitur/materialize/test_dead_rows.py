"""The dead topic takes every dead record, the largest ones too, and none twice without need."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sequitur.materialize.dead_rows import DeadRows
from stores.sinks import DeadRecord, StoreError
from tests.conftest import BrokerAddress, make_topics

OPTIONS = {"kafka.max.request.size": "2000"}


class Topic:
    """As much of Spark and of a topic as sends records: what is larger than `limit` is refused."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.records: dict[str, tuple[bytes | None, dict[str, bytes]]] = {}
        self.sent: list[int] = []
        self.given: dict[str, str] = {}
        self._rows: list[Any] = []

    @property
    def write(self) -> "Topic":
        return self

    def createDataFrame(self, rows: list[Any], _schema: Any) -> "Topic":
        self._rows = rows
        return self

    def format(self, name: str) -> "Topic":
        assert name == "kafka"
        return self

    def options(self, **given: str) -> "Topic":
        self.given = given
        return self

    def save(self) -> None:
        self.sent.append(len(self._rows))
        for key, value, headers in self._rows:
            size = len(key) + len(value or b"") + sum(len(n) + len(v) for n, v in headers)
            if size > self.limit:
                said = "Job aborted: org.apache.kafka.common.errors.RecordTooLargeException: large"
                raise PySparkException(said)
            self.records[key.decode()] = value, dict(headers)


def dead_rows(topic: Topic, kafka: dict[str, str] | None = None) -> DeadRows:
    rows = DeadRows(cast(SparkSession, topic), "broker", "dead", kafka or {})
    rows._there = True
    return rows


def record(offset: int, value: bytes | None, reason: str = "no int") -> DeadRecord:
    return DeadRecord("t", 0, offset, reason, value)


def test_what_is_too_large_goes_without_its_value_and_the_others_whole(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = Topic(1_000)
    values = [None, b"", *(b"x" * (2_000 if at in (3, 11) else 10) for at in range(2, 16))]
    dead_rows(topic)([record(at, value) for at, value in enumerate(values)])
    for at, value in enumerate(values):
        found, headers = topic.records[f"t/0/{at}"]
        large = at in (3, 11)
        assert found == (b"" if large else value)
        assert headers.pop("sequitur-bytes", None) == (b"2000" if large else None)
        assert headers == {"sequitur-reason": b"no int", "sequitur-origin": b"t/0/%d/-1" % at}
    assert topic.sent.count(1) == 2 * 3  # each large one, what was beside it, and what it became
    assert [each.getMessage().split()[7] for each in caplog.records] == ["t/0/3:", "t/0/11:"]


def test_records_as_large_as_views_write_them_are_sent_unless_it_is_told_otherwise() -> None:
    topic = Topic(1_000)
    dead_rows(topic)([record(0, b"")])
    assert topic.given["kafka.max.request.size"] == str(16 << 20)
    dead_rows(topic, OPTIONS)([record(0, b"")])
    assert topic.given["kafka.max.request.size"] == "2000"


@pytest.mark.parametrize("value", [b"x" * 2_000, b"x", b"", None])
def test_a_topic_that_does_not_even_take_the_reason_is_told(value: bytes | None) -> None:
    topic = Topic(1_000)
    with pytest.raises(StoreError, match=r"dead topic 'dead'.*RecordTooLarge"):
        dead_rows(topic)([record(0, value, "r" * 3_000)])
    assert topic.records == {}


def test_another_error_is_told_at_once() -> None:
    class Gone(Topic):
        def save(self) -> None:
            self.sent.append(len(self._rows))
            raise ConnectionError("the JVM has ended")

    topic = Gone(1_000)
    with pytest.raises(StoreError, match="the JVM has ended"):
        dead_rows(topic)([record(at, b"x") for at in range(9)])
    assert topic.sent == [9]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("made", "sizes", "whole"),
    [
        (False, {0: 10, 1: 7 << 20, 2: 9 << 20, 3: 17 << 20}, {0, 1}),
        (True, {0: 10, 1: 1_048_500, 2: 7 << 20}, {0}),
    ],
)
def test_a_broker_has_what_is_too_large_for_its_topic_without_its_value(
    made: bool,
    sizes: dict[int, int],
    whole: set[int],
    spark: SparkSession,
    broker: BrokerAddress,
    unique: Callable[[str], str],
) -> None:
    """The topic is one that is there, or is made, as Sequitur's own are."""
    name = unique("dead")
    if made:
        make_topics(broker.address, NewTopic(name, 1, 1))
    dead = [record(at, b"x" * size) for at, size in sizes.items()]
    DeadRows(spark, broker.address, name, {})(dead)

    found: dict[bytes | None, set[tuple[int, str | bytes | None]]] = {}
    settings = {"bootstrap.servers": broker.address, "group.id": name}
    consumer = Consumer({**settings, "fetch.message.max.bytes": 16 << 20})
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
    try:
        while len(found) < len(sizes):
            (message,) = consumer.consume(1, 60)
            assert message.error() is None
            size = dict(message.headers() or []).get("sequitur-bytes")
            found.setdefault(message.key(), set()).add((len(message.value() or b""), size))
    finally:
        consumer.close()
    assert found == {
        b"t/0/%d" % at: {(size, None) if at in whole else (0, b"%d" % size)}
        for at, size in sizes.items()
    }
