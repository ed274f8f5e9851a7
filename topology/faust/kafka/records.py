"""Fetched records in the engine's own shape, made once and with nothing that nobody reads.

aiokafka makes a ConsumerRecord of each record: eleven fields, two of them measured for it, in three
nested calls, and gives them out one by one. That is a fifth of the time that the engine takes for
an event; here those of a batch are made in one go, and taken as a list. Its fetcher looks up by
name the classes of a response and of what unpacks it; here the one name finds a subclass, the other
a function that gives the engine's readers a subclass, and all others what they had.

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


class _Part(list[Record]):
    """Records that follow each other. To aiokafka they are one: the last of them."""

    __slots__ = ()

    @property
    def offset(self) -> int:
        return self[-1].offset


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

    def __iter__(self) -> Iterator[_Part]:
        topic, partition = self._tp
        part = _Part(
            [
                Record(topic, partition, r.offset, r.key, r.value, r.headers, r.timestamp)
                for r in self._batch
            ]
        )
        return iter([part] if part else [])


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
    """Unpacks to lists of `Record`, and of `Damaged` for what could be read only in part."""

    def __init__(self, tp: Any, records: Any, *others: Any) -> None:
        super().__init__(tp, _Batches(records, tp), *others)
        self.ended = False
        """Whether all is taken."""
        self._unpacked: int = self.next_fetch_offset
        self._rest: list[Record] = []
        """Those that are unpacked and not taken yet, and the offset behind them."""

    def take(self, most: int | None) -> list[Record]:
        """The next records, at most so many."""
        found, self.next_fetch_offset = self._rest, self._unpacked
        while most is None or len(found) < most:
            part = next(self._records_iterator, None)
            if part is None:
                self.ended = True
                break
            if found:
                # In place: a batch may have a single record, and a response thousands of batches.
                found += part
            else:
                found = part
        self._unpacked, self._rest = self.next_fetch_offset, []
        if most is not None and len(found) > most:
            found, self._rest = found[:most], found[most:]
            self.next_fetch_offset = self._rest[0].offset
        return found

    def _consumer_record(self, tp: Any, record: Any) -> list[Record]:
        if record.__class__ is _Part:
            after = self.next_fetch_offset
            part: list[Record] = record
            return part if part[0].offset >= after else [r for r in part if r.offset >= after]
        # What is unpacked anew is as aiokafka has it.
        (made,) = next(iter(_Batch([record], tp)))
        torn = [name for name, _ in record.headers if isinstance(name, ReplacedName)]
        return [damaged(made, f"a header name is not UTF-8: {torn[0]}") if torn else made]


class LargeRecords(EngineRecords):
    """The same of a response that may have records which are too large."""

    def _consumer_record(self, tp: Any, record: Any) -> list[Record]:
        found = super()._consumer_record(tp, record)
        return [
            made if (reason := too_large(made)) is None else damaged(made, reason) for made in found
        ]


_FetchResult: Any = fetcher.FetchResult


class _Result(_FetchResult):  # type: ignore[misc]
    """A response, of which the engine's readers take a list at a time."""

    def getall(self, max_records: int | None = None) -> list[Any]:
        records: Any = self._partition_records
        if not isinstance(records, EngineRecords):
            others: list[Any] = super().getall(max_records)
            return others
        if not self.check_assignment(self._topic_partition):
            return []
        found = records.take(max_records)
        self._update_position()
        if records.ended:
            self._partition_records: Any = None
        return found

    def getone(self) -> Any:
        if not isinstance(self._partition_records, EngineRecords):
            return super().getone()
        return next(iter(self.getall(1)), None)


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
fetcher.FetchResult = _Result
