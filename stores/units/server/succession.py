"""What an owner learns from the former owner's sessions before it delivers anything.

Completions go out to others before they are durable. So the former owner may have handed out a
message whose predecessor is not known to be complete here: but as a unit is one session's at a
time, that it was handed out proves that all before it in the unit was complete. This is why all
sessions are heard, or their leases are over, before anything is decided.
"""

from collections.abc import Callable, Iterable

from stores.units.queue import Delivery, UnitQueue


class Succession:
    """The sessions of the former owner, and what they tell.

    Args:
        former: their names.
    """

    def __init__(self, former: Iterable[str]) -> None:
        self.silent = set(former)
        """Sessions that have not told yet."""
        self._told: dict[str, tuple[list[int], list[int]]] = {}
        self.over = False

    def tell(self, session: str, held: list[int], completed: list[int]) -> bool:
        """A session, opened here, tells which offsets it holds, and which it completed.

        Returns whether that counts: not if its lease was over, or nothing is to be learned.
        """
        if self.over or (session not in self.silent and session not in self._told):
            return False
        self.silent.discard(session)
        self._told[session] = held, completed
        return True

    def forget(self, session: str) -> None:
        """A session's lease is over: whatever it holds is free."""
        self.silent.discard(session)
        self._told.pop(session, None)

    def decide(
        self, queue: UnitQueue, now: float, settle: Callable[[], None]
    ) -> dict[str, list[Delivery]] | None:
        """Session → what it goes on holding, once all is known; None while it is not.

        settle: lets the queue go on as if all that has changed were durable.
        """
        told = self._told.values()
        end = max((each for held, done in told for each in (*held, *done)), default=-1)
        if self.over or self.silent or queue.read_to <= end:
            return None
        self.over = True
        for session in queue.former - self._told.keys():
            queue.release_former(session)
        if not self._told:
            return {}
        completed = {each for _, done in self._told.values() for each in done}
        held = {each for holds, _ in self._told.values() for each in holds}
        for unit in list(queue.units()):
            waiting = [each.offset for each in queue.waiting(unit)]
            last = max((each for each in waiting if each in completed or each in held), default=-1)
            completed |= {each for each in waiting if each < last and each not in held}
        queue.rejoin(next(iter(self._told)), [], sorted(completed), now)
        settle()
        found = {}
        for session, (holds, done) in self._told.items():
            found[session] = queue.rejoin(session, holds, done, now)
        return found
