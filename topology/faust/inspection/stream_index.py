"""Where in a changelog streams have rows: one is looked at without reading those of all others."""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from zlib import crc32

CHUNK = 2_000
"""Offsets that are told apart from the others: what is read for a stream that has a row there."""


def token(key: bytes) -> bytes:
    """What a stream's row is found by, a lane's too; of a row that is of no stream, its key.

    Args:
        key: of the row.
    """
    if key[:1] not in (b"p", b"b", b"r"):
        return key
    return key[1:].partition(b"\0")[0].partition(b"|")[0]


class StreamIndex:
    """Chunk of a changelog → the hashes of the streams that have rows there: 4 bytes for each.

    Streams of one hash are read together, and told apart by their rows.
    """

    def __init__(self) -> None:
        self._chunks: list[tuple[int, int, array[int]]] = []
        self._first, self._last, self._open = 0, -1, set[int]()

    def note(self, offset: int, key: bytes) -> None:
        """Take in a record, the next one.

        Args:
            offset: of it.
            key: of its row.
        """
        if not self._open:
            self._first = offset
        elif offset - self._first >= CHUNK:
            self._chunks.append((self._first, self._last, array("I", sorted(self._open))))
            self._first, self._open = offset, set()
        self._last = offset
        self._open.add(crc32(token(key)))

    def ranges(self, tokens: Collection[bytes]) -> Iterator[tuple[int, int]]:
        """The offsets, from and up to, between which all rows of some tokens are.

        Args:
            tokens: as `token` makes them.
        """
        wanted = [crc32(each) for each in tokens]
        for first, last, there in self._chunks:
            if any(_has(there, each) for each in wanted):
                yield first, last + 1
        if not self._open.isdisjoint(wanted):
            yield self._first, self._last + 1


def _has(there: "array[int]", wanted: int) -> bool:
    at = bisect_left(there, wanted)
    return at < len(there) and there[at] == wanted
