"""Records of Kafka whose header names are not UTF-8 end nobody who reads them.

aiokafka raises for a whole response if one record in it has a header whose name is not UTF-8, again
whenever it is fetched. Such a response is unpacked anew, by a slower way that goes on. aiokafka's
fetcher looks up the classes that unpack a response by name: importing this is enough.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import _MemoryRecordsPy

import stores.kafka_topics  # noqa: F401  # no client makes topics by asking for them

PartitionRecords: Any = fetcher.PartitionRecords
MemoryRecords: Any = fetcher.MemoryRecords


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
            self._records = TolerantMemory(self._response)
            self._aborted_transactions = sorted(self._given or [], key=itemgetter(1))
            self._aborted_producers.clear()
            yield from super()._unpack_records()


class ReplacedName(str):
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
            return ReplacedName(super().decode(encoding, "backslashreplace"))


class _TolerantBatch(_DefaultRecordBatchPy):  # type: ignore[misc]
    def _maybe_uncompress(self) -> None:
        super()._maybe_uncompress()
        self._buffer: _Bytes = _Bytes(self._buffer)


class TolerantMemory(_MemoryRecordsPy):  # type: ignore[misc]
    """A response in which header names need not be UTF-8."""

    def next_batch(self, *args: Any) -> Any:
        following = self._next_slice
        # Only this format has headers.
        if following is not None and len(following) > 16 and following[16] >= 2:
            self._cache_next()
            return _TolerantBatch(following)
        return super().next_batch(*args)


fetcher.PartitionRecords = TolerantRecords
fetcher.MemoryRecords = KeptRecords
