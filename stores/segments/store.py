"""Where the bytes of segments are: the protocol, and what every store of them holds to."""

from typing import Protocol


class SegmentStore(Protocol):
    """Bytes by segment. Each segment has one writer; whoever reads knows START and END from SQL."""

    def append(self, name: str, offset: int, data: bytes) -> None:
        """Write whole records at the end, and return when they survive a loss of power.

        A segment that begins with them is made, and survives, too.

        Raises:
            OSError: nothing of it is promised; write to another segment from here on.
        """
        ...

    def read(self, name: str, start: int, end: int) -> bytes:
        """Read bytes; fewer, where the segment ends before."""
        ...

    def size(self, name: str) -> int:
        """Return the bytes of a segment, 0 if there is none."""
        ...

    def cut(self, name: str, end: int) -> None:
        """Drop what is beyond END."""
        ...

    def remove(self, name: str) -> None:
        """Remove a segment, if it is there; no loss of power brings it back."""
        ...

    def names(self) -> list[str]:
        """List the segments that are there, with those that a crash has left behind."""
        ...
