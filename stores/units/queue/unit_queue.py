"""UnitQueue: one member of one destination for one subscriber. No I/O, no clock."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from stores.units.errors import UnitError
from stores.units.queue.administration import Administration
from stores.units.queue.changes import (
    RowKey,
    RowValue,
    UnitChanges,
    UnitMark,
)
from stores.units.queue.deliveries import Deliveries
from stores.units.queue.handover import MovedAway
from stores.units.queue.message import Outcome, UnitMessage
from stores.units.queue.settings import QueueSettings
from stores.units.queue.status import UnitStatus, told
from stores.units.queue.unit import Unit, UnitKey
from stores.units.queue.unit_table import WHOLE
from topology.ordered_commit.offset_ranges import OffsetRanges

STANDARD = QueueSettings()


class UnitQueue(Deliveries, Administration):
    """The order of a member's messages: who may have which, and what is complete.

    `now` is in seconds since 1970 everywhere; a time that goes back counts as standing still. After
    calls that changed something the owner takes the changes, makes them durable in one transaction,
    and says so by `settled`: only then may another session get more of a unit whose message was
    completed.

    Args:
        settings: the rules.
    """

    def __init__(self, settings: QueueSettings = STANDARD) -> None:
        super().__init__(settings)

    @property
    def counts(self) -> Counter[Outcome]:
        """Messages by how they ended, and deliveries by how they returned."""
        return self._ledger.counts

    @property
    def read_to(self) -> int:
        """The offset from which on nothing has arrived yet: where the owner reads on."""
        return self._ledger.read_to

    @property
    def messages(self) -> int:
        """Messages in the queue, held and parked ones too."""
        return self._ledger.messages

    @property
    def size(self) -> int:
        """Their bytes."""
        return self._ledger.size

    @property
    def oldest_parked(self) -> int | None:
        """The lowest offset of what is parked, which the position has passed; None for none."""
        return min(self._ledger.stored, default=None)

    @property
    def parked_messages(self) -> int:
        """How many messages are parked."""
        return len(self._ledger.stored)

    def is_stored(self, offset: int) -> bool:
        """Whether a message is in a row: the position has passed it, and it is not complete."""
        return offset in self._ledger.stored

    @property
    def paused(self) -> bool:
        """Whether somebody has paused the whole member."""
        return self._paused is not None and self._paused.paused is not None

    @property
    def changed(self) -> bool:
        """Whether there is something to make durable."""
        return self._ledger.changed

    @property
    def unadmitted(self) -> int:
        """Heads that no open session's filter admits, although there are sessions."""
        return len(self._ready.unadmitted)

    @property
    def former(self) -> frozenset[str]:
        """Sessions of the former owner that are still waited for."""
        return frozenset(self._former)

    @property
    def ready(self) -> bool:
        """Whether there is a head that a session may get."""
        return self._ready.any

    @property
    def ranges(self) -> int:
        """How many ranges of offsets are complete beyond the position."""
        return len(self._ledger.done)

    def take_changes(self, copy: bool = True) -> UnitChanges:
        """What has changed since the changes were last taken.

        Args:
            copy: whether its ranges stay as they are now; else they go on with the queue, and the
                changes that are made durable are taken later.
        """
        return self._ledger.take(copy)

    def settled(self, number: int, now: float) -> None:
        """Changes are durable: units whose messages they complete may go to other sessions.

        Args:
            number: of these changes; all before are durable too.
            now: seconds since 1970.
        """
        now = self._at(now)
        while self._settling and self._settling[0][0] <= number:
            unit = self._settling.popleft()[1]
            if unit.departed <= number:
                unit.departed = 0
            if 0 < unit.unsettled <= number:
                unit.unsettled = 0
            if unit.held is None and not unit.unsettled:
                self._free(unit, now)
            else:
                self._refresh(unit, now)

    def restore(
        self,
        rows: Mapping[RowKey, RowValue],
        position: int,
        done: OffsetRanges,
        now: float,
        former: Iterable[str] = (),
    ) -> None:
        """Begin where the former owner left off; called first, on an empty queue.

        Args:
            rows: what it wrote, by key.
            position: the offset that it committed; reading begins there.
            done: what it had complete from there on.
            now: seconds since 1970.
            former: its sessions. Nothing is delivered until each has rejoined or was released.

        Raises:
            UnitError: the queue is not empty.
        """
        if self._units or self._ledger.read_to:
            raise UnitError("a queue that has messages cannot be restored: make a new one")
        now = self._at(now)
        self._former.update(former)
        self._ledger.restore(rows, position, done)
        for (_, key), value in rows.items():
            if isinstance(value, MovedAway):
                self._moved[str(key)] = value
            elif isinstance(value, UnitMark):
                if key == WHOLE:
                    self._paused = value
                else:
                    self._units.setdefault(key, Unit(key, now)).mark = value
        messages = [value for value in rows.values() if isinstance(value, UnitMessage)]
        for message in sorted(messages, key=lambda each: each.offset):
            key = message.offset if message.unit is None else message.unit
            self._units.setdefault(key, Unit(key, now)).append(message)
        for unit in list(self._units.values()):
            self._refresh(unit, now)

    def status(self, unit: UnitKey) -> UnitStatus:
        """A unit as it is now; one that has no messages is empty.

        Args:
            unit: its name, or the offset of an ungrouped message.
        """
        found = self._units.get(unit) or Unit(unit, self._now)
        head = found.waiting[0] if found.waiting else None
        first = next(iter((found.held or {}).values()), head)
        state = self._state(found)
        opens = max(found.open_at, head.not_before) if head else 0.0
        dead = found.mark.dead if found.mark else None
        ends = {"delayed": opens, "dead": (dead or 0.0) + self._settings.dead_for}
        mark = self._paused if state == "paused" and self._paused else found.mark
        return UnitStatus(
            unit=str(unit),
            state=state,
            marked=found.mark is not None,
            session=found.session,
            since=None if state == "empty" else found.since,
            until=ends.get(state),
            held=tuple(message.offset for message in (found.held or {}).values()),
            waiting=len(found.waiting),
            head=head.offset if head else None,
            redeliveries=self._ledger.redelivered.get(first.offset, 0) if first else 0,
            reason=mark.reason if mark else "",
            helps=told(state, found.session, str(unit)),
        )

    def _state(self, unit: Unit) -> str:
        mark, head = unit.mark, unit.waiting[0] if unit.waiting else None
        states = {
            "held": bool(unit.held),
            "parked": mark is not None and mark.parked is not None,
            "dead": mark is not None and mark.dead is not None,
            "settling": bool(unit.unsettled),
            "paused": (mark is not None and mark.paused is not None)
            or (self._paused is not None and head is not None),
            "empty": head is None,
            "uncommitted": head is not None and not head.committed,
            "arriving": head is not None and head.handover is not None,
            "delayed": head is not None and max(unit.open_at, head.not_before) > self._now,
            "rejoining": bool(self._former),
            "unadmitted": unit.ready in self._ready.unadmitted,
        }
        return next((state for state, holds in states.items() if holds), "ready")

    def units(self) -> Iterator[str]:
        """The names of all units that have messages, or something on record."""
        return (key for key in self._units if isinstance(key, str))

    def listed(self, most: int) -> list[UnitKey]:
        """Units, and ungrouped messages with something on record; what needs somebody first.

        Args:
            most: how many.
        """
        stuck = {unit.key for unit in self._ready.unadmitted_units()}
        stuck.update(key for key, unit in self._units.items() if unit.mark is not None)
        others = (key for key in self.units() if key not in stuck)
        return [*stuck, *(key for key, _ in zip(others, range(most), strict=False))][:most]

    def ungrouped(self) -> Iterator[int]:
        """The offsets of all ungrouped messages."""
        return (key for key in self._units if isinstance(key, int))

    def waiting(self, unit: UnitKey) -> list[UnitMessage]:
        """The messages of a unit in order, those that a session holds first.

        Args:
            unit: its name, or the offset of an ungrouped message.
        """
        found = self._units.get(unit)
        return [*(found.held or {}).values(), *found.waiting] if found else []
