"""Kafka beside Faust's group consumer: admin calls, plain readers, how to connect."""

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth, server_list
from mode import get_logger

from stores import kafka_topics
from topology.faust.kafka import reconnect
from topology.faust.kafka.records import raw
from topology.faust.kafka.topics import Topic
from topology.model.counted import counted
from topology.model.ending import wait_for_stop

logger = get_logger(__name__)

reconnect.install()


def connection(app: Any) -> dict[str, Any]:
    """How to reach the broker, as the app's settings say, TLS and SASL included.

    Processes without an app give the arguments of aiokafka's clients in its place.
    """
    if isinstance(app, Mapping):
        return {"request_timeout_ms": 40_000, **app}
    conf = app.conf
    return {
        "bootstrap_servers": server_list(conf.broker, 9092),
        "client_id": conf.broker_client_id,
        "request_timeout_ms": 40_000,
        **credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context),
    }


@asynccontextmanager
async def admin_client(app: Any) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client that is connected, and closed in any case. Raises KafkaError."""
    admin = AIOKafkaAdminClient(**connection(app))
    try:
        await admin.start()
        yield admin
    finally:
        await wait_for_stop(admin.close())


class CannotMake(KafkaError):  # type: ignore[misc]
    """A topic cannot be made."""


def plain_consumer(app: Any, **settings: Any) -> AIOKafkaConsumer:
    """A consumer without a group, which sees committed records only."""
    defaults = {
        "group_id": None,
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        "auto_offset_reset": "earliest",
        "key_deserializer": raw,
    }
    return AIOKafkaConsumer(**connection(app), **{**defaults, **settings})


async def connected_consumer(app: Any, **settings: Any) -> AIOKafkaConsumer:
    """A `plain_consumer` that is connected. Raises KafkaError; then, as when it is cancelled,
    nothing of it is left open."""
    consumer = plain_consumer(app, **settings)
    try:
        await consumer.start()
    except BaseException:
        await wait_for_stop(consumer.stop())
        raise
    return consumer


async def partitions_of(consumer: AIOKafkaConsumer, topic: str) -> set[int]:
    """The numbers of the partitions of a topic that exists."""
    await consumer._client._wait_on_metadata(topic)
    return set(consumer.partitions_for_topic(topic) or ())


async def create_topics(app: Any, wanted: Iterable[Topic], replication: int) -> None:
    """Create the topics that do not exist. Existing ones are left as they are.

    Raises RuntimeError if one that is not given exists with another number of partitions, or one
    cannot be made.
    """
    topics = {topic.name: topic for topic in wanted}
    async with admin_client(app) as admin:
        existing = await kafka_topics.partitions_there(admin, topics)
        new = [
            _new_topic(each, replication) for each in topics.values() if each.name not in existing
        ]
        try:
            await kafka_topics.create_topics(admin, new)
        except kafka_topics.CannotMakeTopic as error:
            raise RuntimeError(error.args[0]) from None
        for name, partitions in existing.items():
            wants = topics[name].partitions
            if partitions != wants and not topics[name].given:
                raise RuntimeError(
                    f"topic {name!r} has {counted(partitions, 'partition')}, but the "
                    f"topology says {wants}; set source(partitions={partitions}), or use a new "
                    "topology name or group for topics of its own"
                )


def _new_topic(wanted: Topic, replication: int) -> NewTopic:
    topic = NewTopic(wanted.name, wanted.partitions, 1, topic_configs=dict(wanted.config))
    # -1 asks for the broker's default; the constructor refuses it, the protocol does not.
    topic.replication_factor = replication
    return topic


async def missing_topics(app: Any, topics: list[str]) -> list[str]:
    """Those of the topics that do not exist."""
    async with admin_client(app) as admin:
        existing = await kafka_topics.partitions_there(admin, topics)
    return [topic for topic in topics if topic not in existing]


async def partition_count(app: Any, topic: str) -> int | None:
    """How many partitions a topic has, None if it does not exist."""
    async with admin_client(app) as admin:
        return (await kafka_topics.partitions_there(admin, [topic])).get(topic)


async def read_range(
    consumer: AIOKafkaConsumer,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    wait: int = 500,
    most: int = 10_000,
) -> AsyncIterator[list[Any]]:
    """The committed records from offset `start` up to `end`, in lists.

    wait: milliseconds after which it is looked again whether the end is reached. most: records of
    a list.

    It ends when the position is past `end`, not when a record is: the tail of a partition may be
    transaction markers or aborted records only.
    """
    consumer.seek(partition, start)
    silent_since = time.monotonic()
    while await consumer.position(partition) < end:
        found = await consumer.getmany(partition, timeout_ms=wait, max_records=most)
        records = found.get(partition)
        if records:
            silent_since = time.monotonic()
            yield [record for record in records if record.offset < end]
        elif time.monotonic() - silent_since > 30:
            position = await consumer.position(partition)
            logger.warning("still waiting for %s at offset %d of %d", partition, position, end)
            silent_since = time.monotonic()
