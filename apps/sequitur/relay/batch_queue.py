"""What one task hands to another, which takes all that came together meanwhile."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")


class BatchQueue(Generic[T]):
    """Things in their order, from one task to one other."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self._things: list[T] = []
        self._taken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._things)

    async def put(self, things: Sequence[T], limit: int) -> None:
        """Add them, as soon as there are no more than `limit` with them, or none without them."""
        while self._things and len(self._things) + len(things) > limit:
            self._taken.clear()
            await self._taken.wait()
        if things:
            self._things += things
            self.there.set()

    def take(self, room: int | None = None, size: Callable[[T], int] = lambda _: 1) -> list[T]:
        """All that is there, or of it the first ones, of no more than `room` in `size`."""
        many = len(self._things) if room is None else fitting(map(size, self._things), room)
        found, self._things = self._things[:many], self._things[many:]
        if not self._things:
            self.there.clear()
        self._taken.set()
        return found


def fitting(sizes: Iterable[int], room: int) -> int:
    """How many of the first have room together; one at least."""
    return max(1, sum(total <= room for total in accumulate(sizes)))
