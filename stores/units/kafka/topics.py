"""The topics of a destination: its messages, and `<destination>.units` with what owners record."""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from stores.kafka_topics import CannotMakeTopic, create_topics, partitions_there
from stores.units.errors import MemberUnavailable, UnitError
from stores.units.routing import slot_of
from topology.model.ending import wait_for_stop

ROWS = ".units"
"""Behind a destination's name: the topic of its owners' rows."""
DEAD = ".dead"
"""Behind a destination's name: the topic of what is dead-lettered or has expired."""
ROW_BYTES = 64 << 20
"""The largest row: a message that is parked is one, and of a dead one there is more than it was."""
PATHS = ".paths"
"""Behind a destination's name: the topic of the path service, if it is routed by path."""
LOOKS = 15
"""Looks, in 3 seconds, after which a topic is not there."""


def rows_topic(destination: str) -> str:
    """The name of the topic in which a destination's owners keep their rows."""
    return f"{destination}{ROWS}"


def dead_topic(destination: str) -> str:
    """The name of the topic of a destination's dead and expired messages."""
    return f"{destination}{DEAD}"


def paths_topic(destination: str) -> str:
    """The name of the topic in which the path service of a destination keeps its rows."""
    return f"{destination}{PATHS}"


def member_of(unit: str, members: int) -> int:
    """The partition on which a unit lives: by its slot, among the members at the beginning."""
    return slot_of(unit) % members


async def prepare(kafka: Mapping[str, Any], destination: str, routing: str = "") -> int:
    """Make the topics of rows and of dead messages if they are not there.

    Args:
        kafka: arguments of aiokafka's clients, `bootstrap_servers` among them.
        destination: an existing topic.
        routing: hash or path, if it has to be routed so.

    Returns:
        The number of members that units are spread over: the partitions that the destination had
        when its topic of rows was made. Partitions that were added since have no units of their
        own, so that none moves.

    Raises:
        UnitError: there is no such topic, it is routed otherwise, or its topics do not match.
    """
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    try:
        rows, dead = rows_topic(destination), dead_topic(destination)
        there = await _topics(admin, destination)
        if routing == "path":
            with suppress(UnitError):
                there = await _topics(admin, destination, paths_topic(destination))
        if routing and (paths_topic(destination) in there) != (routing == "path"):
            raise UnitError(
                f"{destination!r} is routed by {'hash' if routing == 'path' else 'path'}, not by"
                f" {routing}: all its producers have to agree, and `sequitur units paths` makes it"
                " one that is routed by path"
            )
        described = await _described(admin, destination)
        partitions, copies = len(described), len(described[0]["replicas"])
        large = {"max.message.bytes": str(ROW_BYTES)}
        configs = {"cleanup.policy": "compact", **large}
        new = [
            NewTopic(rows, partitions, copies, topic_configs=configs),
            NewTopic(dead, partitions, copies, topic_configs=large),
        ]
        await _made(admin, new)
        if rows not in there:
            return partitions
        members = await _partitions(admin, rows)
        if dead in there and members != (first := await _partitions(admin, dead)):
            raise UnitError(
                f"topic {rows!r} has {members} partitions, and had {first}: by hash, units would"
                " live elsewhere now, and rows not be found. Partitions may be added to"
                f" {destination!r} alone; stop, and make {rows!r} anew when all is worked off"
            )
        return members
    finally:
        await wait_for_stop(admin.close())


async def learn_partition(producer: AIOKafkaProducer, topic: str, partition: int) -> None:
    """Let a producer hear of a partition that was added since it heard of the topic."""
    if partition not in await producer.partitions_for(topic):
        await producer.client.force_metadata_update()
        if partition not in await producer.partitions_for(topic):
            raise MemberUnavailable(f"{topic!r} has no partition {partition}; send again")


async def prepare_paths(kafka: Mapping[str, Any], destination: str) -> None:
    """Make a destination one that is routed by path, if it is not: it has no messages yet.

    Raises:
        UnitError: it has messages, which were routed by hash.
    """
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    try:
        if (paths := paths_topic(destination)) in await _topics(admin, destination):
            return
        described = await _described(admin, destination)
        consumer = AIOKafkaConsumer(**kafka)
        await consumer.start()
        try:
            places = [TopicPartition(destination, each["partition"]) for each in described]
            used = await consumer.beginning_offsets(places) != await consumer.end_offsets(places)
        finally:
            await wait_for_stop(consumer.stop())
        if used:
            raise UnitError(
                f"{destination!r} has messages that were routed by hash: their units would live"
                " elsewhere; give the path service a topic that has none yet"
            )
        configs = {"cleanup.policy": "compact", "max.message.bytes": str(ROW_BYTES)}
        new = NewTopic(paths, 1, len(described[0]["replicas"]), topic_configs=configs)
        await _made(admin, [new])
    finally:
        await wait_for_stop(admin.close())


async def _made(admin: AIOKafkaAdminClient, topics: list[NewTopic]) -> None:
    try:
        await create_topics(admin, topics)
    except CannotMakeTopic as error:
        raise UnitError(error.args[0]) from None


async def routing_of(kafka: Mapping[str, Any], destination: str) -> tuple[int, bool]:
    """A topic's members, and whether it is routed by path. Raises UnitError if it is not there."""
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    try:
        there = await _topics(admin, destination)
        by_path, rows = paths_topic(destination) in there, rows_topic(destination)
        known = destination if by_path or rows not in there else rows
        return await _partitions(admin, known), by_path
    finally:
        await wait_for_stop(admin.close())


async def members_of(kafka: Mapping[str, Any], destinations: Iterable[str]) -> dict[str, int]:
    """Topic → members that its units are spread over, by hash.

    Raises UnitError if one is not there, or is routed by path.
    """
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    try:
        found = {}
        for topic in destinations:
            there = await _topics(admin, topic)
            if paths_topic(topic) in there:
                raise UnitError(
                    f"{topic!r} is routed by path: only producers that ask for its paths may send"
                    " to it, and servers cannot"
                )
            known = rows if (rows := rows_topic(topic)) in there else topic
            found[topic] = await _partitions(admin, known)
        return found
    finally:
        await wait_for_stop(admin.close())


async def members_there(kafka: Mapping[str, Any], destination: str) -> tuple[int, int]:
    """The partitions of a destination, and of its topic of rows.

    Raises UnitError if it has none: no unit server of it ever ran.
    """
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    try:
        await _topics(admin, destination, rows := rows_topic(destination))
        return await _partitions(admin, destination), await _partitions(admin, rows)
    finally:
        await wait_for_stop(admin.close())


async def _topics(admin: AIOKafkaAdminClient, destination: str, wanted: str = "") -> set[str]:
    """A destination's topics that are there. A broker may hear of one that was just made a moment
    after its maker: the one that is `wanted`, or else the destination, is waited for."""
    wanted = wanted or destination
    own = rows_topic(destination), dead_topic(destination), paths_topic(destination)
    for _ in range(LOOKS):
        if wanted in (there := set(await partitions_there(admin, [destination, *own]))):
            return there
        await asyncio.sleep(0.2)
    raise UnitError(f"topic {wanted!r} does not exist; make it first")


async def _partitions(admin: AIOKafkaAdminClient, topic: str) -> int:
    return len(await _described(admin, topic))


async def _described(admin: AIOKafkaAdminClient, topic: str) -> list[dict[str, Any]]:
    described = await admin.describe_topics([topic])
    if code := described[0]["error_code"]:
        raise KafkaError(f"topic {topic!r} cannot be described: {for_code(code).__name__}")
    partitions: list[dict[str, Any]] = described[0]["partitions"]
    return partitions
