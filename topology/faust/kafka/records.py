"""Fetched records in the engine's own shape, made once and with nothing that nobody reads.

aiokafka makes a ConsumerRecord of each record: eleven fields, two of them measured for it, in three
nested calls. That is a twentieth of the time that the engine takes for an event. Its fetcher looks
up the class that unpacks a response by name; here that name finds a function, which gives the
engine's readers a subclass of it, and all others what they had.

aiokafka also raises for a whole response if one record in it has a header whose name is not UTF-8,
again whenever it is fetched. Such a response is unpacked anew, by a slower way that goes on.

A record that is too large to be written to Sequitur's own topics is damaged, too. Only of responses
that may have one is each record looked at.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

from topology.model.event import Record, damaged
from topology.model.large import ESCAPED, MESSAGE_BYTES, too_large

PartitionRecords: Any = fetcher.PartitionRecords
MemoryRecords: Any = fetcher.MemoryRecords


def raw(value: bytes) -> bytes:
    """The deserializer of the engine's readers, which is how they are known."""
    return value


class KeptRecords(MemoryRecords):  # type: ignore[misc]
    """A response's record batches; `response` is the bytes of them."""

    def __init__(self, response: bytes) -> None:
        super().__init__(response)
        self.response = response


class TolerantRecords(PartitionRecords):  # type: ignore[misc]
    """Goes on behind a header name that is not UTF-8."""

    def __init__(self, tp: Any, records: Any, aborted: Any, *others: Any) -> None:
        self._response = getattr(records, "response", None)
        self._given = aborted
        super().__init__(tp, records, aborted, *others)

    def _unpack_records(self) -> Iterator[Any]:
        try:
            yield from super()._unpack_records()
        except UnicodeDecodeError:
            if self._response is None:
                raise
            # From the start of the response; what was given out is passed over by its offset.
            self._records = _TolerantMemory(self._response)
            self._aborted_transactions = sorted(self._given or [], key=itemgetter(1))
            self._aborted_producers.clear()
            yield from super()._unpack_records()


class EngineRecords(TolerantRecords):
    """Unpacks to `Record`, and to `Damaged` what could be read only in part."""

    def __iter__(self) -> Iterator[Record]:
        records: Iterator[Record] = self._records_iterator
        return records

    def _consumer_record(self, tp: Any, record: Any) -> Record:
        made = Record(
            tp.topic,
            tp.partition,
            record.offset,
            record.key,
            record.value,
            record.headers,
            record.timestamp,
        )
        if self._records.__class__ is not _TolerantMemory:
            return made
        torn = [name for name, _ in record.headers if isinstance(name, _Replaced)]
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


class _Replaced(str):
    """A header name in which bytes that are not UTF-8 are written as escapes."""


class _Bytes(bytearray):
    """Bytes whose slices can be decoded, whatever they are."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _Bytes(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return super().decode(encoding, errors)
        except UnicodeDecodeError:
            return _Replaced(super().decode(encoding, "backslashreplace"))


class _TolerantBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: _Bytes = _Bytes(self._buffer)


class _TolerantMemory(_MemoryRecordsPy):  # type: ignore[misc]
    def next_batch(self, *args: Any) -> Any:
        following = self._next_slice
        # Only this format has headers.
        if following is not None and len(following) > 16 and following[16] >= 2:
            self._cache_next()
            return _TolerantBatch(following)
        return super().next_batch(*args)


def _unpacking(tp: Any, records: Any, aborted: Any, offset: int, key: Any, *others: Any) -> Any:
    kind: Any = TolerantRecords
    if key is raw:
        response = getattr(records, "response", b"")
        kind = LargeRecords if may_be_large(response) else EngineRecords
    return kind(tp, records, aborted, offset, key, *others)


fetcher.PartitionRecords = _unpacking
fetcher.MemoryRecords = KeptRecords
