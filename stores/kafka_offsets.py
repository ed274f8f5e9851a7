"""The offsets that a group has committed, or an error: never none, where there are some.

While a group's coordinator loads, or is about to be another broker, it answers with an error and no
partitions. aiokafka looks at the partitions' errors alone, and takes that for a group that has
committed nothing: who starts by it starts at the first message. `group_offsets` is there instead of
the admin client's call; importing this mends that of consumers.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import (
    OffsetFetchRequest,
    OffsetFetchRequest_v1,
    OffsetFetchRequest_v2,
    OffsetFetchRequest_v3,
)
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)
from aiokafka.structs import OffsetAndMetadata

PATIENCE = 10.0
"""Seconds for a coordinator to load, and for a transaction that is being ended."""
AGAIN = 0.1
"""Seconds between two questions."""


class OffsetsUnstable(KafkaError):  # type: ignore[misc]
    """A transaction that commits offsets has not ended yet."""

    errno, retriable = 88, True


_LATER = (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
    OffsetsUnstable,
)
_TEXT, _TAGS = CompactString("utf-8"), ("tags", TaggedFields)


class _Offsets(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 9, 7
    _PARTITION = (
        ("partition", Int32),
        ("offset", Int64),
        ("leader_epoch", Int32),
        ("metadata", _TEXT),
        ("error_code", Int16),
        _TAGS,
    )
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(("topic", _TEXT), ("partitions", CompactArray(*_PARTITION)), _TAGS),
        ),
        ("error_code", Int16),
        _TAGS,
    )


class _AskOffsets(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, API_KEY, API_VERSION, RESPONSE_TYPE = True, 9, 7, _Offsets
    _TOPICS = CompactArray(("topic", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)
    SCHEMA = Schema(("group", _TEXT), ("topics", _TOPICS), ("stable", Boolean), _TAGS)


_Any = OffsetFetchRequest_v1 | OffsetFetchRequest_v2 | OffsetFetchRequest_v3 | _AskOffsets


class _Ask(Request[_Any]):  # type: ignore[misc]
    """topics: (topic, partitions), None for all that the group has offsets of."""

    API_KEY = 9

    def __init__(
        self, group: str, topics: list[tuple[str, list[int]]] | None, stable: bool
    ) -> None:
        self._group, self._topics, self._stable = group, topics, stable

    def build(self, request_struct_class: Any) -> Any:
        if request_struct_class is _AskOffsets:
            topics: Any = None if self._topics is None else [(*each, {}) for each in self._topics]
            return _AskOffsets(self._group, topics, self._stable, {})
        return OffsetFetchRequest(self._group, self._topics).build(request_struct_class)


async def group_offsets(
    admin: AIOKafkaAdminClient,
    group: str,
    partitions: Collection[TopicPartition] | None = None,
    *,
    stable: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Ask for a group's offsets, and wait for a coordinator that cannot tell them yet.

    Args:
        admin: connected.
        group: the group's id.
        partitions: to ask for; None for all that have an offset.
        stable: wait until transactions that commit offsets of these partitions have ended, so that
            a producer whose predecessor was fenced sees what that one had committed (Kafka 2.5).

    Returns:
        Those partitions that have an offset.

    Raises:
        KafkaError: Kafka is away, or cannot tell them for long.
    """
    topics = defaultdict[str, list[int]](list)
    for topic, number in partitions or ():
        topics[topic].append(number)
    request = _Ask(group, None if partitions is None else list(topics.items()), stable)
    until = time.monotonic() + PATIENCE
    while True:
        try:
            coordinator = await admin.find_coordinator(group)
            return _found(await admin._send_request(request, coordinator), group)
        except _LATER:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(AGAIN)


def _found(response: Any, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets in a response. Raises the error that it has."""
    _check(getattr(response, "error_code", 0), group)
    found = {}
    for topic, partitions, *_ in response.topics:
        for number, offset, *more in partitions:
            if response.API_VERSION == _Offsets.API_VERSION:
                _, metadata, error, _ = more
            else:
                metadata, error = more
            _check(error, f"{group}: {topic}/{number}")
            if offset >= 0:
                found[TopicPartition(topic, number)] = OffsetAndMetadata(offset, metadata or "")
    return found


def _check(code: int, of: str) -> None:
    if code:
        kind = OffsetsUnstable if code == OffsetsUnstable.errno else for_code(code)
        raise kind(f"the offsets of group {of}")


_send_req = GroupCoordinator._send_req


async def _checked(self: Any, request: Any) -> Any:
    """A consumer's request to the coordinator; raises the error that offsets come with."""
    response = await _send_req(self, request)
    if isinstance(request, OffsetFetchRequest):
        try:
            _check(getattr(response, "error_code", 0), self.group_id)
        except (GroupCoordinatorNotAvailableError, NotCoordinatorForGroupError):
            self.coordinator_dead()
            raise
    return response


GroupCoordinator._send_req = _checked
