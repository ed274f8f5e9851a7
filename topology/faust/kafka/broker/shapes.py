"""What there is of the topics that a topology needs: missing, of the wrong shape, or right."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from mode import get_logger

from stores.kafka_topics import partitions_there
from topology.faust.kafka.clients import admin_client, missing_topics
from topology.faust.kafka.topics import Topic
from topology.model.counted import counted
from topology.model.topic_retention import DAY

logger = get_logger(__name__)

LOOK, TELL = 2.0, 60.0
"""Seconds between two looks for source topics, and between two lines that say so."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A topic as it is. partitions: None where it is missing. keeps: retention in ms, -1 for ever,
    None where nothing is known. wrong: what is not as it should be, and what helps."""

    topic: Topic
    partitions: int | None
    keeps: int | None = None
    wrong: str = ""

    @property
    def state(self) -> str:
        """In one word."""
        return "missing" if self.partitions is None else "wrong" if self.wrong else "there"

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "topic": self.topic.name,
            "state": self.state,
            "source": self.topic.given,
            "partitions": self.partitions or self.topic.partitions,
            "retention_ms": self.keeps,
            "wrong": self.wrong or None,
        }


async def shapes_of(app: Any, topics: Iterable[Topic]) -> list[Shape]:
    """What there is of the topics, in their order. Raises KafkaError."""
    topics = list(topics)
    async with admin_client(app) as admin:
        counts = await partitions_there(admin, (topic.name for topic in topics))
        configs = await _configs(admin, list(counts))
    return [_shape(topic, counts.get(topic.name), configs.get(topic.name, {})) for topic in topics]


async def configs(app: Any, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Topic → its settings, of the topics whose settings may be read. Raises KafkaError."""
    async with admin_client(app) as admin:
        return await _configs(admin, names)


async def _configs(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, str]] = {}
    for answer in await admin.describe_configs(resources) if resources else ():
        for code, _, _, name, entries in answer.resources:
            if not code:
                found[name] = {entry[0]: entry[1] for entry in entries}
    return found


def _shape(topic: Topic, partitions: int | None, config: dict[str, str]) -> Shape:
    if partitions is None:
        return Shape(topic, None)
    keeps = config.get("retention.ms")
    wrong = ""
    policy = config.get("cleanup.policy", topic.config.get("cleanup.policy", "delete"))
    need = 0 if topic.theirs else int(topic.config.get("max.message.bytes", 0))
    stamp = topic.config.get("message.timestamp.type")
    if partitions != topic.partitions and not topic.given:
        wrong = (
            f"the topology says {counted(topic.partitions, 'partition')}; set source(partitions="
            f"{partitions}), or use a new topology name or group"
        )
    elif topic.compacted and policy != "compact":
        wrong = f"cleanup.policy={policy} deletes state; set it to compact"
    elif not topic.compacted and "compact" in policy:
        wrong = f"cleanup.policy={policy} keeps the last message of a key only; set it to delete"
    elif (takes := int(config.get("max.message.bytes", need))) < need:
        wrong = f"max.message.bytes={takes} refuses large messages; set it to {need}"
    elif stamp and config.get("message.timestamp.type", stamp) != stamp:
        wrong = f"set message.timestamp.type to {stamp}"
    return Shape(topic, partitions, None if keeps is None else int(keeps), wrong)


def shapes_text(shapes: Sequence[Shape]) -> str:
    """A line for each topic."""
    width = max((len(shape.topic.name) for shape in shapes), default=0)
    lines = []
    for shape in shapes:
        count = shape.partitions or shape.topic.partitions
        keeps = "" if shape.keeps is None or shape.topic.compacted else f"  {_kept(shape.keeps)}"
        wrong = f": {shape.wrong}" if shape.wrong else ""
        what = "  source topic" if shape.topic.given and shape.partitions is None else ""
        has = counted(count, "partition")
        line = f"{shape.topic.name:{width}}  {shape.state:7}  {has:>15}{keeps}"
        lines.append(f"{line}{what}{wrong}")
    return "\n".join(lines)


def _kept(milliseconds: int) -> str:
    return "kept for ever" if milliseconds < 0 else f"kept {milliseconds / DAY:g} days"


async def wait_for(app: Any, topics: Iterable[Topic], command: str = "faust -A app") -> None:
    """Wait until the source topics are there, however long that takes. Raises KafkaError."""
    names, told = [topic.name for topic in topics], float("-inf")
    while missing := await missing_topics(app, names):
        if time.monotonic() - told >= TELL:
            told = time.monotonic()
            logger.warning(
                "waiting for source topics that are not there: %s; make them with `%s topics "
                "--create`, or correct the names in source(): it goes on by itself",
                ", ".join(missing), command,
            )  # fmt: skip
        await asyncio.sleep(LOOK)
