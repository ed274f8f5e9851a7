"""One partition of the fake log: its records, and the transactions that do not show yet."""

from collections.abc import Sequence

from topology.engine.commit_unit import Out

TopicPartition = tuple[str, int]
"""(topic, partition)."""


class Transaction:
    """What one transactional producer has written since it began.

    decided: the coordinator has noted the commit; no crash can undo it. markers: the partitions
    that do not show it yet; None stands for the group's offsets.
    """

    __slots__ = ("decided", "markers", "offsets", "written")

    def __init__(self) -> None:
        self.written: dict[LogPartition, list[range]] = {}
        self.offsets: dict[TopicPartition, int] = {}
        self.decided = False
        self.markers: list[LogPartition | None] = []


class LogPartition:
    """One partition. records: by offset; None where a reader finds nothing. appended: when (ms)."""

    __slots__ = ("appended", "open", "records")

    def __init__(self) -> None:
        self.records: list[Out | None] = []
        self.appended: list[int] = []
        self.open: dict[Transaction, int] = {}

    @property
    def end(self) -> int:
        """The offset up to which committed records can be read: Kafka's last stable offset."""
        return min(self.open.values()) if self.open else len(self.records)

    def append(self, records: Sequence[Out], now: int) -> int:
        """Append records. Returns the offset behind the last."""
        self.records += records
        self.appended += [now] * len(records)
        return len(self.records)

    def read(self, position: int, limit: int, end: int | None = None) -> tuple[list[int], int]:
        """Offsets of up to `limit` committed records from `position`, and the position behind."""
        records, end = self.records, self.end if end is None else end
        found: list[int] = []
        while position < end and len(found) < limit:
            if records[position] is not None:
                found.append(position)
            position += 1
        while position < end and records[position] is None:
            position += 1
        return found, position

    def committed(self) -> list[Out]:
        """All records that a reader sees, in order."""
        return [record for record in self.records[: self.end] if record is not None]

    def compact(self, *, tombstones: bool = False) -> None:
        """Keep the last record per key; `tombstones` removes deletions too, as Kafka does later."""
        records, end = self.records, self.end
        seen: set[bytes | None] = set()
        for offset in range(end - 1, -1, -1):
            record = records[offset]
            if record is None:
                continue
            key, value = record[:2]
            if key in seen or (tombstones and value is None and offset < end - 1):
                records[offset] = None
            seen.add(key)

    def mark(self, transaction: Transaction, committed: bool, now: int) -> None:
        """Write the transaction's marker."""
        del self.open[transaction]
        if not committed:
            for part in transaction.written[self]:
                for offset in part:
                    self.records[offset] = None
        self.records.append(None)
        self.appended.append(now)
