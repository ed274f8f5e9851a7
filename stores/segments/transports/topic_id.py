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


class _Uuid(AbstractType[bytes]):
    encode = staticmethod(bytes)

    @staticmethod
    def decode(data: Any) -> bytes:
        return bytes(data.read(16))


_TEXT, _TAGS = CompactString("utf-8"), ("tags", TaggedFields)
_PARTITION = [("error", Int16), ("index", Int32), ("leader", Int32), ("epoch", Int32)]
_COPIES = [(name, CompactArray(Int32)) for name in ("replicas", "in_sync", "offline")]
_TOPIC = [("error", Int16), ("name", _TEXT), ("id", _Uuid), ("internal", Boolean)]
_BROKER = [("node", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT)]


class _Metadata(Response):
    API_KEY, API_VERSION = 3, 12
    SCHEMA = Schema(
        ("throttled", Int32),
        ("brokers", CompactArray(*_BROKER, _TAGS)),
        ("cluster", _TEXT),
        ("controller", Int32),
        (
            "topics",
            CompactArray(
                *_TOPIC,
                ("partitions", CompactArray(*_PARTITION, *_COPIES, _TAGS)),
                ("operations", Int32),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _AskMetadata(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = 3, 12, _Metadata
    SCHEMA = Schema(
        ("topics", CompactArray(("id", _Uuid), ("name", _TEXT), _TAGS)),
        ("make", Boolean),
        ("operations", Boolean),
        _TAGS,
    )


class _AskTopic(Request[_AskMetadata]):
    API_KEY = 3

    def __init__(self, name: str) -> None:
        self._name = name

    def build(self, request_struct_class: type[_AskMetadata]) -> _AskMetadata:
        return request_struct_class([(bytes(16), self._name, {})], False, False, {})


async def topic_id(client: AIOKafkaClient, name: str) -> str | None:
    """Ask for the id of a topic.

    Args:
        client: of aiokafka, connected.
        name: of the topic.

    Returns:
        A UUID as text; None from brokers before Kafka 2.8, which have none.

    Raises:
        KafkaError: the topic is not there, or no broker.
    """
    try:
        found = await client.send(client.get_random_node(), _AskTopic(name))
    except (IncompatibleBrokerVersion, NotImplementedError):
        return None
    error, _, id, *_ = found.topics[0]
    if error:
        raise for_code(error)(name)
    return str(UUID(bytes=id))
