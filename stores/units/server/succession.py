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
        self._told: dict[str, tuple[list[int], list[int], list[int]]] = {}
        self.over = False

    @property
    def end(self) -> int:
        """The highest offset that a session told of; -1 for none."""
        told = self._told.values()
        return max((each for offsets in told for some in offsets for each in some), default=-1)

    def tell(
        self, session: str, held: list[int], completed: list[int], returned: Iterable[int] = ()
    ) -> bool:
        """A session, opened here, tells which offsets it holds, and which it completed.

        returned: what it rolled back although it had completed later messages of the unit, whose
        completion is not durable yet.

        Returns whether that counts: not if its lease was over, or nothing is to be learned.
        """
        if self.over or (session not in self.silent and session not in self._told):
            return False
        self.silent.discard(session)
        self._told[session] = held, completed, list(returned)
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
        if self.over or self.silent or queue.read_to <= self.end:
            return None
        for session in queue.former - self._told.keys():
            queue.release_former(session)
        if not self._told:
            self.over = True
            return {}
        told = self._told.values()
        held = {each for holds, _, _ in told for each in holds}
        done_by = {each: frozenset(back) for _, done, back in told for each in done}
        proven = set(done_by)
        for unit in list(queue.units()):
            # What a session holds was handed out when all before it was complete, or held too. So
            # was what it completed, but since then it may have returned what precedes that.
            proves, but = False, set[frozenset[int]]()
            for offset in (each.offset for each in reversed(queue.waiting(unit))):
                if offset in held:
                    proves = True
                elif proves or any(offset not in back for back in but):
                    proven.add(offset)
                if offset in done_by:
                    but.add(done_by[offset])
        queue.rejoin(next(iter(self._told)), [], sorted(proven), now, more=True)
        settle()
        found = {}
        for session, (holds, done, returned) in self._told.items():
            back = set(returned) - held - proven
            found[session] = queue.rejoin(session, holds, done, now, back)
        self.over = True
        return found
