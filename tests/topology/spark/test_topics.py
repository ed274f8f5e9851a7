"""The topics that a query makes take what a worker's take, and side topics keep as long."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import UnknownTopicOrPartitionError

from tests.topology.spark.shops import topology
from topology.model.large import TOPIC_BYTES
from topology.spark.settings import CannotRun, Settings, side_retention_days
from topology.spark.topics import Topics


class Admin:
    """A broker with the source topics, which makes what it is asked for."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, str]] = {}

    async def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        sources = topology.sources.values()
        there = {topic: source.partitions for source in sources for topic in source.topics}
        there |= dict.fromkeys(self.made, 1)
        return [
            {
                "topic": name,
                "error_code": 0 if name in there else UnknownTopicOrPartitionError.errno,
                "partitions": [{}] * there.get(name, 0),
            }
            for name in names
        ]

    async def create_topics(self, topics: list[Any]) -> Any:
        self.made |= {topic.name: topic.topic_configs for topic in topics}
        return SimpleNamespace(topic_errors=[(topic.name, 0, None) for topic in topics])


async def made(days: float) -> dict[str, dict[str, str]]:
    admin: Any = Admin()
    await Topics(admin, -1, days).prepare(topology)
    found: dict[str, dict[str, str]] = admin.made
    return found


@pytest.mark.parametrize(("days", "retention"), [(90, "7776000000"), (-1, "-1")])
async def test_side_topics_keep_and_all_take_what_a_worker_s_take(
    days: float, retention: str
) -> None:
    found = await made(days)
    assert set(topology.side_topics) <= set(found)
    for name, config in found.items():
        assert config["max.message.bytes"] == str(TOPIC_BYTES)
        kept = retention if name in topology.side_topics else None
        assert config.get("retention.ms") == kept, name


def test_the_environment_says_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings("broker:1", "folder").side_retention_days == 90
    monkeypatch.setenv("SEQUITUR_SIDE_RETENTION_DAYS", "7.5")
    assert Settings("broker:1", "folder").side_retention_days == 7.5


@pytest.mark.parametrize("given", ["0", "-2", "many", "nan", "1e9"])
def test_what_is_no_number_of_days_is_refused(given: str) -> None:
    with pytest.raises(CannotRun, match="a number of days above 0, or -1 for ever"):
        side_retention_days({"SEQUITUR_SIDE_RETENTION_DAYS": given})
