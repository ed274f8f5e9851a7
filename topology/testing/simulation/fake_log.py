"""A fake of Kafka for one group: partitions, transactions and fencing, offsets, compaction.

Offsets count as Kafka's do: a transaction's marker takes one in every partition it wrote to, and
compaction leaves holes. Readers see committed records only, up to the first open transaction.
"""

from collections.abc import Iterable, Sequence
from random import Random

from topology.engine.commit_unit import Out
from topology.testing.simulation.log_partition import LogPartition, TopicPartition, Transaction


class Fenced(RuntimeError):
    """A newer producer has the transactional id; nothing that the older one does takes effect."""


class FakeLog:
    """All topics of a cluster, and one group's committed offsets. now: its clock (ms).

    chance: shuffles the order in which a committed transaction shows in its partitions.
    """

    def __init__(self, chance: Random | None = None, now: int = 0) -> None:
        self.now = now
        self.offsets: dict[TopicPartition, int] = {}
        self.partitions: dict[TopicPartition, LogPartition] = {}
        self._chance = chance or Random(0)
        self._epochs: dict[str, int] = {}
        self._transactions: dict[str, Transaction] = {}

    def partition(self, place: TopicPartition) -> LogPartition:
        """A partition; it is made when first asked for."""
        found = self.partitions.get(place)
        if found is None:
            found = self.partitions[place] = LogPartition()
        return found

    def append(self, place: TopicPartition, records: Sequence[Out]) -> int:
        """Append records outside of any transaction. Returns the offset behind the last."""
        return self.partition(place).append(records, self.now)

    def producer(self, name: str) -> "Producer":
        """A producer for the transactional id `name`: ends what an older one left, and fences it.

        What is decided is committed; what is open is aborted.
        """
        self.finish(name)
        epoch = self._epochs[name] = self._epochs.get(name, 0) + 1
        return Producer(self, name, epoch)

    def unfinished(self) -> list[str]:
        """Transactional ids whose transaction is open, or does not show everywhere yet."""
        return list(self._transactions)

    def decided(self, name: str) -> bool:
        """Whether the transaction of `name` is sure to be committed."""
        return self._transactions[name].decided

    def settle(self, name: str, markers: int) -> None:
        """Let a decided transaction show in some more of its partitions."""
        transaction = self._transactions[name]
        pending = transaction.markers
        keep = max(len(pending) - markers, 0)
        shown, transaction.markers = pending[keep:], pending[:keep]
        for partition in shown:
            if partition is None:
                self.offsets.update(transaction.offsets)
            else:
                partition.mark(transaction, True, self.now)
        if not keep:
            del self._transactions[name]

    def finish(self, name: str) -> None:
        """End the transaction of `name`: show it everywhere if it is decided, else abort it."""
        transaction = self._transactions.get(name)
        if transaction is None:
            return
        if transaction.decided:
            self.settle(name, len(transaction.markers))
        else:
            for partition in transaction.written:
                partition.mark(transaction, False, self.now)
            del self._transactions[name]

    def expire(self, name: str) -> None:
        """The broker's time limit for an open transaction: aborts it and fences its producer."""
        if not self._transactions[name].decided:
            self._epochs[name] += 1
        self.finish(name)


class Producer:
    """A transactional producer. Every call raises Fenced once a newer one has its id."""

    __slots__ = ("_log", "epoch", "name")

    def __init__(self, log: FakeLog, name: str, epoch: int) -> None:
        self._log = log
        self.name = name
        self.epoch = epoch

    def begin(self) -> None:
        """Begin a transaction; waits until the one before shows everywhere, as Kafka does."""
        self._check()
        self._log.finish(self.name)
        self._log._transactions[self.name] = Transaction()

    def send(self, place: TopicPartition, records: Sequence[Out]) -> int:
        """Write records. Returns the offset behind the last."""
        transaction, log = self._open(), self._log
        partition = log.partitions.get(place) or log.partition(place)
        first = len(partition.records)
        end = partition.append(records, log.now)
        parts = transaction.written.get(partition)
        if parts is None:
            parts = transaction.written[partition] = []
            partition.open[transaction] = first
        parts.append(range(first, end))
        return end

    def send_offsets(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """Commit input offsets with the transaction."""
        self._open().offsets.update(offsets)

    def commit(self) -> None:
        """Decide the commit. It shows in some partitions, and in the rest by `FakeLog.settle`."""
        transaction, random = self._open(), self._log._chance.random
        transaction.decided = True
        markers: list[LogPartition | None] = [*transaction.written]
        if transaction.offsets:
            markers.append(None)
        markers.sort(key=lambda _: random())
        transaction.markers = markers
        self._log.settle(self.name, int(random() * (len(markers) + 1)))

    def _check(self) -> None:
        if self._log._epochs[self.name] != self.epoch:
            raise Fenced(f"{self.name} has a newer producer")

    def _open(self) -> Transaction:
        log, name = self._log, self.name
        if log._epochs[name] != self.epoch:
            self._check()
        transaction = log._transactions.get(name)
        if transaction is None or transaction.decided:
            raise RuntimeError(f"{self.name} has begun no transaction")
        return transaction
