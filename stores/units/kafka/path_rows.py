"""The rows of the path service, in the compacted topic `<destination>.paths`: one partition."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from aiokafka import TopicPartition

from stores.units.kafka.row_log import read_value, records_of
from stores.units.kafka.topics import paths_topic
from stores.units.routing import PathEntry

LEADER = orjson.dumps(["leader"])
"""The key of the row that says who leads."""
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class PathLeaderRow:
    """Who leads. epoch: the highest of all routes. lease: of the producers, in seconds."""

    url: str
    epoch: int
    lease: float


def path_key(unit: str) -> bytes:
    """The key of a unit's row."""
    return orjson.dumps(["unit", unit])


def path_value(entry: PathEntry | None) -> bytes | None:
    """A unit's row; None deletes it."""
    return None if entry is None else orjson.dumps(asdict(entry))


def leader_of(record: Any) -> PathLeaderRow | None:
    """Who leads, if the record says that."""
    if record.key == LEADER:
        match read_value(record.value):
            case {"url": str(url), "epoch": int(epoch), "lease": float(lease) | int(lease)}:
                return PathLeaderRow(url, epoch, min(max(0.0, float(lease)), DAY))
    return None


async def restore_paths(
    kafka: Mapping[str, Any], destination: str
) -> tuple[dict[str, PathEntry], PathLeaderRow]:
    """All paths, and who led last. Read once the former leader is fenced."""
    entries, leader = dict[str, PathEntry](), PathLeaderRow("", 0, 0.0)
    async for record in records_of(kafka, TopicPartition(paths_topic(destination), 0)):
        leader = leader_of(record) or leader
        match read_value(record.key), read_value(record.value):
            case ["unit", str(unit)], None:
                entries.pop(unit, None)
            case ["unit", str(unit)], {
                "member": str(member),
                "epoch": int(epoch),
                "producers": list(producers),
                "target": (str() | None) as target,
            }:
                named = tuple(str(each) for each in producers)
                entries[unit] = PathEntry(member, epoch, named, target)
    return entries, leader
