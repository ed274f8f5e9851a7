"""What a stage that routes sends and Kafka refuses: its message fails, and others go on."""

from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.engine.commit_unit import CommitUnit, SentBy
from topology.faust.worker.writing.partitioning import Partitions
from topology.faust.worker.writing.refusals import REMEMBERED, Refusals, told
from topology.model.origin_headers import ORIGIN

logger = get_logger(__name__)


class RouteRefusals(Refusals):
    """Finds the messages whose records are refused.

    Args:
        app: Faust's.
        group: the worker's.
        source: the partition.
        partitions: of topics.
        destinations: the topics that the stage sends to.

    Attributes:
        found: origin of a message, with its time → why it fails. So what is of a topic that was
            deleted meanwhile is of no message of the next one.
        forgiven: how many orders to let streams go were heeded, each of which forgets these.
    """

    def __init__(
        self,
        app: Any,
        group: str,
        source: TopicPartition,
        partitions: Partitions,
        destinations: tuple[str, ...],
    ) -> None:
        super().__init__(app, group, source, partitions, {})
        self._destinations = destinations
        self.found: dict[str, str] = {}
        self.forgiven = 0

    async def note(self, unit: CommitUnit, error: KafkaError) -> None:
        """Let the messages fail of which something is refused, when they are read again."""
        for records in (unit.colocated, unit.keyed):
            for topic, outs in records.items():
                if topic.startswith(self._destinations):
                    for out in outs:
                        place = dict(out[3]).get(ORIGIN, b"").decode("utf-8", "replace")
                        if place.count("/") == 3:
                            unit.sent.append((topic, out, "", place, 0))
        await super().note(unit, error)

    def _note(self, sent: SentBy, error: KafkaError) -> None:
        if len(self.found) >= REMEMBERED:
            self.found.clear()
        place = sent[3]
        self.found[place] = f"topic {sent[0]!r}: Kafka refuses it: {told(error)}"
        logger.warning("%s fails: %s", place, self.found[place])
