"""What peers say that they have of this site's messages, and who waits for it. No I/O."""

import asyncio
import heapq
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import count

from stores.sites.errors import GivenUp
from stores.sites.origin import Origin
from stores.sites.site import Position

_Where = tuple[str, int]
_Waiting = list[tuple[int, int, Origin, str | None, "asyncio.Future[None]"]]


_MANY = 1_000
"""Who gave up waiting, and is kept."""


class Heard:
    """What peers have of this site's messages.

    Args:
        peers: their names.
    """

    def __init__(self, peers: Iterable[str]) -> None:
        self._positions: dict[str, dict[_Where, Position]] = {peer: {} for peer in peers}
        self._highest: dict[str, Mapping[int, Position]] = {}
        self._put_back: set[_Where] = set()
        self._losses: dict[tuple[str, _Where], list[tuple[int, int]]] = defaultdict(list)
        self._waiting: dict[_Where, _Waiting] = defaultdict(list)
        self._numbers = count()
        self._gave_up = 0

    def loss(self, peer: str, where: _Where, first: int, last: int) -> None:
        """A peer never gets some offsets; said before the position that is behind them."""
        if (first, last) not in (known := self._losses[peer, where]):
            insort(known, (first, last))

    def position(self, peer: str, where: _Where, position: Position) -> None:
        """A peer has what is before a position; who waits for that is told."""
        self._positions[peer][where] = position
        if position.next > (known := self.highest(where[0])).get(where[1], Position(0)).next:
            self._highest[where[0]] = {**known, where[1]: position}
        waiting, longer = self._waiting[where], _Waiting()
        while waiting and waiting[0][0] < position.next:
            _, _, sent, id, done = each = heapq.heappop(waiting)
            if done.done():
                continue
            try:
                if self._has(sent, id):
                    done.set_result(None)
                else:
                    longer.append(each)
            except GivenUp as error:
                done.set_exception(error)
        for each in longer:
            heapq.heappush(waiting, each)

    def highest(self, topic: str) -> Mapping[int, Position]:
        """The highest position that a peer has of each partition of a topic; never changed."""
        return self._highest.get(topic, {})

    def is_put_back(self, sent: Origin, id: str | None, before: Position | None) -> bool:
        """Whether the own log was put back to an older state: its offsets are those of others then.

        Args:
            sent: a message of it.
            id: that of its topic; None: it is not known.
            before: the highest position of its partition before it was sent.
        """
        where = sent.topic, sent.partition
        if before is not None and sent.offset < before.next and _same(before, id):
            self._put_back.add(where)
        return where in self._put_back

    def put_back(self, where: _Where) -> None:
        """A partition of the own log was put back to an older state."""
        self._put_back.add(where)

    async def copied(self, sent: Origin, id: str | None) -> None:
        """Wait until a peer has a message.

        Args:
            sent: which.
            id: that of its topic; None: it is not known.

        Raises:
            GivenUp: no peer ever gets it.
        """
        if self._has(sent, id):
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[sent.topic, sent.partition]
        heapq.heappush(waiting, (sent.offset, next(self._numbers), sent, id, done))
        try:
            await done
        finally:
            if done.cancelled():
                self._gave_up += 1
                if self._gave_up > _MANY and 2 * self._gave_up > self._count():
                    self._forget()

    def _count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _forget(self) -> None:
        """Drop those that wait no longer, which a peer that is away would let add up."""
        for where, waiting in self._waiting.items():
            left = [each for each in waiting if not each[4].done()]
            heapq.heapify(left)
            self._waiting[where] = left
        self._gave_up = 0

    def is_anew(self, sent: Origin, id: str | None) -> bool:
        """Whether a peer has another topic of that name: this one is not forwarded to it."""
        where = sent.topic, sent.partition
        return any(where in at and not _same(at[where], id) for at in self._positions.values())

    def _has(self, sent: Origin, id: str | None) -> bool:
        where, given_up = (sent.topic, sent.partition), 0
        if where in self._put_back:
            return False
        for peer, positions in self._positions.items():
            at = positions.get(where)
            if at is None or sent.offset >= at.next or not _same(at, id):
                continue
            losses = self._losses[peer, where]
            before = bisect_right(losses, sent.offset, key=lambda each: each[0])
            if not before or losses[before - 1][1] < sent.offset:
                return True
            given_up += 1
        if given_up and given_up == len(self._positions):
            raise GivenUp(
                f"message {sent} was deleted here before it was copied, and is given up: no other "
                "site gets it; send it again if they need it",
                sent,
            )
        return False


def _same(position: Position, id: str | None) -> bool:
    return None in (id, position.topic_id) or position.topic_id == id
