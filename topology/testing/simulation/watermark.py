"""The barrier before a gap is given up, as a worker has it, without waiting."""

from topology.declaration.source import Source
from topology.testing.simulation.log_partition import TopicPartition
from topology.testing.simulation.worker import Worker
from topology.testing.simulation.world import World


class FakeWatermark:
    """How far a by-stream partition has surely read.

    Note the ends of the source's topics; wait until all before them is re-keyed; note the end of
    the by-stream partition; when that is read, all that had arrived when it began is known.
    """

    def __init__(self, world: World, source: Source, place: TopicPartition, worker: Worker) -> None:
        self.world = world
        self.worker = worker
        self.source = source
        self.place = place
        self._began: int | None = None
        self._behind: dict[TopicPartition, int] = {}
        self._end: int | None = None

    def reached(self, position: int) -> int | None:
        """A time (ms) by which all that had arrived has been read, None while that is not known.

        position: the offset up to which the partition is read and processed.
        """
        log = self.world.log
        if self._began is None:
            self._began, self._end = log.now + self.worker.ahead, None
            self._behind = {}
            if not self.source.keyed:
                for topic in self.source.topics:
                    for number in range(self.world.partitions):
                        self._behind[topic, number] = log.partition((topic, number)).end
        if self._end is None:
            done = log.offsets
            self._behind = {p: end for p, end in self._behind.items() if done.get(p, 0) < end}
            if self._behind:
                return None
            self._end = self.end()
        if position < self._end:
            return None
        began, self._began = self._began, None
        return began

    def end(self) -> int:
        """The offset behind all that is in the by-stream partition, shown already or not."""
        return len(self.world.log.partition(self.place).records)

    def stop(self) -> None:
        """Nothing goes on meanwhile."""
