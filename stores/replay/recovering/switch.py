"""Where one partition is read, primary → recovery → primary, and what of it is handed on.

Nothing here reads or writes. The caller keeps `to_json` in the transaction of what it hands on, and
makes the switch anew from it after whatever has failed: nothing is missed, and nothing comes twice.

A partition stops on the primary at its position. What is recovered is older than what is there: it
comes first. But a recovery through the router may also have what is on the primary behind that, or
comes to be. When its end mark is there, the primary is looked at, from the position to its end:

- what is *unread* comes on the primary, in its place; the recovery skips it;
- what is newer than anything unread of its origin is *deferred*: the unread is read first, then
  comes another round of the recovery, with what was deferred;
- the rest comes now, and is *delivered*: should it come on the primary too, that skips it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import orjson

from stores.replay.recovering.message_ids import MessageIds, origin_of

MOST = 200_000
"""Ranges of ids of what is unread in one partition."""
MOST_DELIVERED = 20_000
"""Ranges of ids that are written with each transaction."""
MOST_BYTES = 900_000
"""Of what is written with each transaction, as one record: a broker takes 1 MB."""


class Phase(Enum):
    """Where a partition is read.

    STOPPED: nowhere, a round of a recovery is about to begin. UNREAD: on the primary, between two
    rounds.
    """

    PRIMARY = "primary"
    STOPPED = "stopped"
    RECOVERY = "recovery"
    UNREAD = "unread"


class TooManyIds(ValueError):
    """A recovery through the router has more ids than are kept."""


class Seen(NamedTuple):
    """What is known of a record.

    Attributes:
        offset: where it was read.
        id: by which it is known on the primary and in the recovery; None: by nothing.
        replayed: whether it was published by a replay.
        ends: the request whose recovery ends here.
    """

    offset: int
    id: str | None = None
    replayed: bool = False
    ends: str | None = None


@dataclass(slots=True)
class _Look:
    """What is on the primary: ids from the position on, the highest offset of each origin, and
    the last offset that has an id."""

    unread: MessageIds = field(default_factory=MessageIds)
    highest: dict[str, int] = field(default_factory=dict)
    last: int = 0


@dataclass(slots=True)
class PartitionSwitch:
    """One partition.

    Attributes:
        phase: where it is read.
        request: the recovery that it is in, or was in last.
        position: the next offset of the primary.
        reached: the next offset of the recovery.
        until: up to where of the primary is looked for what is unread; in `UNREAD`, where the next
            round begins; None: it was not looked yet.
        above: what of the recovery is left: origin partition → only what is above; None: all.
        deferred: whether something has to wait for another round.
        delivered: ids that the primary skips.
    """

    phase: Phase = Phase.PRIMARY
    request: str = ""
    position: int = 0
    reached: int = 0
    until: int | None = None
    above: dict[str, int] | None = None
    deferred: bool = False
    delivered: MessageIds = field(default_factory=MessageIds)
    _look: _Look | None = None

    @property
    def on_primary(self) -> bool:
        """Whether the primary is read."""
        return self.phase in (Phase.PRIMARY, Phase.UNREAD)

    def stop(self, request: str) -> None:
        """Leave the primary for a recovery."""
        assert self.phase is Phase.PRIMARY
        self.request, self.above = request, None
        self._stop()

    def _stop(self) -> None:
        self.phase, self.reached, self.until = Phase.STOPPED, 0, None
        self.deferred, self._look = False, None

    def begin(self, end: int | None = None) -> int:
        """Read the recovery, or go on with it.

        Args:
            end: of the primary, when the recovery's end mark was there; None: all of the recovery
                is older than the position.

        Returns:
            Up to where `look` has to see the primary.
        """
        assert not self.on_primary
        self.phase, self._look = Phase.RECOVERY, None
        if end is not None:
            self._look = _Look()
            self.until = end if self.until is None else self.until
        return self.until or 0

    def look(self, primary: Iterable[Seen]) -> None:
        """Look at some of the primary, before the recovery is read.

        Args:
            primary: records from the position on, or from some earlier, by which fewer ids have to
                be kept.

        Raises:
            TooManyIds: too much is unread.
        """
        look, until = self._look, self.until
        assert look is not None
        assert until is not None
        for record in primary:
            if record.id is None or record.replayed or record.offset >= until:
                continue
            origin = origin_of(record.id)
            if origin is not None and origin.ordered:
                known = look.highest.get(origin.partition, -1)
                look.highest[origin.partition] = max(known, origin.offset)
            if record.offset >= self.position:
                look.last = record.offset
                look.unread.add(record.id)
        if len(look.unread) > MOST:
            raise TooManyIds(f"more than {MOST} ranges of ids are unread on the primary")

    def recovered(self, records: Sequence[Seen]) -> list[int]:
        """Decide on records of the recovery; at the end mark the round is over.

        Args:
            records: in order; those that were there before are passed over.

        Returns:
            The indexes of those to hand on.

        Raises:
            TooManyIds: too many ids have to be kept.
        """
        assert self.phase is Phase.RECOVERY
        look, kept, held = self._look, list[int](), len(self.delivered)
        waiting = set[str]() if look is None else look.unread.ordered()
        for index, record in enumerate(records):
            if record.offset < self.reached:
                continue
            self.reached = record.offset + 1
            if record.ends == self.request:
                self._end_round(look, waiting)
                break
            if look is None or record.id is None or self._comes(record.id, look, waiting):
                kept.append(index)
        if len(self.delivered) > MOST_DELIVERED:
            raise TooManyIds(f"more than {MOST_DELIVERED} ranges of ids have to be kept")
        if len(self.delivered) > held and len(orjson.dumps(self.to_json())) > MOST_BYTES:
            raise TooManyIds(f"more than {MOST_BYTES:,} bytes of ids have to be kept")
        return kept

    def _comes(self, id: str, look: _Look, waiting: set[str]) -> bool:
        origin = origin_of(id)
        partition, offset = ("", 0) if origin is None else (origin.partition, origin.offset)
        if self.above is not None and offset <= self.above.get(partition, offset):
            return False  # it came in a round before
        if id in look.unread:
            self.delivered.discard(id)  # by another request
            return False
        highest = look.highest.get(partition, -1)
        if partition in waiting and offset > highest:
            self.deferred = True
            return False
        if offset >= highest:  # else it does not come on the primary any more
            self.delivered.add(id)
        return True

    def _end_round(self, look: _Look | None, waiting: set[str]) -> None:
        if look is None or not self.deferred:
            self.leave()
            return
        of = waiting if self.above is None else waiting & self.above.keys()
        self.above = {each: look.highest[each] for each in of}
        self.phase, self.until, self._look = Phase.UNREAD, look.last + 1, None

    def leave(self) -> None:
        """Go back to the primary at `position`, also from a recovery that does not end."""
        self._stop()
        self.phase, self.above = Phase.PRIMARY, None

    def read(self, records: Sequence[Seen]) -> list[int]:
        """Decide on records of the primary; before another round, only up to where that begins.

        Args:
            records: in order; those that were there before are passed over.

        Returns:
            The indexes of those to hand on.
        """
        assert self.on_primary
        kept = []
        until = self.until if self.phase is Phase.UNREAD else None
        for index, record in enumerate(records):
            if until is not None and record.offset >= until:
                break
            if record.offset < self.position:
                continue
            self.position = record.offset + 1
            skipped = False
            if record.id is not None and not record.replayed and self.delivered:
                skipped = record.id in self.delivered
                self.delivered.forget_before(record.id)
            if not skipped:
                kept.append(index)
        if until is not None and records and records[-1].offset + 1 >= until:
            self._stop()
        return kept

    def to_json(self) -> dict[str, Any]:
        """What has to be kept, as a JSON object; on the primary, the group keeps the position."""
        return {
            "phase": self.phase.value,
            "request": self.request,
            "position": 0 if self.phase is Phase.PRIMARY else self.position,
            "reached": self.reached,
            "until": self.until,
            "above": self.above,
            "deferred": self.deferred,
            "delivered": self.delivered.to_json(),
        }

    @classmethod
    def from_json(cls, found: dict[str, Any] | None, position: int) -> "PartitionSwitch":
        """Read what `to_json` wrote.

        Args:
            found: this; None: nothing was written yet.
            position: the group's on the primary.
        """
        if found is None:
            return cls(position=position)
        switch = cls(Phase(found["phase"]), found["request"], found["position"])
        for name in ("reached", "until", "above", "deferred"):
            setattr(switch, name, found[name])
        switch.delivered = MessageIds.from_json(found["delivered"])
        if switch.phase is Phase.PRIMARY:
            switch.position = position
        return switch
