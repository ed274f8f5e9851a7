"""Topics of Kafka: those that are made are there, and none is made by asking for it.

aiokafka's requests for metadata let a broker with `auto.create.topics.enable` make what it does not
know: a mistyped name made a topic. Importing this forbids it to all of aiokafka's clients.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    InvalidTopicError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

import stores.kafka_offsets  # a coordinator that cannot tell them is no group without any
import stores.kafka_transactions  # noqa: F401  # one that failed says why
from topology.model.ending import wait_for_stop

MetadataRequest.__init__.__defaults__ = (None, False)

_NOT_THERE = {InvalidTopicError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError}
_COPIES = 3
_VISIBLE = 30.0
"""Seconds for which a topic that was made is looked for."""
_LOOK = 0.1


class CannotMakeTopic(KafkaError):  # type: ignore[misc]
    """A topic cannot be made; the text names it, and the broker's reason."""


async def partitions_there(admin: AIOKafkaAdminClient, topics: Iterable[str]) -> dict[str, int]:
    """Which of some topics are there: name → partitions.

    The broker is asked for them by name: it may have thousands of others.

    Args:
        admin: connected.
        topics: those that may not be seen count as not there, and so do names that none can have.

    Raises:
        KafkaError: Kafka is away.
    """
    names = list(dict.fromkeys(topics))
    found = await admin.describe_topics(names) if names else ()
    return {
        each["topic"]: len(each["partitions"])
        for each in found
        if for_code(each["error_code"]) not in _NOT_THERE
    }


async def create_topics(admin: AIOKafkaAdminClient, topics: Sequence[NewTopic]) -> None:
    """Make topics where they are not there, and wait until the broker lists them.

    It learns of them after its controller has answered. Who needs one that another broker does not
    know after half a minute waits itself.

    Args:
        admin: connected.
        topics: those that are there stay as they are.

    Raises:
        CannotMakeTopic: one of them cannot be made; others may be.
        KafkaError: Kafka is away.
    """
    there = await partitions_there(admin, (each.name for each in topics))
    if not (new := [each for each in topics if each.name not in there]):
        return
    try:
        answer = await admin.create_topics(new)
    except TopicAlreadyExistsError:  # by somebody else, meanwhile
        answer = None
    for topic, code, *rest in answer.topic_errors if answer is not None else ():
        if code and for_code(code) is not TopicAlreadyExistsError:
            detail = rest[0] if rest and rest[0] else for_code(code).__name__
            raise CannotMakeTopic(f"cannot create topic {topic!r}: {detail}")
    names, until = {each.name for each in new}, time.monotonic() + _VISIBLE
    while not names <= set(await partitions_there(admin, names)) and time.monotonic() < until:
        await asyncio.sleep(_LOOK)


async def create_own(
    admin: AIOKafkaAdminClient, topics: Mapping[str, int], configs: Mapping[str, str]
) -> None:
    """Make topics of Sequitur's where they are not there, on three brokers if there are as many.

    Args:
        admin: connected.
        topics: name → partitions.
        configs: of all of them.

    Raises:
        KafkaError: see `create_topics`.
    """
    copies = min(_COPIES, len((await admin.describe_cluster())["brokers"]))
    new = [NewTopic(name, n, copies, topic_configs=dict(configs)) for name, n in topics.items()]
    await create_topics(admin, new)


async def make_topics(
    kafka: Mapping[str, Any], topics: Mapping[str, int], configs: Mapping[str, str]
) -> None:
    """`create_own` with a client of its own.

    Args:
        kafka: arguments of aiokafka's clients, `bootstrap_servers` among them.
        topics: name → partitions.
        configs: of all of them.

    Raises:
        KafkaError: see `create_topics`.
    """
    admin = AIOKafkaAdminClient(**kafka)
    try:
        await admin.start()
        await create_own(admin, topics, configs)
    finally:
        await wait_for_stop(admin.close())
