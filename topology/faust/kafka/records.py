"""Fetched records in the engine's own shape, made once and with nothing that nobody reads.

aiokafka makes a ConsumerRecord of each record: eleven fields, two of them measured for it, in three
nested calls. That is a tenth of the time that the engine takes for an event; here those of a batch
are made in one go. Its fetcher looks up the class that unpacks a response by name; here that name
finds a function, which gives the engine's readers a subclass of it, and all others what they had.

A record of which a header name is not UTF-8 is damaged; `stores.kafka_records` goes on behind it.

A record that is too large to be written to Sequitur's own topics is damaged, too. Only of responses
that may have one is each record looked at.
"""

from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher

from stores.kafka_records import ReplacedName, TolerantRecords
from topology.model.event import Record, damaged
from topology.model.large import ESCAPED, MESSAGE_BYTES, too_large


def raw(value: bytes) -> bytes:
    """The deserializer of the engine's readers, which is how they are known."""
    return value


class _Batch:
    """A record batch that unpacks to `Record`, all of them at once."""

    def __init__(self, batch: Any, tp: Any) -> None:
        self._batch = batch
        self._tp = tp

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        """The marker of a control batch, as it is."""
        return next(self._batch)

    def __iter__(self) -> Iterator[Record]:
        topic, partition = self._tp
        return iter(
            [
                Record(topic, partition, r.offset, r.key, r.value, r.headers, r.timestamp)
                for r in self._batch
            ]
        )


class _Batches:
    """A response's record batches as such ones."""

    def __init__(self, records: Any, tp: Any) -> None:
        self.has_next = records.has_next
        self.response = getattr(records, "response", None)
        self._records = records
        self._tp = tp

    def next_batch(self) -> _Batch:
        return _Batch(self._records.next_batch(), self._tp)


class EngineRecords(TolerantRecords):
    """Unpacks to `Record`, and to `Damaged` what could be read only in part."""

    def __init__(self, tp: Any, records: Any, *others: Any) -> None:
        super().__init__(tp, _Batches(records, tp), *others)

    def __iter__(self) -> Iterator[Record]:
        records: Iterator[Record] = self._records_iterator
        return records

    def _consumer_record(self, tp: Any, record: Any) -> Record:
        if record.__class__ is Record:
            return record
        # What is unpacked anew is as aiokafka has it.
        made: Record = next(iter(_Batch([record], tp)))
        torn = [name for name, _ in record.headers if isinstance(name, ReplacedName)]
        return damaged(made, f"a header name is not UTF-8: {torn[0]}") if torn else made


class LargeRecords(EngineRecords):
    """The same of a response that may have records which are too large."""

    def _consumer_record(self, tp: Any, record: Any) -> Record:
        made = super()._consumer_record(tp, record)
        reason = too_large(made)
        return made if reason is None else damaged(made, reason)


def may_be_large(response: bytes) -> bool:
    """Whether a batch of a response is so large, or compressed so that it may be."""
    at = 0
    while at + 23 <= len(response):
        size = int.from_bytes(response[at + 8 : at + 12], "big")
        compressed = response[at + (22 if response[at + 16] >= 2 else 17)] & 7
        if compressed or size > _MAY_BE:
            return True
        at += 12 + size
    return False


_MAY_BE = MESSAGE_BYTES // ESCAPED
"""Bytes of a batch in which no record counts as too large: more than clients and brokers let a
batch have, unless they are set otherwise. A header counts for `HEADER` beside its name and value;
the lengths of the two, which the batch has too, count for more.
"""


def _unpacking(tp: Any, records: Any, aborted: Any, offset: int, key: Any, *others: Any) -> Any:
    kind: Any = TolerantRecords
    if key is raw:
        response = getattr(records, "response", b"")
        kind = LargeRecords if may_be_large(response) else EngineRecords
    return kind(tp, records, aborted, offset, key, *others)


fetcher.PartitionRecords = _unpacking
