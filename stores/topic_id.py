"""A Kafka topic's id, which it has from its making on: aiokafka reads metadata that has none."""

from typing import Any
from uuid import UUID

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import IncompatibleBrokerVersion, for_code
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]
    encode = staticmethod(bytes)

    @staticmethod
    def decode(data: Any) -> bytes:
        return bytes(data.read(16))


_TEXT, _TAGS = CompactString("utf-8"), ("tags", TaggedFields)
_BROKER = (("node", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), _TAGS)


class _Metadata(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = 3, 12
    # As far as the id of the one topic that is asked for; what is behind that stays unread.
    SCHEMA = Schema(
        ("throttled", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster", _TEXT),
        ("controller", Int32),
        ("topics", CompactArray(("error", Int16), ("name", _TEXT), ("id", _Uuid))),
    )


class _AskMetadata(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, API_KEY, API_VERSION, RESPONSE_TYPE = True, 3, 12, _Metadata
    _TOPICS = CompactArray(("id", _Uuid), ("name", _TEXT), _TAGS)
    SCHEMA = Schema(("topics", _TOPICS), ("make", Boolean), ("operations", Boolean), _TAGS)


class _AskTopic(Request[_AskMetadata]):  # type: ignore[misc]
    API_KEY = 3

    def __init__(self, name: str) -> None:
        self._name = name

    def build(self, request_struct_class: type[_AskMetadata]) -> _AskMetadata:
        return request_struct_class([(bytes(16), self._name, {})], False, False, {})


async def topic_id(client: AIOKafkaClient, name: str) -> str | None:
    """Ask for a topic's id, a UUID; None: the broker does not tell it. Raises KafkaError."""
    try:
        found = await client.send(client.get_random_node(), _AskTopic(name))
    except (IncompatibleBrokerVersion, NotImplementedError):
        return None
    error, _, id = found.topics[0]
    if error:
        raise for_code(error)(name)
    return str(UUID(bytes=id))
