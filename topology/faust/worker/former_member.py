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

from topology.faust.worker.retry_until_available import retry_until_available

log = get_logger(__name__)
UUID = r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""What a broker adds to the instance id of a static member to name it."""


async def leave_if_changed(
    coordinator: GroupCoordinator, assignor: PartitionAssignor, topics: Iterable[str], broker: str
) -> None:
    """Remove the member that this instance was from the group, if it subscribed to other topics.

    Call it before the first subscription. Unchanged, it keeps its partitions without a rebalance.
    A coordinator that is not there yet, or still loads the group, is waited for.
    """
    instance = coordinator._group_instance_id
    if instance is None:
        return
    mine = _read(assignor, assignor.metadata(set(topics)).encode())
    named = re.compile(re.escape(instance) + UUID)

    async def leave() -> None:
        await coordinator.ensure_coordinator_known()
        described = await coordinator._send_req(DescribeGroupsRequest([coordinator.group_id]))
        for error, _, _, _, _, members, *_ in described.groups:
            _check(coordinator, error)
            for member, _, _, metadata, _ in members:
                # Where a rebalance is under way there is no metadata: it takes who joins as it is.
                if named.fullmatch(member) and metadata and _read(assignor, metadata) != mine:
                    request = LeaveGroupRequest(coordinator.group_id, member)
                    _check(coordinator, (await coordinator._send_req(request)).error_code)
                    log.info(
                        "%s subscribed to other topics when it last ran: its group assigns anew",
                        instance,
                    )

    await retry_until_available(leave, broker)


def _check(coordinator: GroupCoordinator, code: int) -> None:
    """Raise what another try may cure; what it may not, joining the group tells."""
    error = for_code(code)
    if error.retriable:
        coordinator.coordinator_dead()
        raise error(coordinator.group_id)


def _read(assignor: PartitionAssignor, metadata: bytes) -> tuple[frozenset[str], str] | None:
    """What an assignment must fit: the topics and the address that other workers are told.

    None where it is not of a worker: the same instance id served another program before.
    """
    try:
        of = Subscription.decode(metadata)
        return frozenset(of.subscription), str(assignor._get_client_metadata(of).url)
    except Exception:
        return None
