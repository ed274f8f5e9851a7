"""Who has which partition: the consumer group of an app's workers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from aiokafka import TopicPartition
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from topology.faust.kafka.clients import admin_client


class ConsumerGroup(NamedTuple):
    """state: of the group, as Kafka names it. owners: partition → the member that it is assigned
    to."""

    state: str
    owners: Mapping[TopicPartition, str]


async def consumer_group(app: Any) -> ConsumerGroup:
    """Ask the broker for the group of an app."""
    async with admin_client(app) as admin:
        (answer,) = await admin.describe_consumer_groups([app.conf.id])
    _, _, state, _, _, members, *_ = answer.groups[0]
    owners: dict[TopicPartition, str] = {}
    for name, _, host, _, assignment in members:
        if assignment:
            told = ConsumerProtocolMemberAssignment.decode(assignment)
            mine = f"{name} on {host.lstrip('/')}"
            owners.update(dict.fromkeys(told.partitions(), mine))
    return ConsumerGroup(state, owners)
