"""Fetched records in the engine's own shape, made once and with nothing that nobody reads.

aiokafka makes a ConsumerRecord of each record: eleven fields, two of them measured for it, in three
nested calls. That is a twentieth of the time that the engine takes for an event. Its fetcher looks
up the class that unpacks a response by name; here that name finds a function, which gives the
engine's readers a subclass of it, and all others what they had.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher

from topology.event import Record

PartitionRecords: Any = fetcher.PartitionRecords


def raw(value: bytes) -> bytes:
    """The deserializer of the engine's readers, which is how they are known."""
    return value


class EngineRecords(PartitionRecords):  # type: ignore[misc]
    """Unpacks to `Record`."""

    def __iter__(self) -> Iterator[Record]:
        records: Iterator[Record] = self._records_iterator
        return records

    def _consumer_record(self, tp: Any, record: Any) -> Record:
        return Record(
            tp.topic,
            tp.partition,
            record.offset,
            record.key,
            record.value,
            record.headers,
            record.timestamp,
        )


def _unpacking(tp: Any, records: Any, aborted: Any, offset: int, key: Any, *others: Any) -> Any:
    kind = EngineRecords if key is raw else PartitionRecords
    return kind(tp, records, aborted, offset, key, *others)


fetcher.PartitionRecords = _unpacking
