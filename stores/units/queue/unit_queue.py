"""UnitQueue: one member of one destination for one subscriber. No I/O, no clock."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from stores.units.queue.changes import AdministrationRecord, RowKey, RowValue, UnitChanges
from stores.units.queue.message import EVERY, Delivery, Filter, Outcome, UnitMessage
from stores.units.queue.settings import QueueSettings
from stores.units.queue.status import UnitStatus
from topology.ordered_commit.offset_ranges import OffsetRanges

STANDARD = QueueSettings()


class UnitQueue:
    """The order of a member's messages: who may have which, and what is complete.

    `now` is in seconds since 1970 everywhere; what goes back counts as standing still. After any
    calls the owner takes the changes, makes them durable, and says so by `settled`: only then may
    another session get more of a unit whose message was completed.

    Args:
        settings: the rules.
    """

    def __init__(self, settings: QueueSettings = STANDARD) -> None:
        raise NotImplementedError

    counts: Counter[Outcome]
    """Messages by how they ended, and deliveries by how they were returned."""
    read_to: int
    """The offset from which on nothing has arrived yet."""
    messages: int
    """Messages in the queue, held and parked ones too."""
    size: int
    """Their bytes."""

    # What arrives.

    def arrive(self, message: UnitMessage, now: float) -> None:
        """Take a message in; one that is done, or was taken in before, is passed by."""
        raise NotImplementedError

    def nothing_below(self, offset: int) -> None:
        """The log was read up to before `offset`, and what did not arrive is no message."""
        raise NotImplementedError

    def commit_send(self, offset: int, now: float) -> None:
        """The send of a message that arrived uncommitted is committed."""
        raise NotImplementedError

    def abort_send(self, offset: int, now: float) -> None:
        """The send of a message that arrived uncommitted is aborted: it is gone."""
        raise NotImplementedError

    # Sessions.

    def open_session(self, session: str, filter: Filter = EVERY, prefetch: int = 1) -> None:
        """A consumer's session, which may hold `prefetch` messages at a time."""
        raise NotImplementedError

    def rejoin(
        self, session: str, held: Iterable[int], completed: Iterable[int], now: float
    ) -> list[Delivery]:
        """A session of the former owner, opened here, tells what it holds and what it completed.

        Returns new deliveries of what it goes on holding; it must drop everything else. Raises
        UnitError if one of the offsets has not arrived here yet: read on, and call it again.
        """
        raise NotImplementedError

    def release_former(self, session: str, now: float) -> None:
        """A session of the former owner holds nothing any more: its lease is over."""
        raise NotImplementedError

    def close_session(self, session: str, now: float, complete: bool = False) -> None:
        """A session ends in order: what it holds is completed, or returned."""
        raise NotImplementedError

    def lose_session(self, session: str, now: float) -> None:
        """A session's lease is over: all that it holds returns, its first of each unit counted."""
        raise NotImplementedError

    def next(self, session: str, now: float) -> list[Delivery]:
        """What the session gets now: as many as it may hold beyond what it holds."""
        raise NotImplementedError

    def complete(
        self,
        session: str,
        numbers: Iterable[int],
        now: float,
        how: Outcome = Outcome.ACKNOWLEDGED,
    ) -> None:
        """Deliveries are complete. Raises StaleDelivery, and completes none, if one is not held."""
        raise NotImplementedError

    def roll_back(
        self,
        session: str,
        numbers: Iterable[int],
        now: float,
        delay: float | None = None,
        reason: str = "",
    ) -> None:
        """Deliveries failed: all that the session holds of their units returns, from the first.

        Raises StaleDelivery, and returns none, if one is not held.
        """
        raise NotImplementedError

    def recover(self, session: str, now: float) -> None:
        """All that the session holds returns at once, from the first of each unit."""
        raise NotImplementedError

    # Time.

    @property
    def due(self) -> float | None:
        """When `expire` has something to do next."""
        raise NotImplementedError

    def expire(self, now: float) -> None:
        """Let time pass: delays end, messages expire."""
        raise NotImplementedError

    # Administration. `unit` is a name, or the offset of an ungrouped message.

    def park(self, unit: str | int, now: float, by: str, reason: str = "") -> None:
        """Park a unit with all that follows into it. Raises UnitHeld."""
        raise NotImplementedError

    def redrive(self, unit: str | int, now: float, by: str, reason: str = "") -> int:
        """Deliver a parked unit again, in order; returns how many messages it has."""
        raise NotImplementedError

    def pause(self, unit: str | None, now: float, by: str, reason: str = "") -> None:
        """Deliver nothing new of a unit, or of the whole member (None)."""
        raise NotImplementedError

    def resume(self, unit: str | None, now: float, by: str, reason: str = "") -> None:
        """End a pause."""
        raise NotImplementedError

    def move(
        self, offsets: Iterable[int], to: str, now: float, by: str, reason: str = ""
    ) -> AdministrationRecord:
        """Send messages elsewhere. Raises UnitHeld if a session holds one of them."""
        raise NotImplementedError

    def delete(
        self, offsets: Iterable[int], now: float, by: str, reason: str = ""
    ) -> AdministrationRecord:
        """Delete messages. Raises UnitHeld if a session holds one of them."""
        raise NotImplementedError

    # What is durable.

    def take_changes(self) -> UnitChanges:
        """What has changed since they were last taken."""
        raise NotImplementedError

    def settled(self, number: int, now: float) -> None:
        """The changes of this number, and all before, are durable."""
        raise NotImplementedError

    def restore(
        self,
        rows: Mapping[RowKey, RowValue],
        position: int,
        done: OffsetRanges,
        now: float,
        former: Iterable[str] = (),
    ) -> None:
        """Begin where the former owner left off; called first, on an empty queue.

        former: its sessions. Nothing is delivered until each has rejoined or was released.
        """
        raise NotImplementedError

    # Looking.

    def status(self, unit: str | int, now: float) -> UnitStatus:
        """A unit as it is now; one without messages is empty."""
        raise NotImplementedError

    def units(self) -> Iterator[str]:
        """The names of all units that have messages or a mark."""
        raise NotImplementedError

    def offsets(self, unit: str | int) -> list[int]:
        """The messages of a unit, held ones first."""
        raise NotImplementedError

    def records(self) -> list[AdministrationRecord]:
        """What was done by administration, the latest last."""
        raise NotImplementedError

    @property
    def unadmitted(self) -> int:
        """Heads that no open session's filter admits, although there are sessions."""
        raise NotImplementedError
