"""What a runtime gives the protocol of a partition."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from topology.engine.commit_unit import CommitUnit
from topology.model.event import Message

Work = Callable[[], Coroutine[Any, Any, None]]
Dispatch = Callable[[Work], Awaitable[None]]
"""Has some work done where handlers run, and waits until it is done."""
Gather = Callable[..., Awaitable[Any]]
"""Waits for several awaitables, given one by one, as `asyncio.gather` does."""
Clock = Callable[[], int]
"""() → the wall clock (ms)."""


class PartitionReader(Protocol):
    """Reads one partition of one topic: committed records, in their order."""

    def seek(self, offset: int) -> None:
        """Read from an offset on."""

    async def fetch(self, timeout: float) -> Sequence[Message]:
        """The next records, empty if there are none in `timeout` seconds."""

    async def position(self) -> int:
        """The offset up to which it is read; transaction markers take offsets too."""

    async def end(self) -> int:
        """The offset behind everything that is there and shows."""

    def pause(self) -> None:
        """Read no more, until `seek`."""


class GapWatermark(Protocol):
    """How far all that has arrived is read; asked only while a gap is due."""

    def reached(self, position: int) -> int | None:
        """A time (ms) by which all that had arrived has been read, None while that is not known.

        Args:
            position: The offset up to which the partition is read and processed.
        """

    def stop(self) -> None:
        """End what runs in the background."""


class RebuildSource(Protocol):
    """Histories of the streams of a view that ask to be rebuilt."""

    @property
    def ready(self) -> bool:
        """Whether there is something to take, soon if not at once."""

    def poll(self, position: int) -> None:
        """Begin to read if a stream asks for it; the view is at this input offset."""

    def take(self) -> Mapping[str, Any]:
        """Stream → its history, of those to rebuild in the next unit."""

    async def rebuild(self, histories: Mapping[str, Any], unit: CommitUnit) -> None:
        """Handle these streams again, into a unit."""

    async def stop(self) -> None:
        """Read no more."""
