"""Where the bytes of segments are: the protocol, and what every store of them holds to."""

from typing import Protocol


class SegmentStore(Protocol):
    """Bytes by segment. Each segment has one writer; whoever reads knows START and END from SQL."""

    def append(self, name: str, offset: int, data: bytes) -> None:
        """Write behind what is there, and return when it survives a loss of power.

        Args:
            name: the segment's; a new one is made, and survives with what is in it.
            offset: where the data begins.
            data: whole records.

        Raises:
            OSError: nothing of it is promised; write to another segment from here on.
        """
        ...

    def read(self, name: str, start: int, end: int) -> bytes:
        """Read bytes; fewer, where the segment ends before.

        Args:
            name: the segment's.
            start: of the first byte.
            end: behind the last byte.
        """
        ...

    def size(self, name: str) -> int:
        """Return the bytes of a segment, 0 if there is none.

        Args:
            name: the segment's.
        """
        ...

    def cut(self, name: str, end: int) -> None:
        """Drop what is beyond END.

        Args:
            name: the segment's.
            end: END.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a segment, if it is there.

        Args:
            name: the segment's.
        """
        ...

    def names(self) -> list[str]:
        """List the segments that are there, with those that a crash has left behind."""
        ...
