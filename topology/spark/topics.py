"""The topics of a topology that runs on Spark: looked at, and made where they are missing."""

from collections.abc import Mapping

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from stores.kafka_topics import CannotMakeTopic, create_topics, partitions_there
from topology.declaration.topology import Topology
from topology.model.counted import counted
from topology.model.large import TOPIC_BYTES
from topology.model.topic_retention import retention
from topology.spark.settings import CannotRun


def wanted(topology: Topology) -> dict[str, int]:
    """The topics that a query writes to or takes commands from → how many partitions they have."""
    found: dict[str, int] = {}
    for view in topology.views.values():
        found[view.output] = found[view.commands_topic] = view.of.partitions
    return found | dict.fromkeys(topology.side_topics, 1)


class Topics:
    """Partition counts by topic. A topic that a handler names first is made."""

    def __init__(
        self, admin: AIOKafkaAdminClient, replication: int, side_retention_days: float
    ) -> None:
        self._admin = admin
        self._replication = replication
        self._side_retention = retention(side_retention_days)
        self._side_topics: frozenset[str] = frozenset()
        self._counts: dict[str, int] = {}

    async def prepare(self, topology: Topology) -> None:
        """Make what is missing. Raises CannotRun for a source topic that is not there, and for a
        topic of another shape than the topology says."""
        self._side_topics = frozenset(topology.side_topics)
        given = [topic for source in topology.sources.values() for topic in source.topics]
        there = await partitions_there(self._admin, [*given, *wanted(topology)])
        for source in topology.sources.values():
            for topic in source.topics:
                if topic not in there:
                    raise CannotRun(
                        f"source topic {topic!r} does not exist; create it, or correct its name "
                        "in source()"
                    )
                if source.keyed and there[topic] != source.partitions:
                    raise CannotRun(
                        f"topic {topic!r} has {counted(there[topic], 'partition')}, but the "
                        f"topology says {source.partitions}; set source(partitions={there[topic]})"
                    )
        new = {topic: count for topic, count in wanted(topology).items() if topic not in there}
        await self._make(new)
        self._counts = there | new

    async def count(self, topic: str, inputs: int) -> int:
        """How many partitions a topic has; one that is not there is made with `inputs`."""
        found = self._counts.get(topic)
        if found is None:
            self._counts |= await partitions_there(self._admin, [topic])
            found = self._counts.get(topic)
        if found is None:
            await self._make({topic: inputs})
            found = self._counts[topic] = inputs
        return found

    async def _make(self, new: Mapping[str, int]) -> None:
        topics = []
        for name, partitions in new.items():
            topic = NewTopic(name, partitions, 1, topic_configs=self._config(name))
            # -1 asks for the broker's default; the constructor refuses it, the protocol does not.
            topic.replication_factor = self._replication
            topics.append(topic)
        try:
            await create_topics(self._admin, topics)
        except CannotMakeTopic as error:
            raise CannotRun(error.args[0]) from None

    def _config(self, topic: str) -> dict[str, str]:
        config = {"max.message.bytes": str(TOPIC_BYTES), "cleanup.policy": "delete"}
        return config | (
            {"retention.ms": self._side_retention} if topic in self._side_topics else {}
        )
