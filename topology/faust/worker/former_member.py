"""What a static group member left behind: an assignment for another version of its topology.

A broker hands a static member that restarts its former assignment without a rebalance, also when
it subscribes to other topics than before (KIP-345; Kafka's own consumer asks again, KIP-814).
A view that is new would be read by nobody; a topic that is not read any more stops the consumer.
"""

import re
from collections.abc import Iterable

from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata as Subscription
from aiokafka.errors import for_code
from aiokafka.protocol.admin import DescribeGroupsRequest
from aiokafka.protocol.group import LeaveGroupRequest
from faust.assignor.partition_assignor import PartitionAssignor
from mode import get_logger

log = get_logger(__name__)
UUID = r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""What a broker adds to the instance id of a static member to name it."""


async def leave_if_changed(
    coordinator: GroupCoordinator, assignor: PartitionAssignor, topics: Iterable[str]
) -> None:
    """Remove the member that this instance was from the group, if it subscribed to other topics.

    Call it before the first subscription. Unchanged, it keeps its partitions without a rebalance.
    """
    instance = coordinator._group_instance_id
    if instance is None:
        return
    await coordinator.ensure_coordinator_known()
    described = await coordinator._send_req(DescribeGroupsRequest([coordinator.group_id]))
    mine = assignor.metadata(set(topics))
    for error, _, _, _, _, members, *_ in described.groups:
        for member, _, _, metadata, _ in () if error else members:
            if not re.fullmatch(re.escape(instance) + UUID, member) or not metadata:
                continue
            if _read(assignor, Subscription.decode(metadata)) != _read(assignor, mine):
                left = await coordinator._send_req(LeaveGroupRequest(coordinator.group_id, member))
                log.info(
                    "%s subscribed to other topics when it last ran: its group assigns anew (%s)",
                    instance, for_code(left.error_code).__name__,
                )  # fmt: skip


def _read(assignor: PartitionAssignor, of: Subscription) -> tuple[frozenset[str], str]:
    """What an assignment must fit: the topics and the address that other workers are told."""
    return frozenset(of.subscription), str(assignor._get_client_metadata(of).url)
