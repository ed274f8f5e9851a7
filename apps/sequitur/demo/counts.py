"""A topology's counts, live and durable, from the changelogs that each commit unit writes to."""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from topology import Counts, Topology
from topology.engine.state.rows import COUNTS
from topology.model.counts import decode_counts

_CHUNK = 10_000  # records
_LONGEST = 0.5  # seconds that one reading takes at most; the next one goes on


class CountsReader:
    """Follows the changelogs of a topology's views; `group` is the worker's.

    The sums are those of the last commit of each partition: exact once the worker is idle. They
    outlive the worker and its data folder.
    """

    def __init__(self, broker: str, topology: Topology, group: str) -> None:
        self._views = {f"{group}-{view}-changelog": view for view in topology.views}
        self._counts: dict[tuple[str, int], Counts] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker,
                "log_level": 0,
                "group.id": f"{group}-counts-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._assigned = False

    def _assign(self) -> bool:
        topics = self._consumer.list_topics(timeout=10.0).topics
        if not self._views.keys() <= topics.keys():
            return False  # the worker has not made them yet
        self._consumer.assign(
            [
                Position(name, number, 0)
                for name in self._views
                for number in topics[name].partitions
            ]
        )
        return True

    def read(self) -> Mapping[str, Counts]:
        """Return view → its counts by now, over all partitions; empty before there are any."""
        self._assigned = self._assigned or self._assign()
        deadline = time.monotonic() + _LONGEST
        while self._assigned and time.monotonic() < deadline:
            records = self._consumer.consume(_CHUNK, timeout=0.05)
            if not records:
                break
            for record in records:
                if (error := record.error()) is not None:
                    raise KafkaException(error)
                if record.key() == COUNTS:
                    counts = decode_counts(record.value())
                    self._counts[str(record.topic()), record.partition() or 0] = counts
        sums: dict[str, Counts] = {}
        for (topic, _), counts in sorted(self._counts.items()):
            view = self._views[topic]
            sums[view] = sums.get(view, Counts()) + counts
        return {view: sums[view] for view in self._views.values() if view in sums}

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()
